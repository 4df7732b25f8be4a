package jinja

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// placeholders fills the placeholders of a text with values, in order or by name.
type placeholders struct {
	builder
	values []Value
	named  *Dict
	next   int
}

func (p *placeholders) take1() (Value, error) {
	if p.next >= len(p.values) {
		return nil, fmt.Errorf("a value is missing for a placeholder")
	}
	p.next++
	return p.values[p.next-1], nil
}

// format is Python's s % values.
func (m *meter) format(s string, values Value) (Value, error) {
	p := &placeholders{builder: builder{meter: m}, values: []Value{values}}
	if l, ok := values.(*List); ok && l.tuple {
		p.values = l.Items
	}
	p.named, _ = values.(*Dict)
	for s != "" {
		at := strings.IndexByte(s, '%')
		if at < 0 {
			at = len(s)
		}
		if err := p.write(s[:at]); err != nil {
			return nil, err
		}
		if s = s[at:]; s == "" {
			break
		}
		rest, err := p.directive(s[1:])
		if err != nil {
			return nil, err
		}
		s = rest
	}
	if p.named == nil && p.next < len(p.values) {
		return nil, fmt.Errorf("more values than placeholders")
	}
	return p.b.String(), nil
}

// directive is what follows a percent sign: (name), flags, width, precision and a
// letter.
func (p *placeholders) directive(s string) (rest string, err error) {
	var v Value
	given := false
	if strings.HasPrefix(s, "(") {
		name, after, ok := strings.Cut(s[1:], ")")
		if !ok || p.named == nil {
			return "", fmt.Errorf("a placeholder with a name, but no dictionary")
		}
		if v, given = p.named.Get(name); !given {
			return "", fmt.Errorf("no value is named %.40q", name)
		}
		s = after
	}
	flags := s[:len(s)-len(strings.TrimLeft(s, "-+ 0#"))]
	s = s[len(flags):]
	width, s := digits(s)
	precision := -1
	if strings.HasPrefix(s, ".") {
		precision, s = digits(s[1:])
	}
	if s == "" || width > 1000 || precision > 100 {
		return "", fmt.Errorf("a placeholder without a letter, or too wide")
	}
	letter := s[0]
	if letter == '%' {
		return s[1:], p.write("%")
	}
	if !given {
		if v, err = p.take1(); err != nil {
			return "", err
		}
	}
	var prefix, text string
	if letter == 's' || letter == 'r' {
		text, err = p.printed(letter, precision, v)
		flags = strings.ReplaceAll(flags, "0", "")
	} else {
		prefix, text, err = numeral(letter, flags, precision, v)
	}
	if err != nil {
		return "", err
	}
	return s[1:], p.padded(prefix, text, flags, width)
}

// padded writes a converted value with the width of its placeholder.
func (p *placeholders) padded(prefix, text, flags string, width int) error {
	side := -1
	switch {
	case strings.Contains(flags, "-"):
		side = 1
	case strings.Contains(flags, "0"):
		text = zeros(text, width-len(prefix))
	}
	filled, err := p.pad(prefix+text, int64(width), " ", side)
	if err != nil {
		return err
	}
	return p.write(filled)
}

// zeros puts zeros before a number up to a length.
func zeros(digits string, length int) string {
	return strings.Repeat("0", max(length-len(digits), 0)) + digits
}

// digits reads a number, which is 0 if absent.
func digits(s string) (int, string) {
	n := 0
	for n < len(s) && isDigit(s[n]) {
		n++
	}
	v, err := strconv.Atoi(s[:n])
	if err != nil && n > 0 {
		v = math.MaxInt32
	}
	return v, s[n:]
}

// printed is a value as a text, for the letters s and r.
func (p *placeholders) printed(letter byte, precision int, v Value) (string, error) {
	if letter == 's' {
		text, err := p.text(v)
		return firstCharacters(text, precision), err
	}
	q := printer{builder{meter: p.meter}}
	err := q.repr(v)
	return firstCharacters(q.b.String(), precision), err
}

// numeral writes a number in the form of another letter: its sign and what shows its base, and
// its digits.
func numeral(letter byte, flags string, precision int, v Value) (prefix, text string, err error) {
	f, ok := number(v)
	if !ok {
		return "", "", fmt.Errorf("%%%c of %s", letter, kindOf(v))
	}
	marked := strings.Contains(flags, "#")
	base := map[byte]int{'d': 10, 'i': 10, 'u': 10, 'x': 16, 'X': 16, 'o': 8}[letter]
	switch {
	case base > 0:
		text, err = integerText(base, f, v)
	case strings.IndexByte("fFeE", letter) < 0:
		err = fmt.Errorf("%%%c is not supported", letter)
	case marked:
		err = fmt.Errorf("%%#%c is not supported", letter)
	default:
		if precision < 0 {
			precision = 6
		}
		text = strings.ToLower(strings.TrimPrefix(strconv.FormatFloat(f, letter|0x20, precision, 64), "+"))
	}
	if err != nil {
		return "", "", err
	}
	text, negative := strings.CutPrefix(text, "-")
	switch {
	case negative:
		prefix = "-"
	case strings.Contains(flags, "+"):
		prefix = "+"
	case strings.Contains(flags, " "):
		prefix = " "
	}
	if base > 0 {
		text = zeros(text, precision)
	}
	if marked && base != 10 {
		prefix += "0" + string(letter)
	}
	if letter == 'X' || letter == 'E' || letter == 'F' {
		text = strings.ToUpper(text)
	}
	return prefix, text, nil
}

// integerText is the whole part of a number f, which is v, in a base.
func integerText(base int, f float64, v Value) (string, error) {
	i, isInt := integer(v)
	n, isLong := v.(longInteger)
	switch {
	case base != 10 && !isInt:
		return "", fmt.Errorf("%s in base %d", kindOf(v), base)
	case isLong:
		return string(n), nil
	case !isInt && (math.Abs(f) >= 1<<63 || f != f):
		return "", errOverflow
	case !isInt:
		i = int64(f)
	}
	return strconv.FormatInt(i, base), nil
}

// firstCharacters returns the first n characters; all, if n is negative.
func firstCharacters(s string, n int) string {
	rest := s
	for ; n > 0; n-- {
		next := nextCharacter(rest)
		if next == 0 {
			return s
		}
		rest = rest[next:]
	}
	if n == 0 {
		return s[:len(s)-len(rest)]
	}
	return s
}

// formatMethod is s.format(…) with placeholders {}, {0} and {name}.
func formatMethod(c *Call) (Value, error) {
	p := &placeholders{builder: builder{meter: c.meter}, values: c.positional[1:]}
	s := c.value().(string)
	for s != "" {
		at := strings.IndexAny(s, "{}")
		if at < 0 {
			at = len(s)
		}
		if err := p.write(s[:at]); err != nil {
			return nil, err
		}
		if s = s[at:]; s == "" {
			break
		}
		if len(s) > 1 && s[1] == s[0] {
			if err := p.write(s[:1]); err != nil {
				return nil, err
			}
			s = s[2:]
			continue
		}
		field, rest, ok := strings.Cut(s[1:], "}")
		if s[0] == '}' || !ok {
			return nil, fmt.Errorf("a brace without its other half")
		}
		v, err := p.field(c, field)
		if err != nil {
			return nil, err
		}
		text, err := c.text(v)
		if err != nil {
			return nil, err
		}
		if err := p.write(text); err != nil {
			return nil, err
		}
		s = rest
	}
	return p.b.String(), nil
}

// field is the value of a placeholder of format.
func (p *placeholders) field(c *Call, field string) (Value, error) {
	if field == "" {
		return p.take1()
	}
	if n, err := strconv.Atoi(field); err == nil && n >= 0 {
		if n >= len(p.values) {
			return nil, fmt.Errorf("there is no value %d", n)
		}
		return p.values[n], nil
	}
	if v, ok := c.named[field]; ok {
		return v, nil
	}
	return nil, fmt.Errorf("placeholder {%.40s} is not supported, or no value has its name", field)
}
