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
		if by == "" {
			return nil, fmt.Errorf("split by nothing")
		}
		return c.texts(splitBy(s, by, most, fromRight), fromRight)
	}
}

// splitBy splits at most the given number of times, or everywhere if that is
// negative. From the right, the last piece comes first.
func splitBy(s, by string, most int64, fromRight bool) iter.Seq[string] {
	return func(yield func(string) bool) {
		rest, piece, found := s, "", true
		for left := most; left != 0; left-- {
			if fromRight {
				at := strings.LastIndex(rest, by)
				if found = at >= 0; found {
					rest, piece = rest[:at], rest[at+len(by):]
				}
			} else {
				var after string
				if piece, after, found = strings.Cut(rest, by); found {
					rest = after
				}
			}
			if !found {
				break
			}
			if !yield(piece) {
				return
			}
		}
		yield(rest)
	}
}

// splitSpaces is splitBy at runs of white space.
func splitSpaces(s string, most int64, fromRight bool) iter.Seq[string] {
	trim, cut := strings.TrimLeftFunc, strings.IndexFunc
	if fromRight {
		trim, cut = strings.TrimRightFunc, strings.LastIndexFunc
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
	return c.texts(lines(c.value().(string), c.boolArg(1, "keepends", false)), false)
}

func partitionMethod(find func(s, sub string) int) builtin {
	return func(c *Call) (Value, error) {
		s := c.value().(string)
		by, err := c.one()
		if err != nil {
			return nil, err
		}
		if by == "" {
			return nil, fmt.Errorf("partition by nothing")
		}
		at := find(s, by)
		if at >= 0 {
			return tuple(s[:at], by, s[at+len(by):]), nil
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
