package tokenizer_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/llm/tokenizer"
)

// withConfig loads small with a tokenizer_config.json.
func withConfig(t *testing.T, config string) (*tokenizer.Tokenizer, error) {
	t.Helper()
	c, err := tokenizer.ParseConfig([]byte(config))
	if err != nil {
		return nil, err
	}
	return tokenizer.LoadWith([]byte(small()), c)
}

// Tokens that only tokenizer_config.json has are added with their flags, also those of the vocabulary; of a token that
// both files have, its flags count, and it is special if either says so. transformers 5.24 does the same.
func TestConfigAddsTokens(t *testing.T) {
	tok, err := withConfig(t, `{"added_tokens_decoder":{
		"2":{"content":"ab","normalized":false},
		"9":{"content":"<x>","rstrip":true},
		"10":{"content":"<y>","lstrip":true,"special":true}}}`)
	require.NoError(t, err)
	for text, want := range map[string][]int{"a \t<y>b": {0, 10, 1}, "abab": {2, 2}, "<x>  a": {9, 0}} {
		ids, err := tok.Encode(text)
		require.NoError(t, err)
		require.Equal(t, want, ids, text)
	}
	require.True(t, tok.IsSpecial(10))
	require.True(t, tok.IsSpecial(9))
	require.False(t, tok.IsSpecial(2))
	require.Equal(t, "ab", tok.Decode([]int{0, 9, 1, 10}, tokenizer.SkipSpecial))
	require.Equal(t, 11, tok.Limit())
}

// What is neither special nor says normalized is found after normalization.
func TestConfigNormalizes(t *testing.T) {
	c, err := tokenizer.ParseConfig([]byte(`{"added_tokens_decoder":{"10":{"content":"K"},"11":{"content":"\u212b","special":true}}}`))
	require.NoError(t, err)
	tok, err := tokenizer.LoadWith([]byte(small("normalizer", `{"type":"NFC"}`)), c)
	require.NoError(t, err)
	ids, err := tok.Encode("\u212aab\u212b")
	require.NoError(t, err)
	require.Equal(t, []int{10, 2, 11}, ids)
}

func TestConfigEOS(t *testing.T) {
	for text, want := range map[string]string{`{}`: "", `{"eos_token":null}`: "", `{"eos_token":"</s>"}`: "</s>", `{"eos_token":{"content":"</s>","lstrip":true}}`: "</s>"} {
		c, err := tokenizer.ParseConfig([]byte(text))
		require.NoError(t, err, text)
		require.Equal(t, want, c.EOS, text)
	}
}

func TestBadConfig(t *testing.T) {
	added := func(entries string) string { return `{"added_tokens_decoder":{` + entries + `}}` }
	const field = "added_tokens_decoder."
	for text, want := range map[string]string{
		"":                                    "",
		"[]":                                  "",
		"\"\xff\"":                            "not valid UTF-8",
		`{"eos_token":5}`:                     "eos_token",
		`{"eos_token":{}}`:                    "eos_token",
		`{"added_tokens_decoder":[]}`:         "added_tokens_decoder",
		added(`"x":{"content":"a"}`):          field + "x",
		added(`"-1":{"content":"a"}`):         field + "-1",
		added(`"2147483647":{"content":"a"}`): field + "2147483647",
		added(`"7":"a"`):                      field + "7",
		added(`"7":{}`):                       field + "7: it has no content",
		added(`"7":{"content":"` + long(513) + `"}`):      field + "7: it has 513 bytes",
		added(`"7":{"content":"a"},"07":{"content":"b"}`): field + "7: there are two entries",
		added(`"7":{"content":"c"},"8":{"content":"c"}`):  field + `8: token "c" also has the id 7`,
	} {
		_, err := withConfig(t, text)
		require.ErrorIs(t, err, tokenizer.ErrFormat, text)
		var e *tokenizer.ConfigError
		require.ErrorAs(t, err, &e, text)
		require.ErrorContains(t, err, want, text)
	}
}

// Where the files contradict each other, tokenizer.json's ids and texts count.
func TestConfigContradicts(t *testing.T) {
	for _, entry := range []string{`"0":{"content":"c"}`, `"9":{"content":"c"}`, `"7":{"content":"a"}`, `"7":{"content":"<x>","lstrip":true}`} {
		tok, err := withConfig(t, `{"added_tokens_decoder":{`+entry+`,"10":{"content":"<y>"}}}`)
		require.NoError(t, err, entry)
		ids, err := tok.Encode("a<x><y>b")
		require.NoError(t, err, entry)
		require.Equal(t, []int{0, 9, 10, 1}, ids, entry)
		for text, id := range map[string]int{"a": 0, "<x>": 9} {
			got, _ := tok.ID(text)
			require.Equal(t, id, got, entry)
		}
		_, ok := tok.ID("c")
		require.False(t, ok, entry)
	}
}

func long(n int) string { return strings.Repeat("a", n) }

// FuzzTokenizerConfig: any file is read or refused with a ConfigError.
func FuzzTokenizerConfig(f *testing.F) {
	f.Add([]byte(`{"eos_token":{"content":"<x>"},"added_tokens_decoder":{"9":{"content":"<x>","normalized":true},"10":{"content":"ab","special":true}}}`))
	f.Add([]byte(`{"eos_token":null,"added_tokens_decoder":{"2":{"content":"ab","lstrip":true}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := tokenizer.ParseConfig(data)
		if err == nil {
			_, err = tokenizer.LoadWith([]byte(small()), c)
		}
		var bad *tokenizer.ConfigError
		var format *tokenizer.FormatError // too many tokens in all
		require.True(t, err == nil || errors.As(err, &bad) || errors.As(err, &format), "%v", err)
	})
}
