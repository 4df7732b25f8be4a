package main

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// get returns what a path of the program answers.
func (p *program) get(t *testing.T, path string) (int, string) {
	t.Helper()
	response, err := http.Get("http://" + p.address + path)
	require.NoError(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, string(body)
}

// answer returns the whole answer to a question.
func (p *program) answer(t *testing.T, body string) string {
	t.Helper()
	text, err := io.ReadAll(p.post(t, body).Body)
	require.NoError(t, err)
	return string(text)
}

// The program has a chat page, and metrics of its requests, its engine and its devices.
func TestPageAndMetrics(t *testing.T) {
	p := runProgram(t)
	for path, want := range map[string]string{
		"/": `<script src="page/chat.js"`, "/page/chat.js": `"use strict"`, "/page/chat.css": ":root", "/readyz": "ready", "/v1/models": `"id":"mote-4bit"`,
	} {
		status, body := p.get(t, path)
		require.Equal(t, http.StatusOK, status, path)
		require.Contains(t, body, want, path)
	}
	for path, want := range map[string]int{"/page/none.js": http.StatusNotFound, "/nothing": http.StatusNotFound, "/page/..%2fmain.go": http.StatusBadRequest} {
		status, _ := p.get(t, path)
		require.Equal(t, want, status, path)
	}
	p.answer(t, `{"max_tokens":16,`+question+`}`)
	_, body := p.get(t, "/metrics")
	for _, want := range []string{
		`kompute_requests_total{route="POST /v1/chat/completions",status="200"} 1`, `kompute_requests_total{route="other",status="404"} 1`,
		"kompute_generated_tokens_total 16", "kompute_requests_waiting 0", "kompute_pages_free ", "kompute_time_to_first_token_seconds_count 1",
		"kompute_time_per_output_token_seconds_count 1", `kompute_device_memory_bytes{device="0"} `,
	} {
		require.Contains(t, body, want)
	}
	p.stop()
	require.NoError(t, p.end(t))
}

// Two devices share the requests, and each has its own lines among the metrics.
func TestSeveralDevices(t *testing.T) {
	p := runProgram(t, "--device", "cpu,cpu") // in addition to the one of every test
	var all sync.WaitGroup
	for range 6 {
		all.Go(func() { assert.Contains(t, p.answer(t, `{`+question+`}`), "My name is Mote.") })
	}
	all.Wait()
	_, body := p.get(t, "/metrics")
	for _, want := range []string{"kompute_devices 3", "kompute_replaced_total 0", `kompute_device_memory_bytes{device="2"} `} {
		require.Contains(t, body, want)
	}
}

// Flags reach the server and the model.
func TestFlags(t *testing.T) {
	p := runProgram(t, "--no-think", "--max-tokens", "4", "--name", "mine", "--dtype", "bfloat16", "--context", "64", "--no-warm-up")
	require.NotContains(t, p.log.String(), "kernels")
	answer := p.answer(t, `{"model":"mine","max_tokens":50,`+question+`}`)
	require.Contains(t, answer, `"content":"My name is Mote"`)
	_, models := p.get(t, "/v1/models")
	require.Contains(t, models, `"max_model_len":64`)
	o, err := parseFlags([]string{"--dtype", "bfloat16", "--pooling", "mean", "--api-key", "k"}, io.Discard)
	require.NoError(t, err)
	require.Equal(t, []any{"bfloat16", 1, "k"}, []any{strings.ToLower(o.loading.DType.String()), int(o.api.Pooling), o.api.Key})
}

// Kernels are compiled before requests are accepted, unless a flag says otherwise; a signal ends that.
func TestWarmUp(t *testing.T) {
	p := runProgram(t)
	require.Contains(t, p.log.String(), `msg="kernels are compiled"`)
	p.stop()
	require.NoError(t, p.end(t))
	ctx, stop := context.WithCancel(t.Context())
	stop()
	require.NoError(t, run(ctx, []string{"--listen", "127.0.0.1:0", "--device", "cpu"}, io.Discard, io.Discard))
}
