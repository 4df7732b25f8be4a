package tokenizer

import (
	"context"
	"strings"
	"unicode"
	"unicode/utf8"
)

// scanner splits exactly as the pattern of Qwen 2 and 3 or that of Llama 3 does,
// in linear time and without a regular expression. They differ in how many digits
// make a piece: one, or up to three. Tests compare the scanner with the patterns.
func scanner(digits int) splitter {
	return func(_ context.Context, out []string, text string) ([]string, error) {
		for len(text) > 0 {
			n := pieceLength(text, digits)
			out = append(out, text[:n])
			text = text[n:]
		}
		return out, nil
	}
}

// pieceLength returns the length of the first piece of s, which is not empty. The
// alternatives stand in the order of the pattern.
func pieceLength(s string, digits int) int {
	r, size := utf8.DecodeRuneInString(s)
	if r == '\'' {
		if n := contraction(s); n > 0 {
			return n
		}
	}
	switch kind := kindOf(r); kind {
	case letter: // \p{L}+
		return size + span(s[size:], letter)
	case number: // \p{N}{1,digits}
		for more := 1; more < digits; more++ {
			r, n := utf8.DecodeRuneInString(s[size:])
			if kindOf(r) != number {
				break
			}
			size += n
		}
		return size
	default:
		// [^\r\n\p{L}\p{N}]\p{L}+
		if r != '\r' && r != '\n' {
			if n := span(s[size:], letter); n > 0 {
				return size + n
			}
		}
		// ` ?[^\s\p{L}\p{N}]+[\r\n]*`
		if kind == symbol || r == ' ' {
			if n := span(s[size:], symbol); kind == symbol || n > 0 {
				return size + n + newlines(s[size+n:])
			}
		}
		return spacePiece(s)
	}
}

// contraction matches (?i:'s|'t|'re|'ve|'m|'ll|'d) and returns its length, or 0. Where case is ignored, ſ is an s.
func contraction(s string) int {
	at := func(i int) byte {
		if i < len(s) {
			return s[i] | 0x20 // lower case, for ASCII letters
		}
		return 0
	}
	if strings.HasPrefix(s[1:], "ſ") {
		return 1 + len("ſ")
	}
	switch at(1) {
	case 's', 't', 'm', 'd':
		return 2
	case 'r', 'v':
		if at(2) == 'e' {
			return 3
		}
	case 'l':
		if at(2) == 'l' {
			return 3
		}
	}
	return 0
}

// spacePiece matches `\s*[\r\n]+|\s+(?!\S)|\s+`: white space up to its last line
// end; without one, all of it, except for the last character if text follows.
func spacePiece(s string) int {
	end, last, newline := 0, 0, 0 // of the run; start of its last rune; after its last line end
	for end < len(s) {
		r, n := utf8.DecodeRuneInString(s[end:])
		if !unicode.IsSpace(r) {
			break
		}
		last = end
		end += n
		if r == '\r' || r == '\n' {
			newline = end
		}
	}
	switch {
	case newline > 0:
		return newline
	case end < len(s) && last > 0:
		return last
	}
	return end
}

type runeKind int

const (
	letter runeKind = iota
	number
	space
	symbol // none of the others
)

func kindOf(r rune) runeKind {
	switch {
	case unicode.IsLetter(r):
		return letter
	case unicode.IsNumber(r):
		return number
	case unicode.IsSpace(r):
		return space
	}
	return symbol
}

// span returns the length of the run of runes of one kind that s starts with.
func span(s string, kind runeKind) int {
	for i, r := range s {
		if kindOf(r) != kind {
			return i
		}
	}
	return len(s)
}

func newlines(s string) int {
	n := 0
	for n < len(s) && (s[n] == '\r' || s[n] == '\n') {
		n++
	}
	return n
}
