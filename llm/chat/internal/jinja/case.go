package jinja

import (
	"strings"
	"unicode"
	"unicode/utf8"

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

// capitalize lowers what follows the first character as a part of the whole text: the form of a sigma depends on it.
func capitalize(s string) string {
	first := s[:nextCharacter(s)]
	return cases.Title(language.Und).String(first) + lower(s)[len(lower(first)):]
}

// title is the filter title: words begin after spaces, hyphens and opening brackets, with
// upper case. As there, the rest of a word becomes lower case as if it stood alone.
func title(s string) string {
	inWord := false
	begins := func(r rune) bool {
		was := inWord
		inWord = !isSpace(r) && !strings.ContainsRune("-({[<", r)
		return inWord && !was
	}
	rests := strings.Map(func(r rune) rune {
		if !isMark(r) && begins(r) {
			return '0'
		}
		return r
	}, s)
	inWord = false
	one := oneCharacter{caser: cases.Upper(language.Und)}
	return eachCharacter(s, lower(rests), func(out []byte, r rune, lowered string) []byte {
		if begins(r) {
			return one.append(out, r)
		}
		return append(out, lowered...)
	})
}

// titleWords is str.title: words begin after everything but cased letters.
func titleWords(s string) string {
	inWord := false
	one := oneCharacter{caser: cases.Title(language.Und)}
	return eachCharacter(s, lower(s), func(out []byte, r rune, lowered string) []byte {
		was := inWord
		inWord = isUpper(r) || isLower(r) || unicode.IsTitle(r)
		if was {
			return append(out, lowered...)
		}
		return one.append(out, r)
	})
}

func swapcase(s string) string {
	one := oneCharacter{caser: cases.Upper(language.Und)}
	return eachCharacter(s, lower(s), func(out []byte, r rune, lowered string) []byte {
		switch {
		case isUpper(r):
			return append(out, lowered...)
		case isLower(r):
			return one.append(out, r)
		}
		return utf8.AppendRune(out, r)
	})
}

// eachCharacter calls change for each character of a text, which appends what replaces it. It also
// gets that character of the text in lower case, which may depend on its neighbours. Marks stay.
func eachCharacter(s, lowered string, change func(out []byte, r rune, lowered string) []byte) string {
	out := make([]byte, 0, len(s))
	for _, r := range s {
		_, size := utf8.DecodeRuneInString(lowered)
		if r == '\u0130' && strings.HasPrefix(lowered, "i\u0307") { // the only one that becomes two
			size = len("i\u0307")
		}
		if isMark(r) {
			out = utf8.AppendRune(out, r)
		} else {
			out = change(out, r, lowered[:size])
		}
		lowered = lowered[size:]
	}
	return string(out)
}

// oneCharacter changes the case of single characters, which may become several, in memory that it keeps.
type oneCharacter struct {
	caser cases.Caser
	from  [utf8.UTFMax]byte
	to    [64]byte
}

func (o *oneCharacter) append(out []byte, r rune) []byte {
	if r < utf8.RuneSelf {
		return append(out, byte(unicode.ToUpper(r)))
	}
	o.caser.Reset()
	n, _, _ := o.caser.Transform(o.to[:], o.from[:utf8.EncodeRune(o.from[:], r)], true)
	return append(out, o.to[:n]...)
}

func isUpper(r rune) bool { return unicode.IsUpper(r) || unicode.Is(unicode.Other_Uppercase, r) }

func isLower(r rune) bool { return unicode.IsLower(r) || unicode.Is(unicode.Other_Lowercase, r) }
