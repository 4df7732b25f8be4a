package jinja

import (
	"fmt"
	"strings"
	"unicode"
)

// method returns a method of a text, a list or a dictionary, or nil.
func method(of Value, name string) *Function {
	switch v := of.(type) {
	case string:
		if f := textMethods[name]; f != nil {
			return &Function{Name: name, Call: func(c *Call) (Value, error) { return c.withText(v, f) }}
		}
	case *List:
		if f := listMethods[name]; f != nil {
			return &Function{Name: name, Call: func(c *Call) (Value, error) { return f(c, v) }}
		}
	case *Dict:
		if f := dictMethods[name]; f != nil {
			return &Function{Name: name, Call: func(c *Call) (Value, error) { return f(c, v) }}
		}
	}
	return nil
}

// withText calls a method with its text as the first argument, as for filters.
func (c *Call) withText(s string, f builtin) (Value, error) {
	if err := c.scan(len(s)); err != nil {
		return nil, err
	}
	one, err := c.with(s, c.positional)
	if err != nil {
		return nil, err
	}
	return f(one)
}

// textMethods are the methods of Python's str.
var textMethods = map[string]builtin{
	"strip":        stripMethod(true, true),
	"lstrip":       stripMethod(true, false),
	"rstrip":       stripMethod(false, true),
	"split":        splitMethod(false),
	"rsplit":       splitMethod(true),
	"splitlines":   splitlinesMethod,
	"partition":    partitionMethod(strings.Index),
	"rpartition":   partitionMethod(strings.LastIndex),
	"startswith":   affixMethod(hasPrefix),
	"endswith":     affixMethod(hasSuffix),
	"removeprefix": cutMethod(trimPrefix),
	"removesuffix": cutMethod(trimSuffix),
	"replace":      func(c *Call) (Value, error) { return c.replace(c.value().(string)) },
	"upper":        textFilter(upper),
	"lower":        textFilter(lower),
	"capitalize":   textFilter(capitalize),
	"title":        textFilter(titleWords),
	"swapcase":     textFilter(swapcase),
	"count":        countMethod,
	"find":         findMethod(strings.Index, false),
	"rfind":        findMethod(strings.LastIndex, false),
	"index":        findMethod(strings.Index, true),
	"rindex":       findMethod(strings.LastIndex, true),
	"join":         joinMethod,
	"format":       formatMethod,
	"center":       padMethod(0),
	"ljust":        padMethod(1),
	"rjust":        padMethod(-1),
	"zfill":        zfillMethod,
	"isdigit":      isMethod(func(r rune) bool { return unicode.IsDigit(r) || unicode.Is(otherDigits, r) }),
	"isdecimal":    isMethod(unicode.IsDigit),
	"isnumeric":    isMethod(unicode.IsNumber),
	"isalpha":      isMethod(unicode.IsLetter),
	"isalnum":      isMethod(func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }),
	"isspace":      isMethod(isSpace),
	"isupper":      caseMethod(isUpper, isLower),
	"islower":      caseMethod(isLower, isUpper),
}

// otherDigits are the digits of Python's str.isdigit that are not decimal, such as superscripts: those with Unicode's
// Numeric_Type=Digit.
var otherDigits = &unicode.RangeTable{
	R16: []unicode.Range16{
		{0xb2, 0xb3, 1}, {0xb9, 0xb9, 1}, {0x1369, 0x1371, 1}, {0x19da, 0x19da, 1}, {0x2070, 0x2070, 1}, {0x2074, 0x2079, 1},
		{0x2080, 0x2089, 1}, {0x2460, 0x2468, 1}, {0x2474, 0x247c, 1}, {0x2488, 0x2490, 1}, {0x24ea, 0x24ea, 1},
		{0x24f5, 0x24fd, 1}, {0x24ff, 0x24ff, 1}, {0x2776, 0x277e, 1}, {0x2780, 0x2788, 1}, {0x278a, 0x2792, 1},
	},
	R32:         []unicode.Range32{{0x10a40, 0x10a43, 1}, {0x10e60, 0x10e68, 1}, {0x11052, 0x1105a, 1}, {0x1f100, 0x1f10a, 1}},
	LatinOffset: 2,
}

func stripMethod(left, right bool) builtin {
	return func(c *Call) (Value, error) {
		s := c.value().(string)
		if v, ok := c.arg(1, "chars"); ok && v != nil {
			chars, err := c.textOnly(v)
			if err != nil {
				return nil, err
			}
			return c.strip(s, chars, left, right)
		}
		if left {
			s = trimLeft(s, isSpace)
		}
		if right {
			s = trimRight(s, isSpace)
		}
		return s, nil
	}
}

// textOnly rejects values other than texts.
func (c *Call) textOnly(v Value) (string, error) {
	s, ok := v.(string)
	if !ok {
		return "", fmt.Errorf("%s is not a text", kindOf(v))
	}
	return s, c.scan(len(s))
}

// one returns the first argument of a method, which must be a text.
func (c *Call) one() (string, error) {
	if len(c.positional) < 2 {
		return "", fmt.Errorf("an argument is missing")
	}
	return c.textOnly(c.positional[1])
}

func joinMethod(c *Call) (Value, error) {
	if len(c.positional) != 2 {
		return nil, fmt.Errorf("takes one list")
	}
	items, err := c.iterate(c.positional[1])
	if err != nil {
		return nil, err
	}
	return c.join(items, c.value().(string), c.textOnly)
}

func padMethod(side int) builtin {
	return func(c *Call) (Value, error) {
		width, err := c.intArg(1, "width", 0)
		if err != nil {
			return nil, err
		}
		fill, err := c.textArg(2, "fillchar", " ")
		if err != nil {
			return nil, err
		}
		return c.pad(c.value().(string), width, fill, side)
	}
}

func zfillMethod(c *Call) (Value, error) {
	width, err := c.intArg(1, "width", 0)
	if err != nil {
		return nil, err
	}
	s, sign := c.value().(string), ""
	if s != "" && (s[0] == '-' || s[0] == '+') {
		s, sign = s[1:], s[:1]
	}
	padded, err := c.pad(s, max(width, 0)-int64(len(sign)), "0", -1)
	if err != nil {
		return nil, err
	}
	return c.concat(sign, padded)
}

func isMethod(holds func(rune) bool) builtin {
	return func(c *Call) (Value, error) {
		s := withoutMarks(c.value().(string))
		return s != "" && strings.IndexFunc(s, func(r rune) bool { return !holds(r) }) < 0, nil
	}
}

// caseMethod is isupper or islower: there are letters of the one case, and none of the other or of title case.
func caseMethod(wanted, other func(rune) bool) builtin {
	return func(c *Call) (Value, error) {
		s := c.value().(string)
		return strings.ContainsFunc(s, wanted) && !strings.ContainsFunc(s, other) && !strings.ContainsFunc(s, unicode.IsTitle), nil
	}
}
