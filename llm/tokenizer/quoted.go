package tokenizer

import (
	"context"
	"iter"
)

// SpecialAt returns the places in a text, in bytes, at which a special token begins,
// also within another. If there is one only after normalization, it returns just 0.
func (t *Tokenizer) SpecialAt(text string) []int {
	var out []int
	if t == nil {
		return nil
	}
	for set, p := range t.places(text) {
		if set.special(p) && (len(out) == 0 || out[len(out)-1] != p.at) {
			out = append(out, p.at)
		}
	}
	if len(out) == 0 && len(t.forms) > 0 {
		for _, p := range t.normalized.find(t.normalize(context.Background(), text)) {
			if t.normalized.special(p) {
				return []int{0}
			}
		}
	}
	return out
}

// places yields the places in a text at which added tokens are written, in order, with the set
// that has them.
func (t *Tokenizer) places(text string) iter.Seq2[*addedSet, place] {
	return func(yield func(*addedSet, place) bool) {
		raw, written := t.raw.find(text), t.written.find(text)
		for len(raw)+len(written) > 0 {
			set, list := &t.raw, &raw
			if len(raw) == 0 || len(written) > 0 && written[0].at < raw[0].at {
				set, list = &t.written, &written
			}
			if !yield(set, (*list)[0]) {
				return
			}
			*list = (*list)[1:]
		}
	}
}

// Added is an added token in a text: its id, and the bytes from Start up to End.
type Added struct {
	ID, Start, End int
	Special        bool
}

// AddedIn yields the added tokens that are written in a text, also those within others, in the
// order of where they begin. There may be as many at a place as the longest one has bytes.
func (t *Tokenizer) AddedIn(text string) iter.Seq[Added] {
	return func(yield func(Added) bool) {
		if t == nil {
			return
		}
		for set, p := range t.places(text) {
			for token, n := range set.all(p) {
				if !yield(Added{ID: token.ID, Start: p.at, End: p.at + n, Special: token.Special}) {
					return
				}
			}
		}
	}
}

// AllAdded yields all added tokens, as texts that AddedIn finds as a whole: a token that is found
// after normalization both as tokenizer.json writes it and in its normal form.
func (t *Tokenizer) AllAdded() iter.Seq2[string, Added] {
	return func(yield func(string, Added) bool) {
		if t == nil {
			return
		}
		for _, a := range t.added {
			if !yield(a.Content, Added{ID: a.ID, End: len(a.Content), Special: a.Special}) {
				return
			}
		}
	}
}
