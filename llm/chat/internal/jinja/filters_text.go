package jinja

import (
	"fmt"
	"iter"
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
	if err := c.scan(len(s)); err != nil {
		return nil, err
	}
	return strings.TrimFunc(s, unicode.IsSpace), nil
}

// strip takes characters off one or both ends of a text.
func (m *meter) strip(s, chars string, left, right bool) (Value, error) {
	if err := m.takeMany(bytesPerItem, int64(len(chars))); err != nil {
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
	if err := c.takeMany(int64(len(by)), int64(n)); err != nil {
		return nil, err
	}
	if err := c.take(len(s)); err != nil {
		return nil, err
	}
	return strings.Replace(s, old, by, n), nil
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
			if indent, err = c.repeatText(" ", n); err != nil {
				return nil, err
			}
		} else if indent, ok = v.(string); !ok {
			return nil, fmt.Errorf("width is %s", kindOf(v))
		}
	}
	if s, err = c.concat(s, "\n"); err != nil {
		return nil, err
	}
	b := builder{meter: c.meter}
	blank, first := c.boolArg(3, "blank", false), c.boolArg(2, "first", false)
	start := true
	for line := range lines(s, false) {
		between, before := "\n", indent
		if start {
			between = ""
		}
		if start && !first || !start && !blank && line == "" {
			before = ""
		}
		if err := b.writeAll(between, before, line); err != nil {
			return nil, err
		}
		start = false
	}
	return b.b.String(), nil
}

// lines yields s.splitlines(ends).
func lines(s string, ends bool) iter.Seq[string] {
	return func(yield func(string) bool) {
		for s := s; s != ""; {
			at, size := len(s), 0
			if i := strings.IndexFunc(s, isLineEnd); i >= 0 {
				at = i
				_, size = utf8.DecodeRuneInString(s[at:])
			}
			if strings.HasPrefix(s[at:], "\r\n") {
				size = 2
			}
			line := s[:at]
			if ends {
				line = s[:at+size]
			}
			if s = s[at+size:]; !yield(line) {
				return
			}
		}
	}
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
func (m *meter) pad(s string, width int64, fill string, side int) (string, error) {
	if utf8.RuneCountInString(fill) != 1 {
		return "", fmt.Errorf("%.40q is not one character", fill)
	}
	n := utf8.RuneCountInString(s)
	if err := m.take(len(s)); err != nil || width <= int64(n) {
		return s, err
	}
	missing := width - int64(n)
	if err := m.takeMany(2*int64(len(fill)), missing); err != nil { // twice, as it is copied
		return "", err
	}
	left := missing
	switch side {
	case 0:
		left = missing/2 + missing&width&1
	case 1:
		left = 0
	}
	return strings.Repeat(fill, int(left)) + s + strings.Repeat(fill, int(missing-left)), nil
}

func wordcountFilter(c *Call) (Value, error) {
	s, err := c.text(c.value())
	if err != nil {
		return nil, err
	}
	if err := c.scan(len(s)); err != nil {
		return nil, err
	}
	words := int64(0)
	for range strings.FieldsFuncSeq(s, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsNumber(r) && r != '_' }) {
		words++
	}
	return words, nil
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
	for _, part := range []string{s, end} {
		if err := c.takeMany(8, int64(len(part))); err != nil {
			return nil, err
		}
	}
	text, tail := []rune(s), int64(utf8.RuneCountInString(end))
	if leeway < 0 || length < tail {
		return nil, fmt.Errorf("length %d is less than that of %.40q, or leeway is negative", length, end)
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
	if err := c.takeMany(3, int64(len(s))); err != nil {
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
	return c.join(items, between, func(item Value) (string, error) {
		if byAttribute && path != nil {
			if item, err = c.follow(item, path); err != nil {
				return "", err
			}
		}
		return c.text(item)
	})
}

// join writes the texts of items with another between them.
func (m *meter) join(items []Value, between string, text func(Value) (string, error)) (Value, error) {
	b := builder{meter: m}
	for i, item := range items {
		s, err := text(item)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			if err := b.write(between); err != nil {
				return nil, err
			}
		}
		if err := b.write(s); err != nil {
			return nil, err
		}
	}
	return b.b.String(), nil
}
