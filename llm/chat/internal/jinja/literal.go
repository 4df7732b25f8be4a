package jinja

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// simpleEscapes are the one-character escapes of Python strings. An escaped
// line end stands for nothing.
var simpleEscapes = map[byte]string{
	'\\': "\\", '\'': "'", '"': "\"", 'a': "\a", 'b': "\b", 'f': "\f", 'n': "\n", 'r': "\r", 't': "\t", 'v': "\v", '\n': "",
}

// stringLiteral consumes a string literal and returns its value.
func (l *lexer) stringLiteral(quote byte) (string, error) {
	var b strings.Builder
	for l.pos++; l.pos < len(l.src); {
		switch c := l.src[l.pos]; c {
		case quote:
			l.pos++
			return b.String(), nil
		case '\\':
			n, s, err := unescape(l.src[l.pos+1:])
			if err != nil {
				return "", err
			}
			b.WriteString(s)
			l.pos += 1 + n
		default:
			b.WriteByte(c)
			l.pos++
		}
	}
	return "", fmt.Errorf("string is not closed")
}

// unescape reads what follows a backslash: it returns the bytes it took and the
// text they stand for. As in Python, an unknown escape stands for itself.
func unescape(s string) (int, string, error) {
	if s == "" {
		return 0, "", fmt.Errorf("string is not closed")
	}
	if text, ok := simpleEscapes[s[0]]; ok {
		return 1, text, nil
	}
	digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[s[0]]
	if digits > 0 {
		return hexEscape(s, digits)
	}
	n := 0 // up to three octal digits
	for n < min(3, len(s)) && s[n] >= '0' && s[n] <= '7' {
		n++
	}
	if n > 0 {
		v, err := strconv.ParseUint(s[:n], 8, 32)
		return n, string(rune(v)), err
	}
	return 0, "\\", nil
}

func hexEscape(s string, digits int) (int, string, error) {
	if len(s) <= digits {
		return 0, "", fmt.Errorf("escape \\%s is cut short", s)
	}
	v, err := strconv.ParseUint(s[1:1+digits], 16, 32)
	if err != nil || v > utf8.MaxRune || !utf8.ValidRune(rune(v)) {
		return 0, "", fmt.Errorf("escape \\%s is not a character", s[:1+digits])
	}
	return 1 + digits, string(rune(v)), nil
}
