package jinja

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// span returns the part of n characters or items that two arguments choose, which may be
// absent: from start, up to end. Nothing is found in it where start is above end.
func (c *Call) span(at, n int) (start, end int, err error) {
	if len(c.positional) > at+2 || len(c.named) > 0 {
		return 0, 0, fmt.Errorf("at most %d arguments, by position", at+2)
	}
	bounds := [2]int64{0, int64(n)}
	for i, v := range c.positional[min(at, len(c.positional)):] {
		if v == nil {
			continue
		}
		b, ok := integer(v)
		if !ok {
			return 0, 0, fmt.Errorf("start or end is %s, not an integer", kindOf(v))
		}
		if b < 0 {
			b = max(b+int64(n), 0)
		}
		bounds[i] = min(b, int64(n)+1)
	}
	return int(bounds[0]), int(min(bounds[1], int64(n))), nil
}

// part returns the part of the text that the third and the fourth argument choose, and
// how many characters are before it. ok: there is such a part, which may be empty.
func (c *Call) part() (s string, before int, ok bool, err error) {
	s = c.value().(string)
	start, end, err := c.span(2, length(s))
	if err != nil || start > end || len(c.positional) <= 2 {
		return s, 0, start <= end, err
	}
	starts, err := c.characters(s)
	if err != nil {
		return "", 0, false, err
	}
	return s[starts[start]:starts[end]], start, true, nil
}

// affixMethod is startswith or endswith, with one text or a tuple of them.
func affixMethod(has func(s, affix string) bool) builtin {
	return func(c *Call) (Value, error) {
		if len(c.positional) < 2 {
			return nil, fmt.Errorf("an argument is missing")
		}
		s, _, ok, err := c.part()
		if err != nil {
			return nil, err
		}
		options := []Value{c.positional[1]}
		if l, ok := c.positional[1].(*List); ok && l.tuple {
			options = l.Items
		}
		for _, one := range options {
			affix, err := c.textOnly(one)
			if err != nil {
				return nil, err
			}
			if ok && has(s, affix) {
				return true, nil
			}
		}
		return false, nil
	}
}

func cutMethod(cut func(s, affix string) string) builtin {
	return func(c *Call) (Value, error) {
		affix, err := c.one()
		return cut(c.value().(string), affix), err
	}
}

func countMethod(c *Call) (Value, error) {
	sub, err := c.one()
	if err != nil {
		return nil, err
	}
	s, _, ok, err := c.part()
	if err != nil || !ok {
		return int64(0), err
	}
	u, err := c.unmark(s)
	return int64(strings.Count(u.plain, withoutMarks(sub))), err
}

// findMethod counts characters, not bytes.
func findMethod(find func(s, sub string) int, must bool) builtin {
	return func(c *Call) (Value, error) {
		sub, err := c.one()
		if err != nil {
			return nil, err
		}
		s, before, ok, err := c.part()
		if err != nil {
			return nil, err
		}
		u, err := c.unmark(s)
		if err != nil {
			return nil, err
		}
		at := -1
		if ok {
			at = find(u.plain, withoutMarks(sub))
		}
		switch {
		case at >= 0:
			at = before + utf8.RuneCountInString(u.plain[:at])
		case must:
			return nil, fmt.Errorf("the text is not there")
		}
		return int64(at), nil
	}
}
