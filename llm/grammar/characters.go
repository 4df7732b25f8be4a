package grammar

import (
	"fmt"
	"slices"
	"unicode/utf8"
)

// runes is a set of characters, as the first and the last of ranges in ascending order.
type runes []rune

var allRunes = runes{0, utf8.MaxRune}

// has reports whether a character is in the set.
func (r runes) has(c rune) bool {
	i, found := slices.BinarySearch(r, c)
	return found || i%2 == 1
}

// and returns the characters that are in both sets.
func (r runes) and(other runes) (out runes) {
	for i, j := 0, 0; i < len(r) && j < len(other); {
		if lo, hi := max(r[i], other[j]), min(r[i+1], other[j+1]); lo <= hi {
			out = append(out, lo, hi)
		}
		if r[i+1] < other[j+1] {
			i += 2
		} else {
			j += 2
		}
	}
	return out
}

// without returns the characters that are not in the other set.
func (r runes) without(other runes) runes {
	rest, next := runes{}, rune(0)
	for i := 0; i < len(other); i += 2 {
		if other[i] > next {
			rest = append(rest, next, other[i]-1)
		}
		next = other[i+1] + 1
	}
	if next <= utf8.MaxRune {
		rest = append(rest, next, utf8.MaxRune)
	}
	return r.and(rest)
}

// sorted returns the set of ranges in any order, which may overlap.
func sorted(ranges runes) (out runes) {
	pairs := slices.Collect(slices.Chunk(slices.Clone(ranges), 2))
	slices.SortFunc(pairs, func(a, b runes) int { return int(a[0] - b[0]) })
	for _, p := range pairs {
		if n := len(out); n > 0 && p[0] <= out[n-1]+1 {
			out[n-1] = max(out[n-1], p[1])
		} else {
			out = append(out, p...)
		}
	}
	return out
}

// characters is a character of a set in UTF-8. In a JSON string, those that a string cannot contain are escaped.
func (b *builder) characters(set runes, quoted bool) []element {
	if !quoted {
		return b.encoded(set)
	}
	return b.call(fmt.Sprint("quoted ", set), func() []element {
		special := runes{0, 0x1f, '"', '"', '\\', '\\'}
		alternatives := [][]element{b.encoded(set.without(special))}
		escaped := set.and(special)
		for i := 0; i < len(escaped); i += 2 {
			for r := escaped[i]; r <= escaped[i+1]; r++ {
				alternatives = append(alternatives, lit(escape(r)))
			}
		}
		return b.or(alternatives...)
	})
}

// escape returns how a JSON string contains a character that it cannot contain as it is.
func escape(r rune) string {
	switch r {
	case '"', '\\':
		return `\` + string(r)
	case '\b':
		return `\b`
	case '\f':
		return `\f`
	case '\n':
		return `\n`
	case '\r':
		return `\r`
	case '\t':
		return `\t`
	}
	return fmt.Sprintf(`\u%04x`, r)
}

// encoded is a character of a set in UTF-8, of which halves of surrogate pairs are no part.
func (b *builder) encoded(set runes) []element {
	set = set.without(runes{0xd800, 0xdfff})
	if len(set) > 0 && set[len(set)-1] < utf8.RuneSelf {
		return []element{{set: bytesOf(set)}}
	}
	return b.call(fmt.Sprint("encoded ", set), func() []element {
		var forms [][]element
		if ascii := set.and(runes{0, utf8.RuneSelf - 1}); len(ascii) > 0 {
			forms = append(forms, []element{{set: bytesOf(ascii)}})
		}
		for i := 0; i < len(set); i += 2 {
			for lo := max(set[i], utf8.RuneSelf); lo <= set[i+1]; {
				form, hi := sequence(lo, set[i+1])
				forms = append(forms, form)
				lo = hi + 1
			}
		}
		return b.tree(forms)
	})
}

// tree is one of some sequences of bytes, in their order, of which those with the same first bytes have the same length.
// Each byte is looked at once, however many sequences there are.
func (b *builder) tree(forms [][]element) []element {
	var alternatives [][]element
	last := &set{}
	for len(forms) > 0 {
		first, n := forms[0], 1
		for n < len(forms) && *forms[n][0].set == *first[0].set {
			n++
		}
		switch {
		case len(first) == 1:
			for i, word := range first[0].set {
				last[i] |= word
			}
		case n == 1:
			alternatives = append(alternatives, first)
		default:
			rest := make([][]element, n)
			for i := range rest {
				rest[i] = forms[i][1:]
			}
			alternatives = append(alternatives, seq(first[:1], b.tree(rest)))
		}
		forms = forms[n:]
	}
	if *last != (set{}) {
		alternatives = append(alternatives, []element{{set: last}})
	}
	return b.or(alternatives...)
}

func bytesOf(ascii runes) *set {
	s := &set{}
	for i := 0; i < len(ascii); i += 2 {
		s.add(byte(ascii[i]), byte(ascii[i+1]))
	}
	return s
}

// sequence returns the bytes of the characters from lo to some greatest, which is at most most, such that each of the
// bytes is any of a range. lo is not ASCII.
func sequence(lo, most rune) (form []element, hi rune) {
	size := utf8.RuneLen(lo)
	hi = min(most, []rune{0, 0, 0x7ff, 0xffff, utf8.MaxRune}[size])
	// All last bytes belong to each of the others only if they begin with the least and end with the greatest.
	for low := rune(0x3f); low < 1<<(6*(size-1)); low = low<<6 | 0x3f {
		switch {
		case lo|low >= hi:
		case lo&low != 0:
			hi = lo | low
		case hi&low != low:
			hi = hi&^low - 1
		}
	}
	first, last := string(lo), string(hi)
	for i := range size {
		form = append(form, one(string([]byte{first[i], last[i]}))...)
	}
	return form, hi
}
