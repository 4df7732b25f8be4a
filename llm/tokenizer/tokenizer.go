package tokenizer

import (
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Tokenizer is a loaded tokenizer.json. It is immutable and safe for concurrent
// use.
type Tokenizer struct {
	bpe        bpe
	forms      []norm.Form
	splitters  []splitter
	raw        *addedSet // added tokens found in the text as it is
	normalized *addedSet // added tokens found after normalization
	tokens     map[int]entry
	ids        map[string]int
	limit      int // one more than the largest id
	// What the post-processor puts around every text.
	prefix, suffix []int
}

// entry is what an id stands for.
type entry struct {
	text    string // as tokenizer.json writes it
	bytes   string // as it appears in a text
	special bool
}

// Encode returns the token ids of text. Added tokens such as <|im_end|> are recognized wherever
// they stand; what belongs around every text ([Tokenizer.Prefix], [Tokenizer.Suffix]) is not added.
// It fails with EncodingError where text is not valid UTF-8 or contains a byte that is not in the
// vocabulary, and for a nil tokenizer.
func (t *Tokenizer) Encode(text string) ([]int, error) {
	if t == nil {
		return nil, &EncodingError{Offset: -1, Reason: "the tokenizer is nil"}
	}
	if !utf8.ValidString(text) {
		return nil, &EncodingError{Offset: firstInvalid(text), Reason: "invalid UTF-8"}
	}
	ids := make([]int, 0, len(text)/3+1)
	var w word
	var err error
	for _, s := range t.sections(text) {
		if s.token != nil {
			ids = append(ids, s.token.ID)
			continue
		}
		if ids, err = t.encodePlain(ids, s.text, &w); err != nil {
			return nil, err
		}
	}
	return ids, nil
}

// sections cuts out the added tokens and normalizes the rest.
func (t *Tokenizer) sections(text string) []section {
	var out []section
	for _, s := range t.raw.split(nil, text) {
		if s.token != nil {
			out = append(out, s)
			continue
		}
		for _, form := range t.forms {
			s.text = normalize(form, s.text)
		}
		out = t.normalized.split(out, s.text)
	}
	return out
}

// encodePlain appends the ids of text without added tokens.
func (t *Tokenizer) encodePlain(ids []int, text string, w *word) ([]int, error) {
	pieces := []string{text}
	for _, split := range t.splitters {
		var next []string
		for _, p := range pieces {
			var err error
			if next, err = split(next, p); err != nil {
				return nil, err
			}
		}
		pieces = next
	}
	var err error
	for _, p := range pieces {
		if ids, err = t.bpe.encode(ids, p, w); err != nil {
			return nil, err
		}
	}
	return ids, nil
}

// ID returns the id of a token as tokenizer.json writes it, such as "<think>".
func (t *Tokenizer) ID(token string) (id int, ok bool) {
	if t == nil {
		return 0, false
	}
	id, ok = t.ids[token]
	return id, ok
}

// Token returns the token of an id as tokenizer.json writes it.
func (t *Tokenizer) Token(id int) (token string, ok bool) {
	if t == nil {
		return "", false
	}
	e, ok := t.tokens[id]
	return e.text, ok
}

// IsSpecial reports whether id is an added token marked special.
func (t *Tokenizer) IsSpecial(id int) bool { return t != nil && t.tokens[id].special }

// Limit returns one more than the largest id; a model's vocab_size must not be
// below it.
func (t *Tokenizer) Limit() int {
	if t == nil {
		return 0
	}
	return t.limit
}

func firstInvalid(s string) int {
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && n <= 1 {
			return i
		}
		i += n
	}
	return len(s)
}
