package api

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/demomodel"
	"github.com/kompute-go/kompute-go/llm/engine"
	"github.com/kompute-go/kompute-go/llm/generate"
	"github.com/kompute-go/kompute-go/llm/model"
)

const name = "My name is Mote. I am a tiny language model that runs on the GPU through Vulkan."

// service is a server with the demo model on the CPU backend.
type service struct {
	*testing.T
	*Server
	url     string
	http    *httptest.Server
	said    *testLog
	metrics *testMetrics
}

// setting is what a test may change.
type setting struct {
	Options
	engine engine.Config
}

// start starts a server; change, if not nil, may change the model.
func start(t *testing.T, change func(*loaded), set ...func(*setting)) service {
	t.Helper()
	lines, metrics := &testLog{t: t}, &testMetrics{}
	with := setting{Options{Log: newTestLog(lines), Metrics: metrics}, engine.Config{Sequences: 4}}
	for _, f := range set {
		f(&with)
	}
	folder, err := generate.OpenFS(demomodel.FS(), demomodel.Name)
	require.NoError(t, err)
	m, err := folder.Load(t.Context(), openCPU(t), model.Options{Capacity: with.engine.CacheTokens})
	require.NoError(t, err)
	e, err := engine.New(m, folder.Tokenizer, with.engine)
	require.NoError(t, err)
	s := New(with.Options)
	require.NoError(t, s.SetModel(t.Context(), folder, e))
	if change != nil {
		change(s.model.Load())
	}
	h := httptest.NewServer(s)
	t.Cleanup(func() {
		h.Close()
		require.NoError(t, e.Close(context.Background()))
		require.NoError(t, errors.Join(m.Close(), folder.Close()))
	})
	return service{t, s, h.URL, h, lines, metrics}
}

// openCPU opens a device of the CPU backend until the test ends.
func openCPU(t *testing.T) *kompute.Device {
	t.Helper()
	d, err := kompute.Open("cpu")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

// testMetrics are those of a test.
type testMetrics struct {
	mu         sync.Mutex
	requests   map[string]int // by route and status
	firsts     int
	tokenTimes []time.Duration
}

func (m *testMetrics) Request(route string, status int, _ time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.requests == nil {
		m.requests = map[string]int{}
	}
	m.requests[fmt.Sprint(route, " ", status)]++
}

func (m *testMetrics) FirstToken(time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.firsts++
}

func (m *testMetrics) TokenTime(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tokenTimes = append(m.tokenTimes, d)
}

// of returns how often a route answered with a status.
func (m *testMetrics) of(route string, status int) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.requests[fmt.Sprint(route, " ", status)]
}

func newTestLog(l *testLog) *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// testLog is a log that a failing test shows.
type testLog struct {
	t  *testing.T
	mu sync.Mutex
	b  strings.Builder
}

func (l *testLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (l *testLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.b.Len() == 0 {
		l.t.Cleanup(func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			if l.t.Failed() {
				l.t.Log(l.b.String())
			}
		})
	}
	return l.b.Write(p)
}

// answered is an answer of the API, or an error.
type answered struct {
	status  int
	header  http.Header
	ID      string
	Object  string
	Model   string
	Choices []struct {
		Index    int
		Text     string
		Message  answeredFields
		Delta    answeredFields
		Finish   string `json:"finish_reason"`
		Logprobs struct {
			chatLogprobs
			textLogprobs
		}
	}
	Usage *usage
	Error *struct {
		Message, Type string
		Param, Code   string
	}
}

type answeredFields struct {
	Role, Content string
	Reasoning     string     `json:"reasoning_content"`
	ToolCalls     []toolCall `json:"tool_calls"`
}

func (s service) request(ctx context.Context, path, body string) *http.Response {
	s.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+path, strings.NewReader(body))
	require.NoError(s, err)
	r.Header.Set("Content-Type", "application/json")
	response, err := s.http.Client().Do(r)
	require.NoError(s, err)
	s.Cleanup(func() { _ = response.Body.Close() })
	return response
}

// post sends a request and reads the whole answer.
func (s service) post(path, body string) answered {
	s.Helper()
	return s.read(s.request(s.Context(), path, body))
}

func (s service) read(response *http.Response) answered {
	s.Helper()
	a := answered{status: response.StatusCode, header: response.Header}
	data, err := io.ReadAll(response.Body)
	require.NoError(s, err)
	require.NoError(s, json.Unmarshal(data, &a, json.MatchCaseInsensitiveNames(true)), string(data))
	return a
}

// into sends a request whose answer is no completion, and reads it.
func (s service) into(path, body string, into any, options ...json.Options) {
	s.Helper()
	response := s.request(s.Context(), path, body)
	data, err := io.ReadAll(response.Body)
	require.NoError(s, err)
	require.Equal(s, http.StatusOK, response.StatusCode, string(data))
	require.NoError(s, json.Unmarshal(data, into, options...), string(data))
}

// events sends a request and reads its stream up to the end.
func (s service) events(path, body string) []answered {
	s.Helper()
	response := s.request(s.Context(), path, body)
	require.Equal(s, http.StatusOK, response.StatusCode)
	require.Equal(s, "text/event-stream", response.Header.Get("Content-Type"))
	var out []answered
	done := false
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		switch {
		case lines.Text() == "":
		case data == "[DONE]":
			done = true
		default:
			require.True(s, ok, lines.Text())
			require.False(s, done)
			var a answered
			require.NoError(s, json.Unmarshal([]byte(data), &a, json.MatchCaseInsensitiveNames(true)), data)
			out = append(out, a)
		}
	}
	require.True(s, done)
	return out
}

func (s service) get(path string) (int, string) {
	s.Helper()
	response, err := s.http.Client().Get(s.url + path)
	require.NoError(s, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(s, err)
	return response.StatusCode, string(body)
}

const question = `"messages":[{"role":"user","content":"Hi what is your name"}],"temperature":0`

func TestChat(t *testing.T) {
	s := start(t, nil)
	a := s.post("/v1/chat/completions", `{`+question+`}`)
	require.Equal(t, http.StatusOK, a.status)
	require.Equal(t, "chat.completion", a.Object)
	require.Equal(t, "mote-4bit", a.Model)
	require.Len(t, a.Choices, 1)
	require.Equal(t, answeredFields{"assistant", name, "Okay, the user asked for my name. I should tell them who I am.", nil}, a.Choices[0].Message)
	require.Equal(t, "stop", a.Choices[0].Finish)
	require.Equal(t, 13, a.Usage.Prompt)
	require.Equal(t, a.Usage.Prompt+a.Usage.Completion, a.Usage.Total)
	require.Positive(t, a.Usage.Details.Reasoning)

	events := s.events("/v1/chat/completions", `{"stream":true,"stream_options":{"include_usage":true},`+question+`}`)
	require.Equal(t, "assistant", events[0].Choices[0].Delta.Role)
	last := len(events) - 1
	require.Empty(t, events[last].Choices)
	require.Equal(t, a.Usage, events[last].Usage)
	content, reasoning := "", ""
	for i, e := range events[:last] {
		require.Equal(t, "chat.completion.chunk", e.Object)
		require.Equal(t, events[0].ID, e.ID)
		require.Nil(t, e.Usage)
		content += e.Choices[0].Delta.Content
		reasoning += e.Choices[0].Delta.Reasoning
		require.Equal(t, i == last-1, e.Choices[0].Finish != "")
	}
	require.Equal(t, a.Choices[0].Message.Content, content)
	require.Equal(t, a.Choices[0].Message.Reasoning, reasoning)
	require.Greater(t, last, 20)

	for more, nulls := range map[string]bool{`"stream_options":{"include_usage":true},`: true, "": false} {
		response := s.request(t.Context(), "/v1/chat/completions", `{"stream":true,"max_tokens":3,`+more+question+`}`)
		body, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		require.Equal(t, nulls, strings.Contains(string(body), `"usage":null`))
	}

	quick := s.post("/v1/chat/completions", `{"chat_template_kwargs":{"enable_thinking":false},`+question+`}`)
	require.Empty(t, quick.Choices[0].Message.Reasoning)
	require.Equal(t, name, quick.Choices[0].Message.Content)
}
