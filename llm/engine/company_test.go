package engine_test

import (
	"context"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/fallback"
	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/engine"
	"github.com/kompute-go/kompute-go/llm/generate"
	"github.com/kompute-go/kompute-go/llm/sample"
)

const smallVocabulary = 96

// randomRequest makes a request of any kind, which may begin like others.
func randomRequest(r *rand.Rand, prefixes [][]int) engine.Request {
	token := func() int { return r.IntN(smallVocabulary) }
	prompt := slices.Clone(prefixes[r.IntN(len(prefixes))])
	for range 1 + r.IntN(20) {
		prompt = append(prompt, token())
	}
	q := engine.Request{Prompt: prompt, MaxTokens: 1 + r.IntN(24), EOS: []int{token(), token(), token()}}
	if r.IntN(2) == 0 {
		q.Sampling = sample.Params{Temperature: 0.5 + r.Float64(), TopK: r.IntN(50), TopP: 0.5 + r.Float64()/2, Seed: r.Uint64()}
	}
	if r.IntN(4) == 0 { // an answer that repeats itself
		q.EOS, q.LogitBias, q.MaxTokens = nil, nil, 24
	}
	q.Logprobs = true
	switch r.IntN(8) {
	case 0:
		q.RepetitionPenalty, q.TopLogprobs = 1.3, 2
	case 1:
		q.PresencePenalty, q.FrequencyPenalty = 0.5, 0.25
	case 2:
		q.MinTokens, q.LogitBias = q.MaxTokens/2, map[int]float64{token(): 2, token(): math.Inf(-1)}
	case 3:
		banned := token()
		q.Logits = func(tokens []int32, logits []float32) error {
			logits[(banned+len(tokens))%len(logits)] += 3
			return nil
		}
	}
	return q
}

// logprobDelta is how far log-probabilities of the same request may differ: not at all where
// products of a row have the same bits for any number of rows. The small model has affine codes.
// Elsewhere rounding changes them by up to 5e-6, and by 1e-4 where an element of an 8-bit page
// becomes the next code.
func logprobDelta(d demo, cache kompute.DType) float64 {
	d.Helper()
	rounding := 1e-4
	if cache == kompute.DTypeUint8 {
		rounding = 1e-3
	}
	if device := d.model.Device(); device.Backend() != "cpu" {
		const least = 8 // smaller subgroups have no kernels for integers
		if os.Getenv(asGPU) != "" && device.Info().SubgroupSize >= least {
			return 0
		}
		return rounding
	}
	w, err := array.New(array.Uint32, 1, 8)
	require.NoError(d, err)
	scales, err := array.New(array.Float32, 1, 1)
	require.NoError(d, err)
	rows, err := fallback.NewQuantizedRows(w, scales, scales, fallback.Quantization{GroupSize: 64, Bits: 4})
	require.NoError(d, err)
	if rows.SameBits() {
		return 0
	}
	return rounding
}

// requireSame compares answers of engines whose pages have the model's type.
func requireSame(d demo, want, got *generate.Result) {
	d.Helper()
	requireSameWith(d, 0, want, got)
}

// requireSameWith compares answers of engines with that type of pages.
func requireSameWith(d demo, cache kompute.DType, want, got *generate.Result) {
	d.Helper()
	require.Equal(d, want.IDs, got.IDs)
	require.Equal(d, want.Text, got.Text)
	require.Equal(d, want.Finish, got.Finish)
	require.Len(d, got.Logprobs, len(want.Logprobs))
	for i, l := range got.Logprobs {
		require.Equal(d, got.IDs[i], l.ID)
		require.InDelta(d, want.Logprobs[i].Value, l.Value, logprobDelta(d, cache))
	}
}

// requireAnswer waits for a whole answer.
func requireAnswer(d demo, want *generate.Result, s *engine.Stream) {
	d.Helper()
	got, err := s.Result(d.Context())
	require.NoError(d, err)
	requireSame(d, want, got)
}

// idleStats are those of an engine that has answered everything: it holds no pages.
func idleStats(d demo, e *engine.Engine) engine.Stats {
	d.Helper()
	stats := e.Stats()
	require.Equal(d, stats.Pages, stats.FreePages)
	require.Zero(d, stats.Running+stats.Waiting)
	return stats
}

// asGPU is an environment variable: devices that are opened while it is set use the kernels
// of GPUs, even if Vulkan runs on the CPU.
const asGPU = "KOMPUTE_GO_FUSION_ON_CPU"

// A request gets the same tokens as alone, whatever else is in the batch, whenever it
// arrives, and however little memory there is; and the same log-probabilities, to the bit
// where logprobDelta is 0.
func TestSameTokensInAnyCompany(t *testing.T) {
	t.Setenv(asGPU, "1")
	eachSmall(t, func(d demo) {
		sameTokensInAnyCompany(d, 0)
		if d.model.Device().Backend() == "cpu" { // others are slow
			sameTokensInAnyCompany(d, kompute.DTypeUint8)
		}
	})
}

func sameTokensInAnyCompany(d demo, cache kompute.DType) {
	const requests = 40
	r := rand.New(rand.NewPCG(7, 1))
	prefixes := [][]int{nil, make([]int, 17), make([]int, 33)}
	for _, p := range prefixes {
		for i := range p {
			p[i] = r.IntN(smallVocabulary)
		}
	}
	chunk := 128
	if d.model.Device().Backend() != "cpu" {
		chunk = 64 // larger steps may round differently
	}
	alone := d.engine(engine.Config{Sequences: 1, Context: 128, PageTokens: 8, ChunkTokens: chunk, CacheType: cache})
	defer d.close(alone)
	all := make([]engine.Request, requests)
	want := make([]*generate.Result, requests)
	for i := range all {
		all[i] = randomRequest(r, prefixes)
		s, err := alone.Submit(d.Context(), all[i])
		require.NoError(d, err)
		want[i], err = s.Result(d.Context())
		require.NoError(d, err)
	}
	// Memory for only two long requests, so some must give up their pages.
	e := d.engine(engine.Config{Sequences: 6, Context: 128, PageTokens: 8, CacheTokens: 136, ChunkTokens: 16, Draft: 4, CacheType: cache})
	defer d.close(e)
	var wg sync.WaitGroup
	for i := range all {
		time.Sleep(time.Duration(r.IntN(2)) * time.Millisecond)
		ctx, cancel := context.WithCancel(d.Context())
		defer cancel()
		s, err := e.Submit(ctx, all[i])
		require.NoError(d, err)
		if i%5 == 4 {
			wg.Go(func() {
				time.Sleep(2 * time.Millisecond)
				cancel()
				got, err := s.Result(d.Context())
				if err == nil { // it finished before it was cancelled
					require.Equal(d, want[i].IDs, got.IDs)
					return
				}
				require.ErrorIs(d, err, context.Canceled)
				require.True(d, slices.Equal(want[i].IDs[:len(got.IDs)], got.IDs), "request %d", i)
			})
			continue
		}
		wg.Go(func() {
			got, err := s.Result(d.Context())
			require.NoError(d, err)
			requireSameWith(d, cache, want[i], got)
		})
	}
	wg.Wait()
	stats := idleStats(d, e)
	d.Logf("%+v", stats)
	require.Positive(d, stats.Preempted)
}

// Guessing ahead gives the same tokens as choosing them one by one, in fewer steps
// if text repeats itself. Other types of pages change nothing else.
func TestDrafts(t *testing.T) {
	eachSmall(t, func(d demo) {
		var all []engine.Request
		for seed := range uint64(3) {
			all = append(all, engine.Request{
				Prompt: []int{5, 6, 7, 8, 5, 6, 7, 8, int(seed)}, MaxTokens: 60, Sampling: sample.Params{Temperature: 0.05 * float64(seed), Seed: seed},
			})
		}
		var want []*generate.Result
		for _, c := range []engine.Config{{}, {Draft: 6}, {Draft: 3, PageTokens: 4}, {CacheType: kompute.DTypeFloat16}, {CacheType: kompute.DTypeUint8}} {
			c.Sequences, c.Context, c.ChunkTokens = 8, 128, 16
			e := d.engine(c)
			for i, r := range all {
				s, err := e.Submit(d.Context(), r)
				require.NoError(d, err)
				got, err := s.Result(d.Context())
				require.NoError(d, err)
				if c == (engine.Config{Sequences: 8, Context: 128, ChunkTokens: 16}) {
					want = append(want, got)
				} else if c.CacheType == 0 {
					requireSame(d, want[i], got)
				}
				require.Len(d, got.IDs, 60)
			}
			stats := e.Stats()
			d.close(e)
			d.Logf("%+v", stats)
			if c.Draft > 0 {
				require.Positive(d, stats.AcceptedTokens)
				require.Less(d, stats.Steps, uint64(3*60))
			}
		}
	})
}
