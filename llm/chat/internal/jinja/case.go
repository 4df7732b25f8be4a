package jinja

import (
	"strings"
	"unicode"

	"golang.org/x/text/cases"
	"golang.org/x/text/language"
)

// maxCase is how many times as long a text may be in another case: U+0390 has three
// characters in upper case, and a byte that is not UTF-8 becomes U+FFFD.
const maxCase = 3

// textFilter turns a function that changes the case of a text into a filter.
func textFilter(fn func(string) string) builtin {
	return func(c *Call) (Value, error) {
		if err := c.accept("s"); err != nil {
			return nil, err
		}
		s, err := c.text(c.value())
		if err != nil {
			return nil, err
		}
		return c.convert(s, maxCase, fn)
	}
}

func upper(s string) string { return cases.Upper(language.Und).String(s) }

func lower(s string) string { return cases.Lower(language.Und).String(s) }

func capitalize(s string) string {
	size := nextCharacter(s)
	return strings.ToTitle(s[:size]) + lower(s[size:])
}

// title is the filter title: words begin after spaces, hyphens and opening brackets.
func title(s string) string {
	start := true
	return strings.Map(func(r rune) rune {
		if isMark(r) {
			return r
		}
		was := start
		start = isSpace(r) || strings.ContainsRune("-({[<", r)
		if was {
			return unicode.ToTitle(r)
		}
		return unicode.ToLower(r)
	}, s)
}

// titleWords is str.title: words begin after everything but letters.
func titleWords(s string) string {
	start := true
	return strings.Map(func(r rune) rune {
		if isMark(r) {
			return r
		}
		was := start
		start = !unicode.IsLetter(r)
		if was {
			return unicode.ToTitle(r)
		}
		return unicode.ToLower(r)
	}, s)
}

func swapcase(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsUpper(r) {
			return unicode.ToLower(r)
		}
		return unicode.ToUpper(r)
	}, s)
}
