package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/checkpoint"
	"github.com/kompute-go/kompute-go/llm/engine"
	"github.com/kompute-go/kompute-go/llm/generate"
	"github.com/kompute-go/kompute-go/llm/grammar"
)

// scripted is an answer written by the test: the texts to yield until the
// request is cancelled.
type scripted struct {
	ctx  context.Context
	text iter.Seq[string]
}

// Times says that there were four tokens, which took three seconds.
func (s scripted) Times() (tokens int, first, last time.Time) {
	first = time.Now()
	return 4, first, first.Add(3 * time.Second)
}

// Cached says that nothing was.
func (s scripted) Cached() int { return 0 }

// Tokens yields the texts as tokens; the end of the script is the end of the turn.
func (s scripted) Tokens() iter.Seq2[generate.Token, error] {
	return func(yield func(generate.Token, error) bool) {
		for text := range s.text {
			if err := s.ctx.Err(); err != nil {
				yield(generate.Token{}, err)
				return
			}
			if !yield(generate.Token{Text: text}, nil) {
				return
			}
		}
		if err := s.ctx.Err(); err != nil {
			yield(generate.Token{}, err)
			return
		}
		yield(generate.Token{Finish: generate.FinishStop}, nil)
	}
}

// script makes the model give an answer written by the test.
func script(text func(context.Context, engine.Request) iter.Seq[string]) func(*loaded) {
	return func(m *loaded) {
		m.submit = func(ctx context.Context, r engine.Request, choices int) (out []stream, _ error) {
			for range choices {
				out = append(out, scripted{ctx, text(ctx, r)})
			}
			return out, nil
		}
	}
}

// untilCancelled yields one word, and then nothing.
func untilCancelled(ctx context.Context, _ engine.Request) iter.Seq[string] {
	return func(yield func(string) bool) {
		if yield("word") {
			<-ctx.Done()
		}
	}
}

const ask, askStream = `{"messages":[{"role":"user","content":"Hi"}]}`, `{"stream":true,"messages":[{"role":"user","content":"Hi"}]}`

// idle waits until no request is worked on.
func (s service) idle() {
	s.Helper()
	require.Eventually(s, func() bool { return len(s.model.Load().slots) == 0 }, time.Minute, time.Millisecond)
}

func TestBusy(t *testing.T) {
	s := start(t, script(untilCancelled), func(c *setting) { c.engine.Sequences, c.engine.Queue = 1, 1 })
	ctx, cancel := context.WithCancel(t.Context())
	for range 2 {
		require.Equal(t, http.StatusOK, s.request(ctx, "/v1/chat/completions", askStream).StatusCode)
	}
	a := s.post("/v1/chat/completions", ask)
	require.Equal(t, http.StatusTooManyRequests, a.status)
	require.Equal(t, "1", a.header.Get("Retry-After"))
	require.Equal(t, "rate_limit_error", a.Error.Type)
	status, _ := s.get("/v1/models")
	require.Equal(t, http.StatusOK, status, "what costs nothing is answered")
	cancel() // the clients go away
	s.idle()

	s.model.Load().submit = func(context.Context, engine.Request, int) ([]stream, error) { return nil, engine.ErrBusy }
	require.Equal(t, http.StatusTooManyRequests, s.post("/v1/chat/completions", ask).status)
}

// A client that disconnects leaves nothing in the engine.
func TestClientGoesAway(t *testing.T) {
	s := start(t, nil)
	e := s.model.Load().engine
	for _, body := range []string{ask, askStream} {
		ctx, cancel := context.WithCancel(t.Context())
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/v1/chat/completions", strings.NewReader(`{"temperature":100,"top_p":1,"top_k":0,`+body[1:]))
		require.NoError(t, err)
		r.Header.Set("Content-Type", "application/json")
		done := make(chan struct{})
		go func() {
			defer close(done)
			if response, err := s.http.Client().Do(r); err == nil {
				_, _ = io.Copy(io.Discard, response.Body)
				response.Body.Close()
			}
		}()
		require.Eventually(t, func() bool { return e.Stats().Running > 0 }, time.Minute, time.Millisecond)
		cancel()
		<-done
		require.Eventually(t, func() bool { return e.Stats().Running == 0 }, time.Minute, time.Millisecond)
		s.idle()
	}
	require.Equal(t, e.Stats().Pages, e.Stats().FreePages)
	require.NotContains(t, s.said.String(), "level=ERROR")
}

func TestTimeout(t *testing.T) {
	s := start(t, script(untilCancelled), func(c *setting) { c.Timeout = 50 * time.Millisecond })
	a := s.post("/v1/chat/completions", ask)
	require.Equal(t, http.StatusGatewayTimeout, a.status)
	require.Equal(t, "timeout", a.Error.Code)
	events := s.events("/v1/chat/completions", askStream)
	require.Equal(t, "word", events[1].Choices[0].Delta.Content)
	require.Equal(t, "timeout", events[2].Error.Code)
	require.Equal(t, 2, s.metrics.of("POST /v1/chat/completions", http.StatusGatewayTimeout), "also of the stream")
	a = s.post("/v1/embeddings", `{"input":[`+strings.Repeat(`"`+strings.Repeat("one ", 500)+`",`, 200)+`"x"]}`)
	require.Equal(t, http.StatusGatewayTimeout, a.status)
}

// When a request's time is over, tokens that are already there are not sent.
func TestTimeoutWithTokensLeft(t *testing.T) {
	s := start(t, func(m *loaded) {
		m.submit = func(ctx context.Context, _ engine.Request, _ int) ([]stream, error) {
			// This answer ignores that ctx ends.
			return []stream{scripted{context.Background(), func(yield func(string) bool) {
				if yield("word") {
					<-ctx.Done()
					yield("late")
				}
			}}}, nil
		}
	}, func(c *setting) { c.Timeout = 200 * time.Millisecond })
	events := s.events("/v1/chat/completions", askStream)
	last := events[len(events)-1]
	require.NotNil(t, last.Error)
	require.Equal(t, "timeout", last.Error.Code)
	for _, e := range events[:len(events)-1] {
		require.NotEqual(t, "late", e.Choices[0].Delta.Content)
	}
}

// A client that reads slowly cannot make a request last longer than its time, however long
// one write may take.
func TestTimeoutOfASlowReader(t *testing.T) {
	s := start(t, script(func(context.Context, engine.Request) iter.Seq[string] {
		return func(yield func(string) bool) {
			for text := strings.Repeat("x", 1<<20); yield(text); {
			}
		}
	}), func(c *setting) { c.Timeout, c.Stall = 100*time.Millisecond, time.Hour })
	c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	require.NoError(t, err)
	defer c.Close()
	const head = "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
	_, err = fmt.Fprintf(c, "%sContent-Length: %d\r\n\r\n%s", head, len(askStream), askStream)
	require.NoError(t, err)
	ended := func() bool { return strings.Contains(s.said.String(), "msg=request") }
	require.Eventually(t, ended, time.Minute, time.Millisecond)
	s.idle()
}

// The time per token is that between tokens, whenever they are read.
func TestTimePerToken(t *testing.T) {
	s := start(t, script(func(context.Context, engine.Request) iter.Seq[string] {
		return slices.Values([]string{"one", "two", "three"})
	}))
	s.post("/v1/chat/completions", ask)
	require.Equal(t, []time.Duration{time.Second}, s.metrics.tokenTimes)
}

// A panic ends only its own request, wherever it happens.
func TestPanics(t *testing.T) {
	s := start(t, func(m *loaded) {
		m.submit = func(_ context.Context, r engine.Request, _ int) ([]stream, error) {
			if r.MaxTokens == 1 {
				panic("in the handler")
			}
			return []stream{scripted{t.Context(), func(yield func(string) bool) {
				yield("word")
				panic("while it answers")
			}}}, nil
		}
	})
	for _, more := range []string{`{"max_tokens":1,`, `{`} {
		a := s.post("/v1/chat/completions", more+ask[1:])
		require.Equal(t, http.StatusInternalServerError, a.status)
		require.NotContains(t, a.Error.Message, "word")
	}
	events := s.events("/v1/chat/completions", askStream)
	require.Equal(t, "server_error", events[2].Error.Type)
	s.idle()
}

// Errors of the engine are the server's fault, and not revealed to clients.
func TestEngineFails(t *testing.T) {
	s := start(t, func(m *loaded) {
		m.submit = func(context.Context, engine.Request, int) ([]stream, error) {
			return nil, errors.New("device lost, at 0xdead")
		}
	})
	a := s.post("/v1/completions", `{"prompt":"x"}`)
	require.Equal(t, http.StatusInternalServerError, a.status)
	require.NotContains(t, a.Error.Message, "0xdead")
}

// A client that reads nothing is disconnected after a time; others are answered
// meanwhile.
func TestSlowReader(t *testing.T) {
	const piece = 1 << 20
	s := start(t, script(func(ctx context.Context, r engine.Request) iter.Seq[string] {
		return func(yield func(string) bool) {
			for text := strings.Repeat("x", piece); r.MaxTokens > 1 && yield(text); {
			}
		}
	}), func(c *setting) { c.Stall, c.engine.Sequences, c.engine.Queue = 300*time.Millisecond, 1, 1 })
	c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	require.NoError(t, err)
	defer c.Close()
	_, err = fmt.Fprintf(c, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(askStream), askStream)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return len(s.model.Load().slots) == 1 }, time.Minute, time.Millisecond)
	require.Equal(t, http.StatusOK, s.post("/v1/chat/completions", `{"max_tokens":1,`+ask[1:]).status)
	s.idle()
	require.Eventually(t, func() bool { return strings.Contains(s.said.String(), errGone.message) }, time.Minute, time.Millisecond)
	require.NotContains(t, s.said.String(), "level=ERROR")
	// The connection of a client that did read is not affected by the limit of an earlier
	// answer.
	time.Sleep(400 * time.Millisecond)
	require.Equal(t, http.StatusOK, s.post("/v1/chat/completions", `{"max_tokens":1,`+ask[1:]).status)
}

func TestLargeAndSlowBodies(t *testing.T) {
	s := start(t, nil, func(c *setting) { c.MaxBody, c.Stall = 200_000, 600*time.Millisecond })
	a := s.post("/v1/completions", `{"prompt":"`+strings.Repeat("x", 300_000)+`"}`)
	require.Equal(t, http.StatusRequestEntityTooLarge, a.status)
	require.Equal(t, "body_too_large", a.Error.Code)
	long := strings.Repeat("x", 100_000) // more than 16 bytes for each of 4,096 tokens
	for path, body := range map[string]string{
		"/v1/completions":            `{"prompt":["` + long + `"]}`,
		"/v1/chat/completions":       `{"messages":[{"role":"user","content":"` + long + `"}]}`,
		"/v1/chat/completions?":      `{"messages":[` + strings.Repeat(`{"role":"user"},`, 5000) + `{"role":"user","content":"x"}]}`,
		"/v1/chat/completions?calls": `{"messages":[{"role":"assistant","tool_calls":[` + strings.Repeat(`{},`, 5000) + `{}]}]}`,
	} {
		a = s.post(path, body)
		require.Equal(t, http.StatusRequestEntityTooLarge, a.status)
		require.Equal(t, "prompt_too_large", a.Error.Code)
	}
	c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	require.NoError(t, err)
	defer c.Close()
	_, err = io.WriteString(c, "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{")
	require.NoError(t, err)
	answer, err := io.ReadAll(c)
	require.NoError(t, err)
	require.Contains(t, string(answer), "HTTP/1.1 408 ")
}

// A body that never comes holds up neither a refusal nor the server's end.
func TestRefusedBodies(t *testing.T) {
	s := start(t, nil, func(c *setting) { c.Stall, c.Key = 200*time.Millisecond, "secret" })
	for line, status := range map[string]string{
		"POST /v1/completions HTTP/1.1\r\nContent-Type: application/json": "401", "POST /v1/nothing HTTP/1.1": "404",
		"POST /v1/completions HTTP/1.1\r\nAuthorization: Bearer secret": "415",
	} {
		c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
		require.NoError(t, err)
		defer c.Close()
		require.NoError(t, c.SetDeadline(time.Now().Add(10*time.Second)))
		_, err = io.WriteString(c, line+"\r\nHost: x\r\nContent-Length: 100\r\n\r\n")
		require.NoError(t, err)
		answer, err := io.ReadAll(c)
		require.NoError(t, err)
		require.Contains(t, string(answer), "HTTP/1.1 "+status)
	}
}

func TestKeys(t *testing.T) {
	s := start(t, nil, func(c *setting) { c.Key = "secret" })
	for keys, want := range map[[2]string]int{
		{""}: 401, {"Bearer"}: 401, {"Bearer wrong"}: 401, {"Bearer secret2"}: 401, {"secret"}: 401, {"Basic secret"}: 401,
		{"Bearer secret"}: 200, {"bearer secret"}: 200, {"Bearer  secret "}: 200,
		{"", "secret"}: 200, {"", "wrong"}: 401, {"Bearer secret", "wrong"}: 200, {"Bearer wrong", "secret"}: 200, {"Bearer wrong", "wrong"}: 401,
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/v1/models", nil)
		require.NoError(t, err)
		r.Header.Set("Authorization", keys[0])
		r.Header.Set("X-Api-Key", keys[1])
		response, err := s.http.Client().Do(r)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Equal(t, want, response.StatusCode, keys)
	}
	status, _ := s.get("/readyz")
	require.Equal(t, http.StatusOK, status)
}

// Before the model is loaded, and while the server shuts down, requests are
// refused in a way that makes clients retry elsewhere.
func TestNotReady(t *testing.T) {
	s := New(Options{Log: newTestLog(&testLog{t: t})})
	for reason, prepare := range map[string]func(){"loading": func() {}, "draining": s.Drain} {
		prepare()
		for path, want := range map[string]int{"/healthz": 200, "/readyz": 503, "/health": 503, "/v1/models": 503} {
			w := httptest.NewRecorder()
			s.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
			require.Equal(t, want, w.Code, path)
			if path == "/v1/models" {
				require.Equal(t, "5", w.Header().Get("Retry-After"), reason)
			}
		}
		s.draining.Store(false)
	}
}

// A server without a model, or with options that no request could meet, is not made ready.
func TestWrongOptions(t *testing.T) {
	s := start(t, nil)
	m := s.model.Load()
	require.ErrorIs(t, New(Options{}).SetModel(t.Context(), nil, m.engine), kompute.ErrInvalid)
	require.ErrorIs(t, New(Options{}).SetModel(t.Context(), m.folder, nil), kompute.ErrInvalid)
	for _, o := range []Options{{MaxBody: -1}, {MaxPrompt: -1}, {MaxTokens: -1}, {Timeout: -1}, {Stall: -1}, {Pooling: 2}} {
		require.ErrorIs(t, New(o).SetModel(t.Context(), m.folder, m.engine), kompute.ErrInvalid)
	}
	require.NoError(t, New(Options{}).SetModel(t.Context(), m.folder, m.engine))
}

// Errors of requests that only other models or grammars can serve are the client's.
func TestErrorsOfTheRequest(t *testing.T) {
	for _, err := range []error{&checkpoint.MissingError{Tensor: "lm_head.weight"}, grammar.ErrWork} {
		require.Equal(t, http.StatusBadRequest, asAPIError(t.Context(), fmt.Errorf("choice 1: %w", err)).status)
	}
}
