package jinja

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/language"
)

func trimFilter(c *Call) (Value, error) {
	if err := c.accept("value", "chars"); err != nil {
		return nil, err
	}
	s, err := c.text(c.value())
	if err != nil {
		return nil, err
	}
	if v, ok := c.arg(1, "chars"); ok && v != nil {
		chars, err := c.text(v)
		if err != nil {
			return nil, err
		}
		return c.strip(s, chars, true, true)
	}
	return strings.TrimFunc(s, unicode.IsSpace), c.scan(len(s))
}

// strip takes characters off one or both ends of a text.
func (m *meter) strip(s, chars string, left, right bool) (Value, error) {
	if err := m.takeMany(8, len(chars)); err != nil {
		return nil, err
	}
	if err := m.scan(len(s)); err != nil {
		return nil, err
	}
	set := map[rune]bool{}
	for _, r := range chars {
		set[r] = true
	}
	in := func(r rune) bool { return set[r] }
	if left {
		s = strings.TrimLeftFunc(s, in)
	}
	if right {
		s = strings.TrimRightFunc(s, in)
	}
	return s, nil
}

// replaceFilter is value|replace(old, new, count).
func replaceFilter(c *Call) (Value, error) {
	if err := c.accept("s", "old", "new", "count"); err != nil {
		return nil, err
	}
	s, err := c.text(c.value())
	if err != nil {
		return nil, err
	}
	return c.replace(s)
}

// replace is s.replace(old, new, count), with the arguments behind the first.
func (c *Call) replace(s string) (Value, error) {
	old, err := c.textArg(1, "old", "")
	if err != nil {
		return nil, err
	}
	by, err := c.textArg(2, "new", "")
	if err != nil {
		return nil, err
	}
	most := int64(-1)
	if v, ok := c.arg(3, "count"); ok && v != nil {
		if most, err = c.intArg(3, "count", -1); err != nil {
			return nil, err
		}
	}
	if err := c.scan(len(s) + len(old)); err != nil {
		return nil, err
	}
	n := strings.Count(s, old)
	if most >= 0 {
		n = int(min(int64(n), most))
	}
	if err := c.takeMany(max(len(by), 1), n); err != nil {
		return nil, err
	}
	return strings.Replace(s, old, by, n), c.take(len(s))
}

// indentFilter is value|indent(width, first, blank).
func indentFilter(c *Call) (Value, error) {
	if err := c.accept("s", "width", "first", "blank"); err != nil {
		return nil, err
	}
	s, err := c.text(c.value())
	if err != nil {
		return nil, err
	}
	indent := "    "
	if v, ok := c.arg(1, "width"); ok {
		if n, isInt := integer(v); isInt {
			made, err := c.repeat(" ", n)
			if err != nil {
				return nil, err
			}
			indent = made.(string)
		} else if indent, ok = v.(string); !ok {
			return nil, fmt.Errorf("width is %s", kindOf(v))
		}
	}
	if err := c.takeMany(max(len(indent), 1)+1, strings.Count(s, "\n")+1); err != nil {
		return nil, err
	}
	if err := c.take(len(s)); err != nil {
		return nil, err
	}
	lines := splitLines(s+"\n", false)
	blank := c.boolArg(3, "blank", false)
	for i, line := range lines {
		if i > 0 && (blank || line != "") || i == 0 && c.boolArg(2, "first", false) {
			lines[i] = indent + line
		}
	}
	return strings.Join(lines, "\n"), nil
}

// splitLines is s.splitlines(ends).
func splitLines(s string, ends bool) []string {
	var out []string
	for s != "" {
		at := strings.IndexFunc(s, isLineEnd)
		if at < 0 {
			return append(out, s)
		}
		_, size := utf8.DecodeRuneInString(s[at:])
		if strings.HasPrefix(s[at:], "\r\n") {
			size = 2
		}
		line := s[:at]
		if ends {
			line = s[:at+size]
		}
		out, s = append(out, line), s[at+size:]
	}
	return out
}

func isLineEnd(r rune) bool {
	return r >= '\n' && r <= '\r' || r >= 0x1c && r <= 0x1e || r == 0x85 || r == 0x2028 || r == 0x2029
}

func upper(s string) string { return cases.Upper(language.Und).String(s) }

func lower(s string) string { return cases.Lower(language.Und).String(s) }

func capitalize(s string) string {
	_, size := utf8.DecodeRuneInString(s)
	return strings.ToTitle(s[:size]) + lower(s[size:])
}

// title is the filter's: words begin behind spaces, hyphens and opening brackets.
func title(s string) string {
	start := true
	return strings.Map(func(r rune) rune {
		was := start
		start = unicode.IsSpace(r) || strings.ContainsRune("-({[<", r)
		if was {
			return unicode.ToTitle(r)
		}
		return unicode.ToLower(r)
	}, s)
}

func centerFilter(c *Call) (Value, error) {
	s, err := c.text(c.value())
	if err != nil {
		return nil, err
	}
	width, err := c.intArg(1, "width", 80)
	if err != nil {
		return nil, err
	}
	return c.pad(s, width, " ", 0)
}

// pad fills a text up to a width: side is -1 to fill on the left, 1 on the right,
// 0 on both.
func (m *meter) pad(s string, width int64, fill string, side int) (Value, error) {
	if utf8.RuneCountInString(fill) != 1 {
		return nil, fmt.Errorf("%q is not one character", fill)
	}
	n := utf8.RuneCountInString(s)
	if err := m.take(len(s)); err != nil || width <= int64(n) {
		return s, err
	}
	missing := int(width - int64(n))
	if err := m.takeMany(len(fill), missing); err != nil {
		return nil, err
	}
	left := missing
	switch side {
	case 0:
		left = missing/2 + missing&int(width)&1
	case 1:
		left = 0
	}
	return strings.Repeat(fill, left) + s + strings.Repeat(fill, missing-left), nil
}

func wordcountFilter(c *Call) (Value, error) {
	s, err := c.text(c.value())
	if err != nil {
		return nil, err
	}
	words := strings.FieldsFunc(s, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsNumber(r) && r != '_' })
	return int64(len(words)), c.takeMany(16, len(s))
}

// truncateFilter is value|truncate(length, killwords, end, leeway).
func truncateFilter(c *Call) (Value, error) {
	if err := c.accept("s", "length", "killwords", "end", "leeway"); err != nil {
		return nil, err
	}
	s, err := c.text(c.value())
	if err != nil {
		return nil, err
	}
	length, err := c.intArg(1, "length", 255)
	if err != nil {
		return nil, err
	}
	end, err := c.textArg(3, "end", "...")
	if err != nil {
		return nil, err
	}
	leeway, err := c.intArg(4, "leeway", 5)
	if err != nil {
		return nil, err
	}
	if err := c.takeMany(8, len(s)+len(end)); err != nil {
		return nil, err
	}
	text, tail := []rune(s), int64(utf8.RuneCountInString(end))
	if leeway < 0 || length < tail {
		return nil, fmt.Errorf("length %d is less than that of %q, or leeway is negative", length, end)
	}
	if int64(len(text))-leeway <= length {
		return s, nil
	}
	kept := string(text[:length-tail])
	if at := strings.LastIndexByte(kept, ' '); at >= 0 && !c.boolArg(2, "killwords", false) {
		kept = kept[:at]
	}
	return kept + end, nil
}

func urlencodeFilter(c *Call) (Value, error) {
	s, err := c.text(c.value())
	if err != nil {
		return nil, err
	}
	if err := c.takeMany(3, len(s)); err != nil {
		return nil, err
	}
	var b strings.Builder
	for i := range len(s) {
		if isName(s[i]) || strings.IndexByte("-.~/", s[i]) >= 0 {
			b.WriteByte(s[i])
		} else {
			fmt.Fprintf(&b, "%%%02X", s[i])
		}
	}
	return b.String(), nil
}

// joinFilter is value|join(d, attribute).
func joinFilter(c *Call) (Value, error) {
	if err := c.accept("value", "d", "attribute"); err != nil {
		return nil, err
	}
	items, err := c.iterate(c.value())
	if err != nil {
		return nil, err
	}
	between, err := c.textArg(1, "d", "")
	if err != nil {
		return nil, err
	}
	path, byAttribute := c.arg(2, "attribute")
	texts := make([]string, len(items))
	for i, item := range items {
		if byAttribute && path != nil {
			if item, err = c.follow(item, path); err != nil {
				return nil, err
			}
		}
		if texts[i], err = c.text(item); err != nil {
			return nil, err
		}
	}
	return c.join(texts, between)
}

func (m *meter) join(texts []string, between string) (Value, error) {
	if err := m.takeMany(len(between)+16, len(texts)); err != nil {
		return nil, err
	}
	for _, s := range texts {
		if err := m.take(len(s)); err != nil {
			return nil, err
		}
	}
	return strings.Join(texts, between), nil
}
