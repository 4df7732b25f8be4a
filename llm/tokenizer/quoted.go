package tokenizer

import "iter"

// SpecialAt returns the places in a text, in bytes, at which a special token begins,
// also within another. If there is one only after normalization, it returns just 0.
func (t *Tokenizer) SpecialAt(text string) []int {
	var out []int
	if t == nil {
		return nil
	}
	for i := range len(text) {
		for _, set := range []*addedSet{t.raw, t.normalized} {
			if set.any(text[i:], true) {
				out = append(out, i)
				break
			}
		}
	}
	if len(out) == 0 && len(t.forms) > 0 && t.normalized != nil {
		text = t.normalize(text)
		for i := range len(text) {
			if t.normalized.any(text[i:], true) {
				return []int{0}
			}
		}
	}
	return out
}

// Added is an added token in a text: its id, and the bytes from Start up to End.
type Added struct {
	ID, Start, End int
	Special        bool
}

// AddedIn yields the added tokens that are written in a text, also those within others, in the
// order of where they begin.
func (t *Tokenizer) AddedIn(text string) iter.Seq[Added] {
	return func(yield func(Added) bool) {
		if t == nil {
			return
		}
		for i := range len(text) {
			for _, set := range []*addedSet{t.raw, t.normalized} {
				for token, n := range set.all(text[i:]) {
					if !yield(Added{ID: token.ID, Start: i, End: i + n, Special: token.Special}) {
						return
					}
				}
			}
		}
	}
}

// AllAdded yields all added tokens, as texts that AddedIn finds as a whole.
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

// Composes reports whether normalization may make added tokens that a text does not have as
// it is written; see EncodeOptions.AsWritten.
func (t *Tokenizer) Composes(text string) bool {
	if t == nil || len(t.forms) == 0 {
		return false
	}
	normal := t.normalize(text)
	if normal == text {
		return false
	}
	for i := range len(normal) {
		if t.normalized.any(normal[i:], false) {
			return true
		}
	}
	return false
}
