package grammar

import (
	"strconv"
	"unicode/utf8"
)

// literal reads the rest of a literal text. An empty one is a rule of its own, so that it is not nil.
func (g *gbnf) literal() ([]element, error) {
	var text []rune
	for !g.take(`"`) {
		r, err := g.character()
		if err != nil {
			return nil, err
		}
		text = append(text, r)
	}
	if len(text) == 0 {
		return g.call("nothing", func() []element { return nil }), nil
	}
	return lit(string(text)), nil
}

// class reads the rest of a set of characters.
func (g *gbnf) class() ([]element, error) {
	negated := g.take("^")
	var set runes
	for !g.take("]") {
		first, err := g.character()
		if err != nil {
			return nil, err
		}
		last := first
		if g.at+1 < len(g.text) && g.text[g.at] == '-' && g.text[g.at+1] != ']' {
			g.at++
			if last, err = g.character(); err != nil {
				return nil, err
			}
		}
		if last < first {
			return nil, g.fail("%q comes before %q", last, first)
		}
		set = append(set, first, last)
	}
	if set = sorted(set); negated {
		set = allRunes.without(set)
	}
	return g.encoded(set), nil
}

// The digits of escapes of characters by their numbers.
var gbnfNumbers = map[byte]int{'x': 2, 'u': 4, 'U': 8}

// character reads a character or an escape.
func (g *gbnf) character() (rune, error) {
	r, size := utf8.DecodeRuneInString(g.text[g.at:])
	switch {
	case size == 0 || r == '\n':
		return 0, g.fail("a text or a set has no end")
	case r != '\\':
		g.at += size
		return r, nil
	case g.at+1 == len(g.text) || g.text[g.at+1] == '\n':
		return 0, g.fail(`a \ at the end of the line`)
	}
	c := g.text[g.at+1]
	if n := gbnfNumbers[c]; n > 0 {
		digits := g.text[g.at+2:]
		digits = digits[:min(n, len(digits))]
		code, err := strconv.ParseUint(digits, 16, 32)
		if len(digits) < n || err != nil || !utf8.ValidRune(rune(code)) || code > utf8.MaxRune {
			return 0, g.fail(`\%c%s is not a character`, c, digits)
		}
		g.at += 2 + n
		return rune(code), nil
	}
	g.at += 2
	switch c {
	case 't':
		return '\t', nil
	case 'r':
		return '\r', nil
	case 'n':
		return '\n', nil
	case '\\', '"', '[', ']', '-', '^':
		return rune(c), nil
	}
	g.at -= 2
	return 0, g.fail(`\%c is not supported`, c)
}
