package engine_test

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/testmodel"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/engine"
	"github.com/kompute-go/kompute-go/llm/generate"
)

// pooled computes an embedding, by its definition, from states [T, H] of another
// implementation.
func pooled(states []float32, width int, p engine.Pooling, r *engine.EmbedRequest) []float32 {
	out := make([]float64, width)
	n := len(states) / width
	for t := range n {
		for i := range out {
			if x := float64(states[t*width+i]); p == engine.PoolMean {
				out[i] += x / float64(n)
			} else if t == n-1 {
				out[i] = x
			}
		}
	}
	if r.Dimensions > 0 {
		out = out[:r.Dimensions]
	}
	length := 0.0
	for _, x := range out {
		length += x * x
	}
	result := make([]float32, len(out))
	for i, x := range out {
		if !r.Raw {
			x /= math.Sqrt(length)
		}
		result[i] = float32(x)
	}
	return result
}

// Embeddings agree with the states of transformers.
func TestGoldenEmbeddings(t *testing.T) {
	cases, file := testmodel.Goldens(t)
	states := testmodel.Golden(t, file, "case0.hidden6")
	eachDemo(t, func(d demo) {
		width := d.model.Limits().Width
		require.Len(d, states, len(cases[0].PromptIDs)*width)
		for _, chunk := range []int{256, 5} {
			e := d.engine(engine.Config{Sequences: 4, Context: 64, PageTokens: 4, ChunkTokens: chunk})
			for _, r := range []engine.EmbedRequest{
				{Pooling: engine.PoolLast}, {Pooling: engine.PoolMean}, {Pooling: engine.PoolLast, Dimensions: 32},
				{Pooling: engine.PoolMean, Raw: true}, {Pooling: engine.PoolLast, Raw: true},
			} {
				r.Inputs = [][]int{cases[1].PromptIDs, cases[0].PromptIDs, cases[0].PromptIDs, cases[2].PromptIDs}
				got, err := e.Embed(d.Context(), r)
				require.NoError(d, err)
				want := pooled(states, width, r.Pooling, &r)
				for _, i := range []int{1, 2} {
					testmodel.RequireClose(d.T, want, got[i], 1e-3, "embedding")
				}
				require.Len(d, got[3], len(want))
			}
			require.Equal(d, e.Stats().Pages, e.Stats().FreePages)
			d.close(e)
		}
	})
}

// An embedding does not depend on other requests, however little memory there is, nor
// do requests for tokens depend on simultaneous embeddings.
func TestEmbeddingsInAnyCompany(t *testing.T) {
	eachSmall(t, func(d demo) {
		r := rand.New(rand.NewPCG(3, 1))
		random := func(n int) []int {
			ids := make([]int, n)
			for i := range ids {
				ids[i] = r.IntN(smallVocabulary)
			}
			return ids
		}
		prefix := random(20)
		var texts [][]int
		for range 12 {
			texts = append(texts, slices.Concat(prefix, random(1+r.IntN(60))))
		}
		request := engine.Request{Prompt: texts[0], MaxTokens: 40}
		alone := d.engine(engine.Config{Sequences: 1, Context: 128, PageTokens: 8})
		want := map[engine.Pooling][][]float32{}
		for _, p := range []engine.Pooling{engine.PoolLast, engine.PoolMean} {
			for _, text := range texts {
				one, err := alone.Embed(d.Context(), engine.EmbedRequest{Inputs: [][]int{text}, Pooling: p})
				require.NoError(d, err)
				want[p] = append(want[p], one...)
			}
		}
		stream, err := alone.Submit(d.Context(), request)
		require.NoError(d, err)
		answer, err := stream.Result(d.Context())
		require.NoError(d, err)
		d.close(alone)

		e := d.engine(engine.Config{Sequences: 6, Context: 128, PageTokens: 8, CacheTokens: 160, ChunkTokens: 16})
		defer d.close(e)
		var all sync.WaitGroup
		for p, want := range want {
			all.Go(func() {
				got, err := e.Embed(d.Context(), engine.EmbedRequest{Inputs: texts, Pooling: p})
				require.NoError(d, err)
				for i := range texts {
					testmodel.RequireClose(d.T, want[i], got[i], 1e-4, "embedding")
				}
			})
			all.Go(func() {
				s, err := e.Submit(d.Context(), request)
				require.NoError(d, err)
				got, err := s.Result(d.Context())
				require.NoError(d, err)
				requireSame(d, answer, got)
			})
			all.Go(func() {
				ctx, cancel := context.WithCancel(d.Context())
				cancel()
				_, err := e.Embed(ctx, engine.EmbedRequest{Inputs: texts, Pooling: p})
				require.ErrorIs(d, err, context.Canceled)
			})
		}
		all.Wait()
		require.Equal(d, e.Stats().Pages, e.Stats().FreePages)
	})
}

func TestEmbeddingRefusals(t *testing.T) {
	d := cpuDemo(t)
	e := d.engine(engine.Config{Sequences: 1, Context: 8, Queue: 2})
	defer d.close(e)
	one := [][]int{{1, 2}}
	for _, r := range []engine.EmbedRequest{
		{}, {Inputs: one, Pooling: 7}, {Inputs: one, Dimensions: -1}, {Inputs: one, Dimensions: 257}, {Inputs: [][]int{{1}, {2}, {3}}},
	} {
		_, err := e.Embed(d.Context(), r)
		require.ErrorIs(d, err, kompute.ErrInvalid, "%+v", r)
	}
	for _, ids := range [][]int{{}, {-1}, {1 << 20}, make([]int, 9)} {
		_, err := e.Embed(d.Context(), engine.EmbedRequest{Inputs: [][]int{{1}, ids}})
		require.ErrorIs(d, err, generate.ErrPrompt)
	}
	var none *engine.Engine
	_, err := none.Embed(d.Context(), engine.EmbedRequest{Inputs: one})
	require.ErrorIs(d, err, kompute.ErrClosed)
}
