package engine_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/engine"
	"github.com/kompute-go/kompute-go/llm/sample"
)

// After WarmUp, no request waits for a kernel, whatever steps it needs.
func TestWarmUp(t *testing.T) {
	eachSmall(t, func(d demo) {
		e := d.engine(engine.Config{Sequences: 3, Context: 128, PageTokens: 8, ChunkTokens: 24, Draft: 2})
		defer d.close(e)
		device := d.model.Device()
		built := device.Stats().PipelinesBuilt
		live := device.Stats().LiveBytes
		require.NoError(d, e.WarmUp(d.Context()))
		require.Equal(d, live, device.Stats().LiveBytes, "captured steps are discarded")
		if device.Backend() != "cpu" {
			require.Greater(d, device.Stats().PipelinesBuilt, built)
		}
		built = device.Stats().PipelinesBuilt
		for together := range 9 {
			for _, prompt := range []int{1, 5, 20, 90} {
				var all []*engine.Stream
				for i := range together%3 + 1 {
					r := engine.Request{Prompt: make([]int, prompt+i), MaxTokens: 12, Sampling: sample.Params{Temperature: float64(prompt % 2), Seed: 1}}
					if together >= 3 {
						r.Grammar, r.LogitBias, r.Logprobs = engine.SmallGrammar(d), map[int]float64{65: 1}, true
					}
					if together >= 6 {
						r.Grammar, r.RepetitionPenalty = nil, 1.1
					}
					s, err := e.Submit(d.Context(), r)
					require.NoError(d, err)
					all = append(all, s)
				}
				for _, s := range all {
					_, err := s.Result(d.Context())
					require.NoError(d, err)
				}
				require.Equal(d, built, device.Stats().PipelinesBuilt, "%d requests with prompts of %d", together+1, prompt)
			}
		}
	}, kompute.WithStrict()) // of its own: others have not built any
}

// WarmUp gives way to requests and to its context, and a closed engine has nothing to warm up.
func TestWarmUpEndsEarly(t *testing.T) {
	eachSmall(t, func(d demo) {
		e := d.engine(engine.Config{Sequences: 1, Context: 64, PageTokens: 8, ChunkTokens: 16})
		ctx, cancel := context.WithCancel(d.Context())
		cancel()
		require.ErrorIs(d, e.WarmUp(ctx), context.Canceled)
		held := make(chan struct{})
		s, err := e.Submit(d.Context(), engine.Request{Prompt: []int{1}, MaxTokens: 1, Logits: func([]int32, []float32) error {
			<-held
			return nil
		}})
		require.NoError(d, err)
		require.ErrorIs(d, e.WarmUp(d.Context()), engine.ErrBusy)
		close(held)
		_, err = s.Result(d.Context())
		require.NoError(d, err)
		d.close(e)
		require.ErrorIs(d, e.WarmUp(d.Context()), kompute.ErrClosed)
		require.ErrorIs(d, new(engine.Engine).WarmUp(d.Context()), kompute.ErrClosed)
	})
}
