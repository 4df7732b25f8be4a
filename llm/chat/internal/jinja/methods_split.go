package jinja

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"unicode/utf8"
)

func splitMethod(fromRight bool) builtin {
	return func(c *Call) (Value, error) {
		s := c.value().(string)
		most, err := c.intArg(2, "maxsplit", -1)
		if err != nil {
			return nil, err
		}
		sep, ok := c.arg(1, "sep")
		if !ok || sep == nil {
			return c.texts(splitSpaces(s, most, fromRight), fromRight)
		}
		by, err := c.textOnly(sep)
		if err != nil {
			return nil, err
		}
		if by = withoutMarks(by); by == "" {
			return nil, fmt.Errorf("split by nothing")
		}
		u, err := c.unmark(s)
		if err != nil {
			return nil, err
		}
		return c.texts(splitBy(u, by, most, fromRight), fromRight)
	}
}

// splitBy splits at most the given number of times, or everywhere if that is
// negative. From the right, the last piece comes first.
func splitBy(u unmarked, by string, most int64, fromRight bool) iter.Seq[string] {
	return func(yield func(string) bool) {
		start, end := 0, len(u.plain) // of the rest
		for left := most; left != 0; left-- {
			rest := u.plain[start:end]
			at := strings.Index(rest, by)
			if fromRight {
				at = strings.LastIndex(rest, by)
			}
			if at < 0 {
				break
			}
			at += start
			piece := u.part(start, at)
			if fromRight {
				piece, end = u.part(at+len(by), end), at
			} else {
				start = at + len(by)
			}
			if !yield(piece) {
				return
			}
		}
		yield(u.part(start, end))
	}
}

// splitSpaces is splitBy at runs of white space.
func splitSpaces(s string, most int64, fromRight bool) iter.Seq[string] {
	trim, cut := trimLeft, strings.IndexFunc
	if fromRight {
		trim, cut = trimRight, strings.LastIndexFunc
	}
	return func(yield func(string) bool) {
		rest := trim(s, isSpace)
		for left := most; rest != "" && left != 0; left-- {
			at := cut(rest, isSpace)
			if at < 0 {
				break
			}
			word, other := rest[:at], rest[at:]
			if fromRight {
				_, size := utf8.DecodeRuneInString(other)
				word, other = other[size:], word
			}
			if !yield(word) {
				return
			}
			rest = trim(other, isSpace)
		}
		if rest != "" {
			yield(rest)
		}
	}
}

// texts makes a list of texts, which may come in reverse.
func (m *meter) texts(of iter.Seq[string], reversed bool) (Value, error) {
	out := &List{}
	for s := range of {
		if err := m.push(&out.Items, s); err != nil {
			return nil, err
		}
	}
	if reversed {
		slices.Reverse(out.Items)
	}
	return out, nil
}

func splitlinesMethod(c *Call) (Value, error) {
	return c.texts(lines(c.value().(string), c.boolArg(1, "keepends")), false)
}

func partitionMethod(find func(s, sub string) int) builtin {
	return func(c *Call) (Value, error) {
		s := c.value().(string)
		by, err := c.one()
		if err != nil {
			return nil, err
		}
		if by = withoutMarks(by); by == "" {
			return nil, fmt.Errorf("partition by nothing")
		}
		u, err := c.unmark(s)
		if err != nil {
			return nil, err
		}
		if at := find(u.plain, by); at >= 0 {
			end := at + len(by)
			return tuple(u.part(0, at), u.part(at, end), u.part(end, len(u.plain))), nil
		}
		if find("aa", "a") == 0 {
			return tuple(s, "", ""), nil
		}
		return tuple("", "", s), nil
	}
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
