package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/kompute-go/kompute-go/llm/generate"
	"github.com/kompute-go/kompute-go/llm/tokenizer"
)

// encode returns the tokens of prompts in a field of a request. All of them are checked, so that
// an error names the one that is wrong, and comes before any of them is computed.
func (m *loaded) encode(ctx context.Context, param string, p prompts, encode func(context.Context, string) ([]int, error)) ([][]int, error) {
	name := func(i int) string {
		if len(p.texts)+len(p.ids) == 1 {
			return param
		}
		return fmt.Sprintf("%s.%d", param, i)
	}
	out := p.ids
	for i, text := range p.texts {
		if err := m.checkSize(len(text)); err != nil {
			return nil, err
		}
		ids, err := encode(ctx, text)
		if errors.Is(err, generate.ErrPrompt) || errors.Is(err, tokenizer.ErrEncoding) {
			err = bad(name(i), "%v", err)
		}
		if err != nil {
			return nil, err
		}
		out = append(out, ids)
	}
	limits := m.folder.Limits()
	limits.Context = m.context
	for i, ids := range out {
		if err := m.checkLength(name(i), ids); err != nil {
			return nil, err
		}
		if err := generate.CheckPrompt(limits, ids); err != nil {
			return nil, bad(name(i), "%v", err)
		}
	}
	return out, nil
}

// checkLength rejects a prompt of too many tokens.
func (m *loaded) checkLength(param string, ids []int) error {
	if len(ids) <= m.context {
		return nil
	}
	e := bad(param, "%d tokens exceed the context of %d", len(ids), m.context)
	e.code = "context_length_exceeded"
	return e
}

// messageSize is the cost of a message, or of a tool call, besides its texts, since there
// may be very many: templates write some tokens around each.
const messageSize = bytesPerToken

// checkSize rejects a prompt that is too long, before any work on it.
func (m *loaded) checkSize(bytes int) error {
	if int64(bytes) > m.maxPrompt {
		return &apiError{
			status: http.StatusRequestEntityTooLarge, code: "prompt_too_large",
			message: fmt.Sprintf("the prompt has %d bytes, and %d are possible", bytes, m.maxPrompt),
		}
	}
	return nil
}
