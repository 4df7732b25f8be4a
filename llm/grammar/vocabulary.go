package grammar

import (
	"slices"
	"strings"

	"github.com/kompute-go/kompute-go/llm/tokenizer"
)

// Vocabulary is the tokens of a model, sorted by their text. It is immutable and safe
// for concurrent use.
type Vocabulary struct {
	texts  []string // by id
	sorted []int32  // IDs of tokens with text
	common []int32  // how many bytes each shares with the one before it
}

// NewVocabulary returns the vocabulary of a model whose ids are below size. Special
// tokens, and IDs without a token, have no text.
func NewVocabulary(t *tokenizer.Tokenizer, size int) *Vocabulary {
	return newVocabulary(size, func(id int) string {
		if t.IsSpecial(id) {
			return ""
		}
		return t.Bytes(id)
	})
}

func newVocabulary(size int, text func(id int) string) *Vocabulary {
	v := &Vocabulary{texts: make([]string, size)}
	for id := range v.texts {
		if v.texts[id] = text(id); v.texts[id] != "" {
			v.sorted = append(v.sorted, int32(id))
		}
	}
	slices.SortFunc(v.sorted, func(a, b int32) int { return strings.Compare(v.texts[a], v.texts[b]) })
	v.common = make([]int32, len(v.sorted))
	for i := 1; i < len(v.sorted); i++ {
		a, b := v.texts[v.sorted[i-1]], v.texts[v.sorted[i]]
		n := 0
		for n < min(len(a), len(b)) && a[n] == b[n] {
			n++
		}
		v.common[i] = int32(n)
	}
	return v
}

// Size returns how many ids there are.
func (v *Vocabulary) Size() int {
	if v == nil {
		return 0
	}
	return len(v.texts)
}

func (v *Vocabulary) text(id int) string {
	if id < 0 || id >= len(v.texts) {
		return ""
	}
	return v.texts[id]
}

// mask returns the tokens that may follow in a state. Prefixes that neighbouring
// tokens share are examined once.
func (v *Vocabulary) mask(a *automaton, from *state) ([]uint64, error) {
	if from.renew(a); from.mask == nil {
		a.begin()
		mask := v.allowed(a, from)
		if !a.end() {
			return nil, ErrWork
		}
		a.trim()
		from.renew(a)
		from.mask = mask
		a.bytes += 8 * len(from.mask)
	}
	return from.mask, nil
}

// allowed finds a mask, which is incomplete if there is too much work.
func (v *Vocabulary) allowed(a *automaton, from *state) []uint64 {
	out := make([]uint64, (len(v.texts)+63)/64)
	path := []*state{from} // after each byte of the previous token; the last may be nil
	for i, id := range v.sorted {
		n := int(v.common[i])
		if n >= len(path) {
			continue // it begins with a rejected prefix
		}
		path = path[:n+1]
		if path[n] == nil {
			continue
		}
		text := v.texts[id]
		at := path[n]
		for _, b := range []byte(text[n:]) {
			at = a.next(at, b)
			if a.work > a.limit {
				return nil
			}
			path = append(path, at)
			if at == nil {
				break
			}
		}
		if at != nil {
			out[id>>6] |= 1 << (id & 63)
		}
	}
	return out
}
