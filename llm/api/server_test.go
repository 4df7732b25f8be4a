package main

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const name = "My name is Mote. I am a tiny language model that runs on the GPU through Vulkan."

// service is a server with the demo model on the CPU backend.
type service struct {
	*testing.T
	*server
	url  string
	http *httptest.Server
	said *testLog
}

// start starts a server with these flags; change, if not nil, may change the model.
func start(t *testing.T, change func(*loaded), flags ...string) service {
	t.Helper()
	o, err := parseFlags(append([]string{"--device", "cpu", "--sequences", "4"}, flags...), io.Discard)
	require.NoError(t, err)
	lines := &testLog{t: t}
	log := newTestLog(lines)
	s := newServer(o, log)
	m, err := openModel(t.Context(), o, log)
	require.NoError(t, err)
	if change != nil {
		change(m)
	}
	s.model.Store(m)
	h := httptest.NewServer(s)
	t.Cleanup(func() {
		h.Close()
		require.NoError(t, m.Close())
	})
	return service{t, s, h.URL, h, lines}
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

// Two devices share the requests, and each has its own lines among the metrics.
func TestSeveralDevices(t *testing.T) {
	s := start(t, nil, "--device", "cpu,cpu") // in addition to the one of every test
	var all sync.WaitGroup
	for range 6 {
		all.Go(func() {
			a := s.post("/v1/chat/completions", `{`+question+`}`)
			if assert.Equal(t, http.StatusOK, a.status) {
				assert.Equal(t, name, a.Choices[0].Message.Content)
			}
		})
	}
	all.Wait()
	_, body := s.get("/metrics")
	for _, want := range []string{"kompute_devices 3", "kompute_replaced_total 0", `kompute_device_memory_bytes{device="2"} `} {
		require.Contains(t, body, want)
	}
	steps := s.model.Load().engine.Stats().DeviceSteps
	require.Len(t, steps, 3)
	for _, n := range steps {
		require.Positive(t, n)
	}
}

// Kernels are compiled before requests are accepted, unless a flag says otherwise; a signal ends that.
func TestWarmUp(t *testing.T) {
	for flag, warm := range map[string]bool{"--no-warm-up=false": true, "--no-warm-up": false} {
		s := start(t, nil, flag)
		require.Equal(t, warm, strings.Contains(s.said.String(), `msg="kernels are compiled"`), flag)
		ctx, stop := context.WithCancel(t.Context())
		stop()
		err := s.model.Load().warmUp(ctx, s.options, s.log)
		if warm {
			require.ErrorIs(t, err, context.Canceled)
		} else {
			require.NoError(t, err)
		}
	}
}
