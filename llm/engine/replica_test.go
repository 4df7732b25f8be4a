package engine

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/testmodel"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/model"
)

// A log may ask the engine for its statistics, also when a device fails for good.
func TestLogOfAFailedDeviceReadsStats(t *testing.T) {
	var e *Engine
	lines := 0
	m, folder := small(t, kompute.WithLogger(testmodel.OnLine(func() {
		lines++
		require.Equal(t, 1, e.Stats().Devices)
	})))
	e = &Engine{limits: m.Limits(), tokenizer: folder.Tokenizer, config: Config{Sequences: 2}, outbox: newOutbox(), ended: make(chan struct{})}
	require.NoError(t, e.config.fill(m))
	e.wake = sync.NewCond(&e.mu)
	e.stopped, e.stop = context.WithCancel(t.Context())
	defer e.stop()
	for range 2 {
		r, err := newReplica(e, nil, m)
		require.NoError(t, err)
		defer func() { require.NoError(t, r.steps.close()) }()
		e.replicas = append(e.replicas, r)
	}
	failed := e.replicas[0]
	failed.scheduler.lose()
	done := make(chan struct{})
	go func() {
		defer close(done)
		e.fail(failed, errors.New("made up"))
	}()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		require.FailNow(t, "it hangs")
	}
	require.Equal(t, 1, lines)
	require.NoError(t, e.Err())
}

// An engine begins with another device in place of one that somebody has closed in order to
// replace it, but did not, for his context has ended.
func TestEngineAfterACancelledReplacement(t *testing.T) {
	_, folder := small(t)
	c, _ := testmodel.Small().Open(t)
	ctx, cancel := context.WithCancel(t.Context())
	d, err := kompute.Open("cpu", kompute.WithLogger(testmodel.OnLine(cancel)))
	require.NoError(t, err)
	defer d.Close()
	h, err := model.NewHost(t.Context(), d, c, model.Options{}, model.HostOptions{Most: 1})
	require.NoError(t, err)
	_, err = h.Replace(ctx, h.Model(), kompute.ErrDeviceLost)
	require.ErrorIs(t, err, context.Canceled)
	e, err := NewHosted([]*model.Host{h}, folder.Tokenizer, Config{Sequences: 2, Context: 64, BatchInvariant: true})
	require.NoError(t, err)
	require.Equal(t, 2, e.Stats().Places, "the limits are not those of the closed device")
	s, err := e.Submit(t.Context(), Request{Prompt: []int{1, 2, 3}, MaxTokens: 5})
	require.NoError(t, err)
	r, err := s.Result(t.Context())
	require.NoError(t, err)
	require.NotEmpty(t, r.IDs)
	require.Equal(t, 1, h.Replaced())
	require.NoError(t, e.Close(t.Context()))
	require.NoError(t, h.Close())
}
