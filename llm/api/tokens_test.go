package api

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"
)

// The tokens of a text and of a chat are those of its prompt, and their text is the text.
func TestTokenize(t *testing.T) {
	s := start(t, nil)
	post := func(path, body string, into any) {
		s.into(path, body, into, json.RejectUnknownMembers(true))
	}
	type tokens struct {
		Count   int   `json:"count"`
		Context int   `json:"max_model_len"`
		Tokens  []int `json:"tokens"`
	}
	list := func(ids []int) string { return strings.Join(strings.Fields(fmt.Sprint(ids)), ",") }
	for body, want := range map[string]string{
		`{"prompt":"Grüße<|im_end|>"}`: "Grüße<|im_end|>", `{"content":"Hi 你"}`: "Hi 你", `{"prompt":"x","add_special_tokens":false}`: "x", `{"content":"x","parse_special":true,"return_token_strs":false}`: "x", `{"prompt":""}`: "",
		`{"chat_template_kwargs":{"enable_thinking":false},` + question + `}`:                                                     "<|im_start|>user\nHi what is your name<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n",
		`{"add_generation_prompt":false,` + question + `}`:                                                                        "<|im_start|>user\nHi what is your name<|im_end|>\n",
		`{"continue_final_message":true,"messages":[{"role":"user","content":"A"},{"role":"assistant","content":"B<|im_end|>"}]}`: "<|im_start|>user\nA<|im_end|>\n<|im_start|>assistant\nB<|im_end|>",
	} {
		var got tokens
		post("/tokenize", body, &got)
		require.Equal(t, len(got.Tokens), got.Count)
		require.NotNil(t, got.Tokens)
		require.Equal(t, 4096, got.Context)
		var text struct {
			Prompt  string `json:"prompt"`
			Content string `json:"content"`
		}
		post("/detokenize", `{"tokens":`+list(got.Tokens)+`}`, &text)
		require.Equal(t, want, text.Prompt, body)
		require.Equal(t, want, text.Content)
	}
	var got tokens
	post("/tokenize", `{`+question+`}`, &got)
	require.Equal(t, s.post("/v1/chat/completions", `{"max_tokens":1,`+question+`}`).Usage.Prompt, got.Count)
	for body, path := range map[string]string{
		`{}`: "/tokenize", `{"prompt":"x","content":"y"}`: "/tokenize", `{"prompt":"x",` + question + `}`: "/tokenize", `{"content":"x","with_pieces":true}`: "/tokenize",
		`{"content":"x","parse_special":false}`: "/tokenize", `{"prompt":"x","return_token_strs":true}`: "/tokenize", `{"prompt":"x","truncate_prompt_tokens":1}`: "/tokenize", `{"return_token_strs":true,` + question + `}`: "/tokenize",
		`{"prompt":"x","model":"y"}`: "/tokenize", `{"messages":[{"role":"robot","content":"x"}]}`: "/tokenize",
		`{"tokens":[-1]}`: "/detokenize", `{"tokens":[99999]}`: "/detokenize", `{"tokens":[1` + strings.Repeat(",1", 4096) + `]}`: "/detokenize", `{"tokens":"x"}`: "/detokenize", `{"tokens":[],"model":"y"}`: "/detokenize",
	} {
		a := s.post(path, body)
		require.GreaterOrEqual(t, a.status, 400, body)
		require.Less(t, a.status, 500, body)
		require.NotNil(t, a.Error, body)
	}
}
