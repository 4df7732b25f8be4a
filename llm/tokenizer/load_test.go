package tokenizer_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/llm/tokenizer"
)

// manyAdded are added tokens with more than a megabyte of text.
func manyAdded() string {
	var all []string
	for i := range 2100 {
		all = append(all, fmt.Sprintf(`{"id":%d,"content":"%0500d"}`, 10+i, i))
	}
	return "[" + strings.Join(all, ",") + "]"
}

func TestMalformed(t *testing.T) {
	for name, text := range map[string]string{
		"empty":            "",
		"not an object":    "[]",
		"a long template":  small("post_processor", template(theX+","+theText, `"<x>":{"ids":[`+strings.Repeat("9,", 64)+`9]}`)),
		"long templates":   small("post_processor", templates(2)),
		"many forms":       small("normalizer", forms(17)),
		"forms of forms":   small("normalizer", `{"type":"Sequence","normalizers":[`+forms(16)+`,{"type":"NFD"}]}`),
		"many added bytes": small("added_tokens", manyAdded()),
		"cut":              small()[:80],
		"not UTF-8":        small("decoder", "\"\xff\""),
		"no model":         small("model", "null"),
		"empty vocabulary": small("model", `{"type":"BPE","vocab":{},"merges":[]}`),
		"negative id":      small("model", `{"type":"BPE","vocab":{"a":-1}}`),
		"huge id":          small("model", `{"type":"BPE","vocab":{"a":4294967295}}`),
		"shared id":        small("model", `{"type":"BPE","vocab":{"a":1,"b":1}}`),
		"one-part merge":   small("model", `{"type":"BPE","vocab":{"a":1},"merges":["a"]}`),
		"three-part merge": small("model", `{"type":"BPE","vocab":{"a":1},"merges":["a a a"]}`),
		"empty part":       small("model", `{"type":"BPE","vocab":{"a":1},"merges":[["a",""]]}`),
		"number merge":     small("model", `{"type":"BPE","vocab":{"a":1},"merges":[7]}`),
		"unknown part":     small("model", `{"type":"BPE","vocab":{"a":1},"merges":["a b"]}`),
		"unknown whole":    small("model", `{"type":"BPE","vocab":{"a":1,"b":2},"merges":["a b"]}`),
		"empty added":      small("added_tokens", `[{"id":9,"content":""}]`),
		"negative added":   small("added_tokens", `[{"id":-9,"content":"x"}]`),
		"added shares id":  small("added_tokens", `[{"id":0,"content":"x"}]`),
		"added twice":      small("added_tokens", `[{"id":8,"content":"x"},{"id":9,"content":"x"}]`),
		"no pattern":       small("pre_tokenizer", `{"type":"Sequence","pretokenizers":[{"type":"Split","behavior":"Isolated"},{"type":"ByteLevel"}]}`),
		"a long pattern":   small("pre_tokenizer", splits(16<<10+1)),
		"long patterns":    small("pre_tokenizer", splits(16<<10, 16<<10, 16<<10, 16<<10, 1)),
		"many patterns":    small("pre_tokenizer", splits(make([]int, 64)...)),
		"no decoder":       small("decoder", `null`),
	} {
		_, err := tokenizer.Load([]byte(text))
		require.ErrorIs(t, err, tokenizer.ErrFormat, name)
		var e *tokenizer.FormatError
		require.ErrorAs(t, err, &e, name)
		require.NotEmpty(t, e.Error())
	}
	_, err := tokenizer.Load(nil)
	require.ErrorContains(t, err, ": empty", "the file is there")
}

// templates is a Sequence of n templates, each with 64 tokens around the text.
func templates(n int) string {
	one := template(theX+","+theText, `"<x>":{"ids":[`+strings.Repeat("9,", 63)+`9]}`)
	return `{"type":"Sequence","processors":[` + strings.Repeat(one+",", n-1) + one + "]}"
}

// forms is a normalizer of n forms, each of which changes the result of the one before.
func forms(n int) string {
	all := strings.Repeat(`{"type":"NFC"},{"type":"NFD"},`, n)
	return `{"type":"Sequence","normalizers":[` + all[:n*len(`{"type":"NFC"},`)-1] + `]}`
}

// splits is a pre_tokenizer with Splits whose patterns have these numbers of bytes.
func splits(bytes ...int) string {
	var all strings.Builder
	for _, n := range bytes {
		fmt.Fprintf(&all, `{"type":"Split","behavior":"Isolated","pattern":{"Regex":"%s"}},`, strings.Repeat("c", n))
	}
	return `{"type":"Sequence","pretokenizers":[` + all.String() + `{"type":"ByteLevel","use_regex":false}]}`
}

func TestUnsupported(t *testing.T) {
	sequence := func(part string) string {
		return `{"type":"Sequence","pretokenizers":[` + part + `,{"type":"ByteLevel"}]}`
	}
	files := map[string]string{
		"WordPiece":                 small("model", `{"type":"WordPiece","vocab":{"a":0}}`),
		"dropout":                   small("model", `{"type":"BPE","dropout":0.1,"vocab":{"a":0}}`),
		"byte_fallback":             small("model", `{"type":"BPE","byte_fallback":true,"vocab":{"a":0}}`),
		"continuing_subword_prefix": small("model", `{"type":"BPE","continuing_subword_prefix":"##","vocab":{"a":0}}`),
		"end_of_word_suffix":        small("model", `{"type":"BPE","end_of_word_suffix":"</w>","vocab":{"a":0}}`),
		"Lowercase":                 small("normalizer", `{"type":"Sequence","normalizers":[{"type":"NFC"},{"type":"Lowercase"}]}`),
		"Metaspace":                 small("pre_tokenizer", `{"type":"Metaspace"}`),
		"none":                      small("pre_tokenizer", `null`),
		"Removed":                   small("pre_tokenizer", sequence(`{"type":"Split","behavior":"Removed","pattern":{"String":"x"}}`)),
		"error parsing regexp":      small("pre_tokenizer", sequence(`{"type":"Split","behavior":"Isolated","pattern":{"Regex":"(("}}`)),
		"BertProcessing":            small("post_processor", `{"type":"Sequence","processors":[{"type":"ByteLevel"},{"type":"BertProcessing"}]}`),
		"WordPiece decoder":         small("decoder", `{"type":"WordPiece decoder"}`),
	}
	// What Oniguruma and the package for regular expressions read differently.
	for pattern, part := range map[string]string{
		`a|\\w+`: `\w`, `[^\\W]`: `\W`, `a\\b`: `\b`, `[[:alpha:]]+`: "[ in a class", `[^]a[bc]]`: "[ in a class",
		`[\\]a-z&&[^b]]`: "& in a class", `a{,3}`: "{,", `(?i-m:a.b)`: "(?i-m",
		`\\p{N}{3}?`: "{n}?", `(?i:[a-zÀ-ÿ])`: "(?i and letters", `(?i)s|Σ`: "(?i and letters",
	} {
		files["Split pattern with "+part] = small("pre_tokenizer", sequence(`{"type":"Split","behavior":"Isolated","pattern":{"Regex":"`+pattern+`"}}`))
	}
	for named, text := range files {
		_, err := tokenizer.Load([]byte(text))
		require.ErrorIs(t, err, tokenizer.ErrUnsupported, named)
		require.ErrorContains(t, err, named)
		var e *tokenizer.UnsupportedError
		require.ErrorAs(t, err, &e, named)
	}
}

// A pattern means what it means to Oniguruma.
func TestPatternDialect(t *testing.T) {
	const text = "ab\nab"
	for pattern, want := range map[string][]int{
		`^a|b$`: {0, 1, 3, 0, 1}, `\\Aab`: {2, 3, 2}, `[]a][^b]?[\\b\\[&a]|(?i:B)(?=\\n)|(?<n>b)\\{,`: {0, 1, 3, 2},
		`(?i:B)|[一-龥]|a{1,2}?|\\{1}?`: {0, 1, 3, 0, 1},
	} {
		tok, err := tokenizer.Load([]byte(small("model", `{"type":"BPE","vocab":{"a":0,"b":1,"ab":2,"Ċ":3},"merges":["a b"]}`,
			"pre_tokenizer", `{"type":"Sequence","pretokenizers":[{"type":"Split","behavior":"Isolated","pattern":{"Regex":"`+pattern+`"}},{"type":"ByteLevel","use_regex":false}]}`)))
		require.NoError(t, err, pattern)
		ids, err := tok.Encode(text)
		require.NoError(t, err, pattern)
		require.Equal(t, want, ids, pattern)
	}
}

// TestAccepted covers spellings that are right but rare.
func TestAccepted(t *testing.T) {
	for name, text := range map[string]string{
		"version line":   small("model", `{"type":"BPE","vocab":{"a":0,"b":1,"ab":2,"abab":3},"merges":["#version: 0.2","a b","ab ab"]}`),
		"post processor": small("post_processor", `{"type":"Sequence","processors":[{"type":"ByteLevel"}]}`),
		"decoder":        small("decoder", `{"type":"Sequence","decoders":[{"type":"ByteLevel"}]}`),
		"long patterns":  small("pre_tokenizer", splits(16<<10, 16<<10, 16<<10, 16<<10)),
		"long template":  small("post_processor", templates(1)),
		"many forms":     small("normalizer", forms(16)),
		"nested":         small("pre_tokenizer", `{"type":"Sequence","pretokenizers":[{"type":"Sequence","pretokenizers":[{"type":"ByteLevel","use_regex":false}]}]}`),
	} {
		tok, err := tokenizer.Load([]byte(text))
		require.NoError(t, err, name)
		ids, err := tok.Encode("abab")
		require.NoError(t, err, name)
		require.Equal(t, []int{3}, ids, name)
	}
}
