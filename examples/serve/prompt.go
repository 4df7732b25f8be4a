package main

import (
	"context"
	"fmt"
	"net/http"
)

// encode returns the tokens of prompts in a field of a request.
func (m *loaded) encode(ctx context.Context, param string, p prompts, encode func(context.Context, string) ([]int, error)) ([][]int, error) {
	out := p.ids
	for _, text := range p.texts {
		if err := m.checkSize(len(text)); err != nil {
			return nil, err
		}
		ids, err := encode(ctx, text)
		if err != nil {
			return nil, err
		}
		out = append(out, ids)
	}
	for _, ids := range out {
		if err := m.checkLength(param, ids); err != nil {
			return nil, err
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
