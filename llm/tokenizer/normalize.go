package tokenizer

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// normalForms are the normalizers that this package knows.
var normalForms = map[string]norm.Form{"NFC": norm.NFC, "NFD": norm.NFD, "NFKC": norm.NFKC, "NFKD": norm.NFKD}

// maxForms is the most forms that a normalizer may have: each is a pass over every text.
// Those of published models have one.
const maxForms = 16

// loadNormalizer returns the forms to apply, in order; for null, none.
func loadNormalizer(raw json.RawMessage, depth int) ([]norm.Form, error) {
	if isNull(raw) {
		return nil, nil
	}
	var n struct {
		Type        string
		Normalizers []json.RawMessage
	}
	if err := decode("normalizer", raw, &n); err != nil {
		return nil, err
	}
	if form, ok := normalForms[n.Type]; ok {
		return []norm.Form{form}, nil
	}
	if n.Type != "Sequence" || depth == maxNesting {
		return nil, &UnsupportedError{Component: "normalizer", Got: n.Type, Supported: []string{"NFC", "NFD", "NFKC", "NFKD", "Sequence"}}
	}
	var forms []norm.Form
	for _, raw := range n.Normalizers {
		more, err := loadNormalizer(raw, depth+1)
		if err != nil {
			return nil, err
		}
		if forms = append(forms, more...); len(forms) > maxForms {
			return nil, &FormatError{Field: "normalizer", Reason: fmt.Sprintf("more than %d forms", maxForms)}
		}
	}
	return forms, nil
}

// joiner is what package norm, which writes the stream-safe format, inserts into a run of more than
// 30 combining characters. Among these it counts some letters, such as Korean vowels of U+3160, that
// do not combine. No form makes or removes a joiner.
const joiner = "\u034f"

// normalize applies one form.
func normalize(form norm.Form, s string) string {
	if form.IsNormalString(s) {
		return s
	}
	normal := form.String(s)
	if strings.Count(normal, joiner) != strings.Count(s, joiner) {
		return normalizeLong(form, s)
	}
	return normal
}

// normalizeLong follows UAX #15: decompose, order by combining class, compose. It
// uses package norm only for single characters and pairs.
func normalizeLong(form norm.Form, s string) string {
	apart, compose := norm.NFD, form == norm.NFC || form == norm.NFKC
	if form == norm.NFKC || form == norm.NFKD {
		apart = norm.NFKD
	}
	var runes []rune
	var buf [utf8.UTFMax]byte
	for _, r := range s {
		for _, d := range apart.String(string(buf[:utf8.EncodeRune(buf[:], r)])) {
			runes = append(runes, d)
		}
	}
	for i := 0; i < len(runes); {
		end := i + 1
		for end < len(runes) && class(runes[end]) != 0 {
			end++
		}
		slices.SortStableFunc(runes[i:end], func(a, b rune) int { return int(class(a)) - int(class(b)) })
		i = end
	}
	if compose {
		runes = composeRunes(runes)
	}
	return string(runes)
}

func class(r rune) uint8 { return norm.NFD.PropertiesString(string(r)).CCC() }

// composeRunes joins each character with the last starter before it, unless a
// character between them blocks it.
func composeRunes(in []rune) []rune {
	out := in[:0]
	starter, last := -1, uint8(0) // index in out; class of the last character kept after it
	for _, r := range in {
		c := class(r)
		if starter >= 0 && (starter == len(out)-1 || last != 0 && last < c) {
			if joined, ok := composePair(out[starter], r); ok {
				out[starter] = joined
				continue
			}
		}
		if c == 0 {
			starter = len(out)
		}
		last = c
		out = append(out, r)
	}
	return out
}

// composePair returns the one character that a and b make, if there is one.
func composePair(a, b rune) (rune, bool) {
	s := norm.NFC.String(string([]rune{a, b}))
	r, n := utf8.DecodeRuneInString(s)
	return r, n == len(s)
}
