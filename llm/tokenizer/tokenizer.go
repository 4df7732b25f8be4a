package tokenizer

import (
	"context"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Tokenizer is a loaded tokenizer.json. It is immutable and safe for concurrent
// use.
type Tokenizer struct {
	bpe        bpe
	forms      []norm.Form
	splitters  []splitter
	raw        addedSet // added tokens found in the text before normalization
	normalized addedSet // added tokens found after normalization
	written    addedSet // the same as they may be written, in their normal form or not
	// All added tokens; those of written twice if their normal form is not their content.
	added   []addedToken
	tokens  map[int]entry
	ids     map[string]int
	limit   int // one more than the largest id
	longest int // bytes of the longest token
	// Ids that the post-processor puts around every text.
	prefix, suffix []int
}

// entry is one id of the vocabulary.
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
	return t.EncodeWith(context.Background(), text, EncodeOptions{})
}

// EncodeOptions are the options of EncodeWith.
type EncodeOptions struct {
	// PlainAt are byte offsets in the text, in ascending order. An added token that
	// begins there is encoded as plain text, as when a user quotes it. If there are any,
	// AsWritten holds as well.
	PlainAt []int
	// AsWritten encodes as plain text an added token that only normalization makes: it is
	// written neither as in tokenizer.json nor in its normal form.
	AsWritten bool
}

// EncodeWith is Encode with options. For any text of n bytes it takes time O(n log w),
// where w is the length of the longest word; patterns of a file that this package
// does not know may take longer. It fails with the context's error once that is done.
func (t *Tokenizer) EncodeWith(ctx context.Context, text string, o EncodeOptions) ([]int, error) {
	if t == nil {
		return nil, &EncodingError{Offset: -1, Reason: "the tokenizer is nil"}
	}
	if !utf8.ValidString(text) {
		return nil, &EncodingError{Offset: firstInvalid(text), Reason: "invalid UTF-8"}
	}
	ids := make([]int, 0, len(text)/3+1)
	w := word{ctx: ctx}
	sections := t.sections(ctx, text, o)
	err := ctx.Err()
	if err != nil {
		return nil, err
	}
	for _, s := range sections {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
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

// sections cuts out the added tokens and normalizes the rest. What it returns is of no use once
// the context is done.
func (t *Tokenizer) sections(ctx context.Context, text string, o EncodeOptions) []section {
	isPlain := func(at int, _ *addedToken) bool {
		_, plain := slices.BinarySearch(o.PlainAt, at)
		return plain
	}
	var out []section
	for _, s := range t.raw.split(nil, text, isPlain) {
		if s.token != nil {
			out = append(out, s)
			continue
		}
		normal, plain := t.normalize(ctx, s.text), func(at int, token *addedToken) bool { return isPlain(s.at+at, token) }
		if normal != s.text && (o.AsWritten || len(o.PlainAt) > 0) {
			plain = t.plainAfter(ctx, s.text, normal, plain)
		}
		out = t.normalized.split(out, normal, plain)
	}
	return out
}

// normalize applies all forms, but no more of them once the context is done.
func (t *Tokenizer) normalize(ctx context.Context, text string) string {
	for _, form := range t.forms {
		if ctx.Err() != nil {
			break
		}
		text = normalize(form, text)
	}
	return text
}

// plainAfter returns where the normal form of a text has no added tokens, given plain, which tells
// the same for the text itself. Those that only normalization makes are among them, as it is not
// known which part of the text they come from.
func (t *Tokenizer) plainAfter(ctx context.Context, text, normal string, plain func(int, *addedToken) bool) func(int, *addedToken) bool {
	written, done := map[int]*addedToken{}, 0 // the longest at each place
	var parts strings.Builder                 // each normalized for itself
	for _, p := range t.written.find(text) {
		parts.WriteString(t.normalize(ctx, text[done:p.at]))
		done = p.at
		if token, _ := t.written.longest(p); !plain(p.at, token) {
			written[parts.Len()] = token
		}
	}
	parts.WriteString(t.normalize(ctx, text[done:]))
	same := parts.String() == normal // or else a token begins within what is composed, and nothing is certain
	return func(at int, token *addedToken) bool { return !same || written[at] != token }
}

// Longest returns the length in bytes of the longest token: a text of n tokens is, once
// normalized, at most n times as long.
func (t *Tokenizer) Longest() int {
	if t == nil {
		return 0
	}
	return t.longest
}

// encodePlain appends the ids of text without added tokens.
func (t *Tokenizer) encodePlain(ids []int, text string, w *word) ([]int, error) {
	pieces := []string{text}
	for _, split := range t.splitters {
		var next []string
		for _, p := range pieces {
			var err error
			if next, err = split(w.ctx, next, p); err != nil {
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

// Bytes returns the bytes that a token adds to a text, which need not be whole
// characters; "" for an id that is no token.
func (t *Tokenizer) Bytes(id int) string {
	if t == nil {
		return ""
	}
	return t.tokens[id].bytes
}
