package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/llm/chat"
	"github.com/kompute-go/kompute-go/llm/engine"
)

// A template that refuses a conversation is the client's error; one that fails by a bug is the server's.
func TestErrorsOfTemplates(t *testing.T) {
	require.Equal(t, http.StatusBadRequest, asAPIError(t.Context(), &chat.TemplateError{Stage: "render", Reason: "no"}).status)
	bug := fmt.Errorf("%w: %w", chat.ErrTemplate, chat.ErrInternal)
	require.Equal(t, http.StatusInternalServerError, asAPIError(t.Context(), bug).status)
}

// The log has internal errors as a whole, also those that end a stream.
func TestLongInternalErrors(t *testing.T) {
	long := strings.Repeat("x", 2000)
	s := start(t, func(m *loaded) {
		m.submit = func(_ context.Context, _ engine.Request, _ int) ([]stream, error) { return nil, errors.New(long) }
	})
	for i, body := range []string{`{"prompt":"x"}`, `{"prompt":"x","stream":true}`} {
		s.post("/v1/completions", body)
		s.idle()
		require.Equal(t, 2*(i+1), strings.Count(s.said.String(), long), body) // by "request failed" and "request"
	}
}
