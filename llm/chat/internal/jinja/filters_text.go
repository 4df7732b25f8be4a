package jinja

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
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
	return trimRight(trimLeft(s, isSpace), isSpace), nil
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
		s = trimLeft(s, in)
	}
	if right {
		s = trimRight(s, in)
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

// replace is s.replace(old, new, count), whose arguments follow the first one.
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
	u, err := c.unmark(s)
	if err != nil {
		return nil, err
	}
	old = withoutMarks(old)
	n := strings.Count(u.plain, old)
	if most >= 0 {
		n = int(min(int64(n), most))
	}
	if err := c.takeMany(int64(len(by)), int64(n)); err != nil {
		return nil, err
	}
	if err := c.take(len(s)); err != nil {
		return nil, err
	}
	if u.marks == nil {
		return strings.Replace(s, old, by, n), nil
	}
	var b strings.Builder
	b.Grow(len(s) + n*len(by))
	done := 0 // in u.plain
	for at := 0; n > 0; n-- {
		if old != "" {
			at += strings.Index(u.plain[at:], old)
		}
		b.WriteString(u.part(done, at) + by)
		done = at + len(old)
		at = done
		if old == "" {
			_, size := utf8.DecodeRuneInString(u.plain[at:])
			at += size
		}
	}
	b.WriteString(u.part(done, len(u.plain)))
	return b.String(), nil
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
	for range strings.FieldsFuncSeq(withoutMarks(s), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsNumber(r) && r != '_' }) {
		words++
	}
	return words, nil
}

func urlencodeFilter(c *Call) (Value, error) {
	switch v := c.value().(type) {
	case *List, *Dict: // Jinja makes a query of them
		return nil, fmt.Errorf("urlencode of %s", kindOf(v))
	}
	s, err := c.text(c.value())
	if err != nil {
		return nil, err
	}
	if err := c.takeMany(3, int64(len(s))); err != nil {
		return nil, err
	}
	const digits = "0123456789ABCDEF"
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch {
		case isName(s[i]) || strings.IndexByte("-.~/", s[i]) >= 0:
			b.WriteByte(s[i])
		case strings.HasPrefix(s[i:], string(MarkBegin)) || strings.HasPrefix(s[i:], string(MarkEnd)):
			b.WriteString(s[i : i+len(string(MarkBegin))])
			i += len(string(MarkBegin)) - 1
		default:
			b.WriteByte('%')
			b.WriteByte(digits[s[i]>>4])
			b.WriteByte(digits[s[i]&15])
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
