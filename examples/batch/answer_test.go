package main

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/engine"
)

// bundle runs lines through the function in the same way as a runner.
func bundle(t *testing.T, f *answerFn, ctx context.Context, lines ...string) (answers, failures []string, err error) {
	yes, no := func(s string) { answers = append(answers, s) }, func(s string) { failures = append(failures, s) }
	require.NoError(t, f.StartBundle(ctx, yes, no))
	for _, line := range lines {
		if err := f.ProcessElement(ctx, []byte(line), yes, no); err != nil {
			return answers, failures, err
		}
	}
	return answers, failures, f.FinishBundle(ctx, yes, no)
}

// An abandoned bundle does not affect the next one, which answers all of its lines,
// with the same answers.
func TestABundleThatIsGivenUp(t *testing.T) {
	f := &answerFn{Settings: settings{Device: "cpu", Sequences: 2, MaxTokens: 200}}
	ctx, cancel := context.WithCancel(t.Context())
	nobody := func(string) { t.Error("an answer of a bundle that was given up") }
	require.NoError(t, f.StartBundle(ctx, nobody, nobody))
	for i := range 3 {
		require.NoError(t, f.ProcessElement(ctx, fmt.Appendf(nil, `{"id": "%d", "prompt": "fox"}`, i), nobody, nobody))
	}
	cancel()
	require.ErrorIs(t, f.FinishBundle(ctx, nobody, nobody), context.Canceled)

	lines := []string{`{"id": "a", "prompt": "fox", "max_tokens": 3}`, `{"id": "b", "prompt": "hen", "max_tokens": 3, "temperature": 1}`}
	first, failures, err := bundle(t, f, t.Context(), lines...)
	require.NoError(t, err)
	assert.Len(t, first, 2)
	assert.Empty(t, failures)
	second, _, err := bundle(t, f, t.Context(), lines...)
	require.NoError(t, err)
	assert.Equal(t, first, second)
	require.NoError(t, f.Teardown())
	assert.NotContains(t, workers.of, f.Settings, "a model that nobody closed")
}

// A bundle in which a later step fails stops its lines and gives the worker back: nothing
// calls its function again.
func TestALaterStepThatFails(t *testing.T) {
	f := &answerFn{Settings: settings{Device: "cpu", Sequences: 3, MaxTokens: 1}}
	fails := func(string) { panic("a later step") } // as Beam's emitters do
	for _, line := range []string{`{"id": "a", "prompt": "fox"}`, `{"id": "a"}`} {
		require.NoError(t, f.StartBundle(t.Context(), fails, fails))
		w, ctx := f.worker, f.ctx
		require.Equal(t, 1, w.users)
		require.Panics(t, func() {
			require.NoError(t, f.ProcessElement(t.Context(), []byte(line), fails, fails))
			require.NoError(t, f.FinishBundle(t.Context(), fails, fails))
		})
		require.ErrorIs(t, ctx.Err(), context.Canceled)
		require.Zero(t, w.users)
	}
	retry := &answerFn{Settings: f.Settings}
	answers, failures, err := bundle(t, retry, t.Context(), `{"id": "a", "prompt": "fox"}`)
	require.NoError(t, err)
	assert.Len(t, answers, 1)
	assert.Empty(t, failures)
	require.NoError(t, retry.Teardown())
	assert.NotContains(t, workers.of, f.Settings, "a model that nobody closed")
}

// deadEngine returns an engine that has ended with an error.
func deadEngine(t *testing.T) *engine.Engine {
	folder, device, m := loadDemo(t)
	e, err := engine.New(m, folder.Tokenizer, engine.Config{Sequences: 1})
	require.NoError(t, err)
	require.NoError(t, device.Close())
	s, err := e.Submit(t.Context(), engine.Request{Prompt: []int{1}, MaxTokens: 1})
	require.NoError(t, err)
	_, err = s.Result(t.Context())
	require.Error(t, err)
	require.Error(t, e.Close(t.Context())) // which waits for its end
	require.Error(t, e.Err())
	t.Cleanup(func() {
		_ = m.Close()
		_ = folder.Close()
	})
	return e
}

// A retry gets another worker in place of one whose engine has ended, even if others
// still use that.
func TestAnEngineThatHasEnded(t *testing.T) {
	f := &answerFn{Settings: settings{Device: "cpu", Sequences: 2, MaxTokens: 1}}
	nobody := func(string) { t.Error("an answer of an engine that has ended") }
	require.NoError(t, f.StartBundle(t.Context(), nobody, nobody))
	w, ctx := f.worker, f.ctx
	other := &answerFn{Settings: f.Settings}
	require.NoError(t, other.StartBundle(t.Context(), nobody, nobody))
	require.Same(t, w, other.worker)
	require.NoError(t, w.engine.Close(t.Context()))
	w.engine = deadEngine(t)

	line := `{"id": "a", "prompt": "fox"}`
	require.ErrorIs(t, f.ProcessElement(t.Context(), []byte(line), nobody, nobody), kompute.ErrClosed)
	require.ErrorIs(t, ctx.Err(), context.Canceled)
	require.Nil(t, f.worker)
	require.Equal(t, 1, w.users)

	retry := &answerFn{Settings: f.Settings}
	answers, failures, err := bundle(t, retry, t.Context(), line)
	require.NoError(t, err)
	assert.Len(t, answers, 1)
	assert.Empty(t, failures)
	assert.NotSame(t, w, workers.of[f.Settings])
	assert.Nil(t, w.device, "memory that the next worker may need")
	require.ErrorIs(t, other.ProcessElement(t.Context(), []byte(line), nobody, nobody), kompute.ErrClosed)
	require.Zero(t, w.users)
	require.NoError(t, retry.Teardown())
	assert.NotContains(t, workers.of, f.Settings, "a model that nobody closed")
}

// A line that takes too long fails, and delays no others.
func TestTimeout(t *testing.T) {
	f := &answerFn{Settings: settings{Device: "cpu", Sequences: 1, MaxTokens: 1, Timeout: 1}}
	answers, failures, err := bundle(t, f, t.Context(), `{"id": "slow", "prompt": "fox"}`)
	require.NoError(t, err)
	assert.Empty(t, answers)
	require.Len(t, failures, 1)
	assert.Contains(t, failures[0], "no answer within 1ns")
	require.NoError(t, f.Teardown())
}
