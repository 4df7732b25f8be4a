package jinja

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// The marks around a place in a text; see chat.MarkBegin. They survive wherever the text
// around them does, and count neither as characters nor as places between them.
const (
	MarkBegin = '\uFDD0'
	MarkEnd   = '\uFDD1'
)

const bothMarks = string(MarkBegin) + string(MarkEnd)

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

// hasPrefix is strings.HasPrefix, whether or not the prefix is marked in s.
func hasPrefix(s, prefix string) bool {
	return strings.HasPrefix(s, prefix) || strings.HasPrefix(strings.TrimLeft(s, bothMarks), prefix)
}

// hasSuffix is strings.HasSuffix, whether or not the suffix is marked in s.
func hasSuffix(s, suffix string) bool {
	return strings.HasSuffix(s, suffix) || strings.HasSuffix(strings.TrimRight(s, bothMarks), suffix)
}

// trimPrefix is strings.TrimPrefix where hasPrefix holds.
func trimPrefix(s, prefix string) string {
	if !hasPrefix(s, prefix) {
		return s
	}
	return strings.TrimPrefix(strings.TrimLeft(s, bothMarks), prefix)
}

// trimSuffix is strings.TrimSuffix where hasSuffix holds.
func trimSuffix(s, suffix string) string {
	if !hasSuffix(s, suffix) {
		return s
	}
	return strings.TrimSuffix(strings.TrimRight(s, bothMarks), suffix)
}

// isSpace is Python's str.isspace for a character.
func isSpace(r rune) bool { return r >= 0x1c && r <= 0x1f || unicode.IsSpace(r) }
