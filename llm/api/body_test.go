package api

import (
	"fmt"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Values that take much more memory than their bytes are refused before they are decoded.
// Tokens of a prompt are as many as the bytes allow.
func TestManyValues(t *testing.T) {
	s := start(t, nil)
	for what, body := range map[string]string{
		"messages": `{"messages":[%s{}]}`, "parts": `{"messages":[{"role":"user","content":[%s{}]}]}`,
		"calls": `{"messages":[{"role":"user","tool_calls":[%s{}]}]}`, "unknown": `{"x":[%s{}]}`,
	} {
		a := s.post("/v1/chat/completions", fmt.Sprintf(body, strings.Repeat("{},", maxValues)))
		require.Equal(t, http.StatusRequestEntityTooLarge, a.status, what)
		require.Equal(t, "body_too_large", a.Error.Code, what)
	}
	a := s.post("/v1/completions", `{"prompt":[`+strings.Repeat("[1],", maxValues)+`[1]]}`)
	require.Equal(t, "body_too_large", a.Error.Code)
	a = s.post("/v1/completions", `{"prompt":[`+strings.Repeat("1,", 2_000_000)+`1]}`)
	require.Equal(t, "context_length_exceeded", a.Error.Code)
}

// The work for a body is in proportion to its bytes.
func TestMemoryOfBodies(t *testing.T) {
	s := start(t, nil)
	for what, body := range map[string]string{
		"parts":     `{"messages":[{"content":[` + strings.Repeat(`{"text":"`+strings.Repeat("x", 50)+`"},`, 30_000) + `{}]}]}`,
		"arguments": `{"chat_template_kwargs":{"a":[` + strings.Repeat("1,", 1_000_000) + `1]}}`,
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		require.NoError(t, s.decode(t.Context(), []byte(body), new(chatRequest)))
		runtime.ReadMemStats(&after)
		require.Less(t, (after.TotalAlloc-before.TotalAlloc)/uint64(len(body)), uint64(20), what)
	}
}

// A request that runs does not keep fields that nobody reads.
func TestMemoryOfUnknownFields(t *testing.T) {
	s := start(t, nil)
	q := new(chatRequest)
	require.NoError(t, s.decode(t.Context(), []byte(`{"x":"`+strings.Repeat("x", 1<<20)+`","messages":[{"role":"user","content":"Hi"}]}`), q))
	require.NotEmpty(t, q.Others)
	require.NoError(t, q.check(s.model.Load()))
	require.Empty(t, q.Others)
}

// slowly sends a request's header and the beginning of its body.
func (s service) slowly(length, sent int) net.Conn {
	s.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	require.NoError(s, err)
	s.Cleanup(func() { _ = c.Close() })
	const head = "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
	_, err = fmt.Fprintf(c, head, length, strings.Repeat(" ", sent))
	require.NoError(s, err)
	return c
}

// Clients that are slow to send a body take no slots, and memory only for what they have sent.
func TestSlowBodies(t *testing.T) {
	s := start(t, nil, func(c *setting) { c.MaxBody, c.engine.Sequences, c.engine.Queue = 1000, 1, 1 })
	read := func(bytes int64) {
		s.Helper()
		require.Eventually(t, func() bool { return s.bodyBytes.Load() == bytes }, time.Minute, time.Millisecond)
	}
	for range 10 {
		s.slowly(1000, 1)
	}
	read(10)
	const body = `{"prompt":"x","max_tokens":1}`
	require.Equal(t, http.StatusOK, s.post("/v1/completions", body).status)
	var full []net.Conn
	for range bodiesAtOnce {
		full = append(full, s.slowly(1000, 999))
	}
	read(10 + 999*bodiesAtOnce)
	a := s.post("/v1/completions", body+strings.Repeat(" ", 100))
	require.Equal(t, http.StatusTooManyRequests, a.status)
	for _, c := range full {
		require.NoError(t, c.Close())
	}
	read(10)
	require.Equal(t, http.StatusOK, s.post("/v1/completions", body).status)
}

// What clients send does not come back whole, nor go into the log.
func TestLongTexts(t *testing.T) {
	s := start(t, nil)
	long := strings.Repeat(`\\`, 100_000)
	for _, body := range []string{`{"model":"` + long + `",` + question + `}`, `{"chat_template_kwargs":{"` + long + `":{}},` + question + `}`} {
		a := s.post("/v1/chat/completions", body)
		require.GreaterOrEqual(t, a.status, 400)
		require.Less(t, len(a.Error.Message)+len(a.Error.Param), 2000)
	}
	require.Less(t, len(s.said.String()), 5000)
	require.Equal(t, strings.Repeat("x", 499)+"…", brief(strings.Repeat("x", 499)+"ö"))
}

// A body that is compressed is refused for that reason, not as broken JSON.
func TestCompressedBodies(t *testing.T) {
	s := start(t, nil)
	for coding, status := range map[string]int{"gzip": http.StatusUnsupportedMediaType, "identity": http.StatusOK} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/v1/completions", strings.NewReader(`{"prompt":"x","max_tokens":1}`))
		require.NoError(t, err)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Content-Encoding", coding)
		response, err := s.http.Client().Do(r)
		require.NoError(t, err)
		defer response.Body.Close()
		a := s.read(response)
		require.Equal(t, status, a.status)
		if status != http.StatusOK {
			require.Contains(t, a.Error.Message, "gzip")
		}
	}
}
