package tokenizer

import "strings"

// difference returns a part of a pattern that Oniguruma, for which tokenizer.json is written, and
// package regexp2 read differently; "" if there is none. Their word characters differ, only
// Oniguruma has classes within classes and a{,3}, and options other than i are named differently.
func difference(pattern string) string {
	inClass := false
	for i := 0; i < len(pattern); i++ {
		rest := pattern[i:]
		switch {
		case rest[0] == '\\':
			if len(rest) > 1 && (strings.ContainsRune(`wW`, rune(rest[1])) || !inClass && strings.ContainsRune(`bB`, rune(rest[1]))) {
				return rest[:2]
			}
			i++
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
		case strings.HasPrefix(rest, "(?"):
			options := rest[2 : len(rest)-len(strings.TrimLeft(rest[2:], "imnsx-"))]
			if strings.Trim(options, "i-") != "" {
				return "(?" + options
			}
		}
	}
	return ""
}
