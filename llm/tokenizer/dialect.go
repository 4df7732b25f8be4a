package tokenizer

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// longS are the groups of contractions in the patterns of published models, written so that package regexp2 reads them
// as Oniguruma does: where case is ignored, that takes ſ for an s, and regexp2 does not.
var longS = strings.NewReplacer(`(?i:'s|`, `(?i:'[sſ]|`, `(?i:[sdmt]|`, `(?i:[sſdmt]|`)

// difference returns a part of a pattern that Oniguruma, for which tokenizer.json is written, and
// package regexp2 read differently; "" if there is none. Their word characters differ, only
// Oniguruma has classes within classes and a{,3}, a{3}? is an option there, options other than i are named differently,
// and fewer letters beyond ASCII are equal in regexp2 where case is ignored.
func difference(pattern string) string {
	inClass, anyCase := false, strings.Contains(pattern, "(?i")
	for i := 0; i < len(pattern); i++ {
		rest := pattern[i:]
		switch {
		case rest[0] == '\\':
			if len(rest) > 1 && (strings.ContainsRune(`wW`, rune(rest[1])) || !inClass && strings.ContainsRune(`bB`, rune(rest[1]))) {
				return rest[:2]
			}
			i++
		case anyCase && rest[0] >= utf8.RuneSelf && hasCase(rest):
			return "(?i and letters beyond ASCII"
		case inClass && rest[0] == ']':
			inClass = false
		case inClass && (rest[0] == '[' || strings.HasPrefix(rest, "&&")):
			return rest[:1] + " in a class"
		case inClass:
		case rest[0] == '[':
			inClass = true
			i += len(rest) - len(strings.TrimPrefix(strings.TrimPrefix(rest[1:], "^"), "]")) - 1
		case strings.HasPrefix(rest, "{,"):
			return "{,"
		case rest[0] == '{' && exactlyOptional(rest):
			return "{n}?"
		case strings.HasPrefix(rest, "(?"):
			options := rest[2 : len(rest)-len(strings.TrimLeft(rest[2:], "imnsx-"))]
			if strings.Trim(options, "i-") != "" {
				return "(?" + options
			}
		}
	}
	return ""
}

// exactlyOptional reports whether a text begins like {3}?.
func exactlyOptional(s string) bool {
	end := strings.IndexByte(s, '}')
	return end > 1 && strings.Trim(s[1:end], "0123456789") == "" && strings.HasPrefix(s[end:], "}?")
}

// hasCase reports whether the first character of a text has another case.
func hasCase(s string) bool {
	r, _ := utf8.DecodeRuneInString(s)
	return unicode.SimpleFold(r) != r
}
