package tokenizer_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/llm/tokenizer"
)

// template is a post_processor that puts tokens around a text.
func template(single, special string) string {
	return `{"type":"TemplateProcessing","single":[` + single + `],"pair":[],"special_tokens":{` + special + `}}`
}

const (
	theText = `{"Sequence":{"id":"A","type_id":0}}`
	theX    = `{"SpecialToken":{"id":"<x>","type_id":0}}`
	xIsNine = `"<x>":{"id":"<x>","ids":[9],"tokens":["<x>"]}`
)

// TestPrefix: what a template puts around every text, alone or in a Sequence.
func TestPrefix(t *testing.T) {
	sequence := func(parts ...string) string {
		return `{"type":"Sequence","processors":[` + strings.Join(parts, ",") + `]}`
	}
	for name, c := range map[string]struct {
		post           string
		prefix, suffix []int
	}{
		"none":     {`null`, nil, nil},
		"bytes":    {`{"type":"ByteLevel"}`, nil, nil},
		"text":     {template(theText, ""), nil, nil},
		"before":   {template(theX+","+theText, xIsNine), []int{9}, nil},
		"behind":   {template(theText+","+theX, xIsNine), nil, []int{9}},
		"both":     {template(theX+","+theText+","+theX, `"<x>":{"ids":[9,0]}`), []int{9, 0}, []int{9, 0}},
		"sequence": {sequence(`{"type":"ByteLevel"}`, template(theX+","+theText, xIsNine)), []int{9}, nil},
		"twice":    {sequence(template(theX+","+theText, `"<x>":{"ids":[1]}`), template(theX+","+theText, xIsNine)), []int{9, 1}, nil},
	} {
		tok, err := tokenizer.Load([]byte(small("post_processor", c.post)))
		require.NoError(t, err, name)
		require.Equal(t, c.prefix, tok.Prefix(), name)
		require.Equal(t, c.suffix, tok.Suffix(), name)
		ids, err := tok.Encode("ab")
		require.NoError(t, err, name)
		require.Equal(t, []int{2}, ids, "Encode adds nothing")
	}
	tok, err := tokenizer.Load([]byte(small("post_processor", template(theX+","+theText, xIsNine))))
	require.NoError(t, err)
	tok.Prefix()[0] = 7
	require.Equal(t, []int{9}, tok.Prefix(), "the caller's copy")
	for reason, post := range map[string]string{
		"A is missing":         template(theX, xIsNine),
		`sequence "B"`:         template(theX+`,{"Sequence":{"id":"B"}}`, xIsNine),
		`sequence "A"; the`:    template(theText+","+theText, ""),
		`"<x>" is not among`:   template(theX+","+theText, ""),
		"no token has id 8":    template(theX+","+theText, `"<x>":{"ids":[8]}`),
		"entry 0 is neither":   template(`{}`, ""),
		"entry 1 is neither":   template(theText+`,{"Sequence":{"id":"A"},"SpecialToken":{"id":"<x>"}}`, xIsNine),
		"post_processor: json": `{"type":"TemplateProcessing","single":[1]}`,
		"the Sequence is null": sequence(`null`),
	} {
		_, err := tokenizer.Load([]byte(small("post_processor", post)))
		require.ErrorIs(t, err, tokenizer.ErrFormat, reason)
		require.ErrorContains(t, err, reason)
	}
}

// TestNil: a nil tokenizer encodes nothing and has no tokens.
func TestNil(t *testing.T) {
	var tok *tokenizer.Tokenizer
	_, err := tok.Encode("a")
	require.ErrorIs(t, err, tokenizer.ErrEncoding)
	require.Empty(t, tok.Decode([]int{1}, tokenizer.KeepSpecial))
	require.Nil(t, tok.Prefix())
	require.Nil(t, tok.Suffix())
	_, ok := tok.ID("a")
	require.False(t, ok)
	_, ok = tok.Token(1)
	require.False(t, ok)
	require.False(t, tok.IsSpecial(1))
	require.Zero(t, tok.Limit())
	var decoder *tokenizer.Decoder
	require.Empty(t, decoder.Push(1)+decoder.Flush())
}
