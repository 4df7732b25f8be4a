package api

import (
	"context"
	"net/http"

	"github.com/kompute-go/kompute-go/llm/tokenizer"
)

// tokenizeRequest is the body of /tokenize: a text, or a chat as for /v1/chat/completions.
type tokenizeRequest struct {
	chatRequest
	// As vLLM calls the text, and whether tokens such as a BOS are put before it; they are by default.
	Prompt  *string `json:"prompt"`
	Special *bool   `json:"add_special_tokens"`
	// As llama.cpp's server calls them.
	Content *string `json:"content"`
	Begin   bool    `json:"add_special"`
	Pieces  bool    `json:"with_pieces"`
}

// text returns the text, and whether tokens are put before it.
func (q *tokenizeRequest) text() (text string, whole bool, err error) {
	switch {
	case q.Prompt != nil && q.Content != nil:
		return "", false, bad("content", "with prompt: there is one text")
	case (q.Prompt != nil || q.Content != nil) && len(q.Messages) > 0:
		return "", false, bad("messages", "with a text")
	case q.Pieces:
		return "", false, unsupported("with_pieces", "the answer has tokens only")
	case q.Content != nil:
		return *q.Content, q.Begin, nil
	case q.Prompt != nil:
		return *q.Prompt, first(q.Special, nil, true), nil
	}
	return "", false, bad("prompt", "there is none, and no messages")
}

// tokenize is POST /tokenize.
func (s *Server) tokenize(w http.ResponseWriter, r *http.Request, m *loaded, q *tokenizeRequest) (err error) {
	if err := checkForeign(q.Others, tokenizeFields); err != nil {
		return err
	}
	var ids []int
	if len(q.Messages) > 0 && q.Prompt == nil && q.Content == nil && !q.Pieces {
		ids, err = q.encode(r.Context(), m, s.options.NoThink)
	} else {
		ids, err = q.encodeText(r.Context(), m)
	}
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, struct {
		Count   int   `json:"count"`
		Context int   `json:"max_model_len"`
		Tokens  []int `json:"tokens"`
	}{len(ids), m.context, ids})
}

// encodeText returns the tokens of the text, which may be empty.
func (q *tokenizeRequest) encodeText(ctx context.Context, m *loaded) ([]int, error) {
	if q.Model != "" && m.checkName(q.Model) != nil {
		return nil, m.checkName(q.Model)
	}
	text, whole, err := q.text()
	if err != nil {
		return nil, err
	}
	if err := m.checkSize(len(text)); err != nil {
		return nil, err
	}
	if !whole || text == "" {
		return m.folder.Tokenizer.EncodeWith(ctx, text, tokenizer.EncodeOptions{})
	}
	return m.folder.EncodeText(ctx, text)
}

// detokenizeRequest is the body of /detokenize.
type detokenizeRequest struct {
	Model  string `json:"model"`
	Tokens []int  `json:"tokens"`
}

// detokenize is POST /detokenize. Special tokens are part of the text.
func (s *Server) detokenize(w http.ResponseWriter, _ *http.Request, m *loaded, q *detokenizeRequest) error {
	if q.Model != "" && m.checkName(q.Model) != nil {
		return m.checkName(q.Model)
	}
	if err := m.checkLength("tokens", q.Tokens); err != nil { // each may be a long text
		return err
	}
	for i, id := range q.Tokens {
		if id < 0 || id >= m.folder.Limits().Vocabulary {
			return bad("tokens", "token %d, of place %d, is none of the %d that there are", id, i, m.folder.Limits().Vocabulary)
		}
	}
	text := m.folder.Tokenizer.Decode(q.Tokens, tokenizer.KeepSpecial)
	return writeJSON(w, http.StatusOK, struct {
		Prompt  string `json:"prompt"`  // as vLLM calls it
		Content string `json:"content"` // as llama.cpp's server calls it
	}{text, text})
}
