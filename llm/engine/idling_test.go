package engine

import (
	"errors"
	"log/slog"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/testmodel"
	"github.com/kompute-go/kompute-go/kompute"
)

// While the engine is kept idle, as by WarmUp, logs may ask for its statistics and requests are
// accepted, which then wait.
func TestIdlingHoldsNobodyUp(t *testing.T) {
	var e *Engine
	m, folder := small(t, kompute.WithLogger(testmodel.OnLine(func() {
		if e != nil {
			_ = e.Stats()
		}
	})))
	made, err := New(m, folder.Tokenizer, Config{Sequences: 2, Context: 64})
	require.NoError(t, err)
	e = made
	var s *Stream
	require.NoError(t, e.whileIdle(func(open []*replica) error {
		require.Equal(t, e.replicas, open)
		m.Device().Logger().Warn("the driver refuses a kernel", slog.Int("kernel", 1))
		s, err = e.Submit(t.Context(), Request{Prompt: []int{1}, MaxTokens: 2})
		require.NoError(t, err)
		time.Sleep(20 * time.Millisecond)
		require.Zero(t, e.Stats().Steps)
		require.Equal(t, 1, e.Stats().Waiting)
		return nil
	}))
	r, err := s.Result(t.Context())
	require.NoError(t, err)
	require.Len(t, r.IDs, 2)
	failed := errors.New("failed")
	require.ErrorIs(t, e.whileIdle(func([]*replica) error { return failed }), failed)
	require.NoError(t, e.Close(t.Context()))
	require.ErrorIs(t, e.whileIdle(func([]*replica) error { return nil }), kompute.ErrClosed)
}

// Every size that a step with one piece of a prompt can have is usual, and with any limit of
// guesses those without prompts are.
func TestUsualSizes(t *testing.T) {
	q := &sequence{request: &Request{}, pages: make([]*page, 1)}
	for _, c := range []*Config{
		{Sequences: 32, ChunkTokens: 600}, {Sequences: 32, ChunkTokens: 512}, {Sequences: 300, ChunkTokens: 300}, {Sequences: 900, ChunkTokens: 1000},
		{Sequences: 32, ChunkTokens: 24}, {Sequences: 4, ChunkTokens: 64, Draft: math.MaxInt}, {Sequences: 1, ChunkTokens: 1},
	} {
		c.PageTokens, c.Context = 64, 6400
		usual := c.usualSizes(false)
		step := &stepper{config: c}
		one := step.sizeFor(&pendingStep{rows: 1, chosen: 1, pieces: []piece{{sequence: q, count: 1, chosen: 1}}})
		require.True(t, slices.Contains(usual, one), "%+v", c)
		for rows := 2; rows <= c.mostRows(); rows++ {
			z := step.sizeFor(&pendingStep{rows: rows, chosen: 1, pieces: []piece{{sequence: q, count: rows, chosen: 1}}})
			require.True(t, slices.Contains(usual, z), "%+v: %d rows", c, rows)
		}
	}
}
