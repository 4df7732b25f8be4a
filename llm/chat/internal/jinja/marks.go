package jinja

import (
	"sort"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The marks around a place in a text; see chat.MarkBegin. They survive wherever the text
// around them does, and count neither as characters nor as places between them: comparisons and
// searches do not see them. The marks that begin before a character and those that end after it
// belong to it, and go where it goes; what is replaced loses them.
const (
	MarkBegin = '\uFDD0'
	MarkEnd   = '\uFDD1'
)

const (
	bothMarks = string(MarkBegin) + string(MarkEnd)
	markBytes = len(bothMarks) / 2
)

func isMark(r rune) bool { return r == MarkBegin || r == MarkEnd }

// length returns the number of characters.
func length(s string) int {
	return utf8.RuneCountInString(s) - strings.Count(s, string(MarkBegin)) - strings.Count(s, string(MarkEnd))
}

// nextCharacter returns the length in bytes of the first character, with its marks: those
// that begin before it and those that end after it. It is 0 where no character is left.
func nextCharacter(s string) int {
	found := false
	for i, r := range s {
		if r == MarkEnd || r == MarkBegin && !found {
			continue
		}
		if found {
			return i
		}
		found = true
	}
	if !found {
		return 0
	}
	return len(s)
}

// characters returns where each character begins, and the end of the last one.
func (m *meter) characters(s string) ([]int, error) {
	if err := m.scan(len(s)); err != nil {
		return nil, err
	}
	if err := m.takeMany(8, int64(length(s))+1); err != nil {
		return nil, err
	}
	at := 0
	out := append(make([]int, 0, length(s)+1), at)
	for n := nextCharacter(s); n > 0; n = nextCharacter(s[at:]) {
		at += n
		out = append(out, at)
	}
	return out, nil
}

// isMarked reports whether there may be marks in a text: both begin with these two bytes.
func isMarked(s string) bool { return strings.Contains(s, bothMarks[:2]) }

// skipMarks returns where the next byte of s that belongs to no mark is, from i on.
func skipMarks(s string, i int) int {
	for i+markBytes <= len(s) && (s[i:i+markBytes] == bothMarks[:markBytes] || s[i:i+markBytes] == bothMarks[markBytes:]) {
		i += markBytes
	}
	return i
}

// withoutMarks returns a text without its marks.
func withoutMarks(s string) string {
	if !isMarked(s) {
		return s
	}
	return strings.NewReplacer(string(MarkBegin), "", string(MarkEnd), "").Replace(s)
}

// compareTexts is strings.Compare without the marks of both.
func compareTexts(a, b string) int {
	if !isMarked(a) && !isMarked(b) {
		return strings.Compare(a, b)
	}
	for i, j := 0, 0; ; i, j = i+1, j+1 {
		i, j = skipMarks(a, i), skipMarks(b, j)
		if i == len(a) || j == len(b) || a[i] != b[j] {
			return strings.Compare(a[i:min(i+1, len(a))], b[j:min(j+1, len(b))])
		}
	}
}

// unmarked is a text without its marks, and where they were.
type unmarked struct {
	plain  string
	marked string
	marks  []int // for each mark, the place in plain
}

// unmark prepares a search in a text.
func (m *meter) unmark(s string) (unmarked, error) {
	u := unmarked{plain: s, marked: s}
	if !isMarked(s) {
		return u, nil
	}
	n := strings.Count(s, string(MarkBegin)) + strings.Count(s, string(MarkEnd))
	if err := m.takeMany(8, int64(n)); err != nil {
		return u, err
	}
	if err := m.take(len(s)); err != nil {
		return u, err
	}
	u.marks = make([]int, 0, n)
	for i, r := range s {
		if isMark(r) {
			u.marks = append(u.marks, i-markBytes*len(u.marks))
		}
	}
	u.plain = withoutMarks(s)
	return u, nil
}

// place returns where a place of plain is in the marked text: after the marks that end there,
// and before those that begin there.
func (u unmarked) place(at int) int {
	first := sort.SearchInts(u.marks, at)
	last := sort.SearchInts(u.marks, at+1)
	for ; last > first; last-- {
		if end := at + markBytes*last; u.marked[end-markBytes:end] == string(MarkEnd) {
			break
		}
	}
	return at + markBytes*last
}

// part returns the marked text of a part of plain.
func (u unmarked) part(start, end int) string { return u.marked[u.place(start):u.place(end)] }

// hasPrefix is strings.HasPrefix without the marks of both.
func hasPrefix(s, prefix string) bool { return afterPrefix(s, prefix) >= 0 }

// afterPrefix returns where a prefix ends in s, with the marks that end there, or -1.
func afterPrefix(s, prefix string) int {
	prefix = withoutMarks(prefix)
	at := 0
	for i := range len(prefix) {
		if at = skipMarks(s, at); at == len(s) || s[at] != prefix[i] {
			return -1
		}
		at++
	}
	for strings.HasPrefix(s[at:], string(MarkEnd)) {
		at += markBytes
	}
	return at
}

// hasSuffix is strings.HasSuffix without the marks of both.
func hasSuffix(s, suffix string) bool { return beforeSuffix(s, suffix) >= 0 }

// beforeSuffix returns where a suffix begins in s, with the marks that begin there, or -1.
func beforeSuffix(s, suffix string) int {
	suffix = withoutMarks(suffix)
	for i := len(suffix) - 1; i >= 0; i-- {
		for strings.HasSuffix(s, string(MarkBegin)) || strings.HasSuffix(s, string(MarkEnd)) {
			s = s[:len(s)-markBytes]
		}
		if s == "" || s[len(s)-1] != suffix[i] {
			return -1
		}
		s = s[:len(s)-1]
	}
	return len(strings.TrimRight(s, string(MarkBegin)))
}

func trimPrefix(s, prefix string) string { return s[max(afterPrefix(s, prefix), 0):] }

func trimSuffix(s, suffix string) string {
	if at := beforeSuffix(s, suffix); at >= 0 {
		return s[:at]
	}
	return s
}

// trimLeft is strings.TrimLeftFunc. The first character that is left keeps its marks.
func trimLeft(s string, in func(rune) bool) string {
	rest := strings.TrimLeftFunc(s, func(r rune) bool { return in(r) || isMark(r) })
	if len(rest) == len(s) {
		return s
	}
	return s[len(strings.TrimRight(s[:len(s)-len(rest)], string(MarkBegin))):]
}

// trimRight is strings.TrimRightFunc. The last character that is left keeps its marks.
func trimRight(s string, in func(rune) bool) string {
	rest := strings.TrimRightFunc(s, func(r rune) bool { return in(r) || isMark(r) })
	after := s[len(rest):]
	return s[:len(s)-len(strings.TrimLeft(after, string(MarkEnd)))]
}

// TrimRight is Python's str.rstrip.
func TrimRight(s string) string { return trimRight(s, isSpace) }

// isSpace is Python's str.isspace for a character.
func isSpace(r rune) bool { return r >= 0x1c && r <= 0x1f || unicode.IsSpace(r) }
