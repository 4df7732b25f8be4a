package api

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

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

// A client that does not take a whole answer is reported as one that does not take a stream.
func TestAnswersThatNobodyTakes(t *testing.T) {
	answer := script(func(context.Context, engine.Request) iter.Seq[string] {
		return slices.Values([]string{strings.Repeat("x", 8<<20)})
	})
	s := start(t, func(m *loaded) {
		answer(m)
		m.embed = func(context.Context, engine.EmbedRequest) ([][]float32, error) {
			return [][]float32{make([]float32, 2<<20)}, nil
		}
	}, func(c *setting) { c.Stall = 200 * time.Millisecond })
	for path, body := range map[string]string{
		"/v1/chat/completions": ask, "/v1/completions": `{"prompt":"x"}`, "/v1/embeddings": `{"input":"x","encoding_format":"base64"}`,
	} {
		c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
		require.NoError(t, err)
		defer c.Close()
		require.NoError(t, c.(*net.TCPConn).SetReadBuffer(64<<10)) // so that 8 MB do not fit into what the system buffers
		_, err = fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", path, len(body), body)
		require.NoError(t, err)
		require.Eventually(t, func() bool {
			return s.metrics.of("POST "+path, 499) == 1
		}, time.Minute, 10*time.Millisecond, path)
	}
	require.Eventually(t, func() bool { return strings.Count(s.said.String(), errGone.message) == 3 }, time.Minute, time.Millisecond)
	require.NotContains(t, s.said.String(), "level=ERROR")
}
