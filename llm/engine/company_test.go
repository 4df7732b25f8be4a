package engine_test

import (
	"context"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/engine"
	"github.com/kompute-go/kompute-go/llm/generate"
	"github.com/kompute-go/kompute-go/llm/sample"
)

const smallVocabulary = engine.SmallVocabulary

// randomRequest makes a request of any kind, which may begin like others.
func randomRequest(t require.TestingT, r *rand.Rand, prefixes [][]int) engine.Request {
	token := func() int { return r.IntN(smallVocabulary) }
	prompt := slices.Clone(prefixes[r.IntN(len(prefixes))])
	for range 1 + r.IntN(20) {
		prompt = append(prompt, token())
	}
	q := engine.Request{Prompt: prompt, MaxTokens: 1 + r.IntN(24), EOS: []int{token(), token(), token()}}
	if r.IntN(2) == 0 {
		q.Sampling = sample.Params{Temperature: 0.5 + r.Float64(), TopK: r.IntN(50), TopP: 0.5 + r.Float64()/2, Seed: r.Uint64()}
	}
	q.Logprobs = r.IntN(2) == 0
	if r.IntN(4) == 0 { // an answer that repeats itself, whose tokens are guessed
		q.EOS, q.MaxTokens = nil, 24
		return q
	}
	if r.IntN(3) == 0 {
		q.RepetitionPenalty, q.TopLogprobs = 0.8+r.Float64(), 2
		q.Logprobs = true
	}
	if r.IntN(3) == 0 {
		q.PresencePenalty, q.FrequencyPenalty = 2*r.Float64(), r.NormFloat64()
	}
	if r.IntN(3) == 0 {
		q.LogitBias = map[int]float64{token(): 2, token(): math.Inf(-1), token(): r.NormFloat64()}
	}
	if r.IntN(3) == 0 {
		q.MinTokens = q.MaxTokens / 2
	}
	if r.IntN(3) == 0 {
		q.Grammar, q.GrammarAfter, q.GrammarTrigger = engine.SmallGrammar(t), []string{"", "", "e"}[r.IntN(3)], []string{"", "", "h"}[r.IntN(3)]
	}
	if r.IntN(8) == 0 {
		banned := token()
		q.Logits = func(tokens []int32, logits []float32) error {
			logits[(banned+len(tokens))%len(logits)] += 3
			return nil
		}
	}
	return q
}

// onHost is the request with tokens that the host chooses.
func onHost(q engine.Request) engine.Request {
	if q.Logits == nil {
		q.Logits = func([]int32, []float32) error { return nil }
	}
	return q
}

// logprobDelta is how far log-probabilities of the same request may differ: not at all where
// products of a row have the same bits among as many rows as steps have here. The small model has
// affine codes. Elsewhere rounding changes them by up to 5e-6.
func logprobDelta(d demo) float64 {
	if d.model.Device().Stats().InvariantRows >= 64 {
		return 0
	}
	return 1e-4
}

// requireSame compares answers.
func requireSame(d demo, want, got *generate.Result) {
	d.Helper()
	requireSameWithin(d, logprobDelta(d), want, got)
}

// requireSameWithin compares answers whose log-probabilities may differ by delta.
func requireSameWithin(d demo, delta float64, want, got *generate.Result) {
	d.Helper()
	require.Equal(d, want.IDs, got.IDs)
	require.Equal(d, want.Text, got.Text)
	require.Equal(d, want.Finish, got.Finish)
	require.Len(d, got.Logprobs, len(want.Logprobs))
	for i, l := range got.Logprobs {
		require.Equal(d, got.IDs[i], l.ID)
		require.InDelta(d, want.Logprobs[i].Value, l.Value, delta)
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
// arrives, and however little memory there is; and the same log-probabilities, to the bit if
// the device keeps those of several rows.
func TestSameTokensInAnyCompany(t *testing.T) {
	t.Setenv(asGPU, "1")
	eachSmall(t, func(d demo) {
		sameTokensInAnyCompany(d, 0)
		if d.model.Device().Backend() == "cpu" { // others are slow
			sameTokensInAnyCompany(d, kompute.DTypeUint8)
		}
	})
}

// The same with the instructions of older processors, which multiply many rows in another way than few.
func TestSameTokensOnOlderCPUs(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("GODEBUG has no switches for this processor's instructions")
	}
	for _, without := range []string{"cpu.avx512vnni=off", "cpu.avx512f=off", "cpu.avx512f=off,cpu.avxvnni=off", "cpu.avx2=off"} {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.run=^TestSameTokensInAnyCompany$/^cpu$")
		cmd.Env = append(os.Environ(), "GODEBUG="+without)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s\n%s", without, out)
		require.Contains(t, string(out), "--- PASS: TestSameTokensInAnyCompany/cpu")
	}
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
	// Where only one row keeps its bits, the promise would allow no company.
	invariant, delta := d.model.Device().Stats().InvariantRows > 1, 0.0
	if !invariant {
		delta = logprobDelta(d)
	}
	alone := d.engine(engine.Config{Sequences: 1, Context: 128, PageTokens: 8, CacheType: cache, BatchInvariant: invariant})
	defer d.close(alone)
	all := make([]engine.Request, requests)
	want := make([]*generate.Result, requests)
	for i := range all {
		all[i] = randomRequest(d, r, prefixes)
		s, err := alone.Submit(d.Context(), onHost(all[i]))
		require.NoError(d, err)
		want[i], err = s.Result(d.Context())
		require.NoError(d, err)
	}
	// Memory for only two long requests, so some must give up their pages.
	e := d.engine(engine.Config{Sequences: 6, Context: 128, PageTokens: 8, CacheTokens: 136, ChunkTokens: 16, Draft: 4, CacheType: cache, BatchInvariant: invariant})
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
			requireSameWithin(d, delta, want[i], got)
		})
	}
	wg.Wait()
	stats := idleStats(d, e)
	d.Logf("%+v", stats)
	require.Positive(d, stats.Preempted)
	require.Positive(d, stats.DraftedTokens)
}

// Guessing ahead gives the same tokens as choosing them one by one, in fewer steps
// if text repeats itself.
func TestDrafts(t *testing.T) {
	eachSmall(t, func(d demo) {
		ask := func(seed uint64) engine.Request {
			return engine.Request{Prompt: []int{5, 6, 7, 8, 5, 6, 7, 8, int(seed)}, MaxTokens: 60, Sampling: sample.Params{Temperature: 0.05 * float64(seed), Seed: seed}}
		}
		requireDrafts(d, []engine.Request{ask(0), ask(1), ask(2)})
		// Also with log-probabilities, and if only some tokens may come next.
		late, guided := []engine.Request{ask(0), ask(1), ask(2)}, []engine.Request{ask(0), ask(1), ask(2)}
		for i := range late {
			late[i].EOS, late[i].MinTokens, late[i].Logprobs = []int{64, 65}, 50+i, i%2 == 0
			late[i].LogitBias = map[int]float64{70 + i: 1}
			guided[i].Grammar, guided[i].GrammarTrigger = engine.SmallGrammar(d), []string{"", "", "a"}[i]
			guided[i].LogitBias = map[int]float64{64: 40, 77: 30, 16 + i: 29}
		}
		requireDrafts(d, late)
		for i := range late { // tokens in turn, since the one that came least often is the likeliest
			late[i] = ask(uint64(i))
			late[i].LogitBias = map[int]float64{10 + i: 300, 20: 290, 30: 280, 40: 270}
			late[i].FrequencyPenalty, late[i].PresencePenalty = 40, 3
		}
		requireDrafts(d, late)
		requireDrafts(d, guided)
	})
}

// requireDrafts checks that requests get the same tokens whether these are guessed or not, in fewer steps if they are.
func requireDrafts(d demo, all []engine.Request) {
	var want []*generate.Result
	for _, c := range []engine.Config{{}, {Draft: 6}, {Draft: 3, PageTokens: 4}} {
		c.Sequences, c.Context, c.ChunkTokens = 8, 128, 16
		e := d.engine(c)
		for i, r := range all {
			s, err := e.Submit(d.Context(), r)
			require.NoError(d, err)
			got, err := s.Result(d.Context())
			require.NoError(d, err)
			if c.Draft == 0 {
				want = append(want, got)
			}
			requireSame(d, want[i], got)
			if r.Grammar == nil && r.EOS == nil {
				require.Len(d, got.IDs, r.MaxTokens)
			}
		}
		stats := e.Stats()
		d.close(e)
		d.Logf("%+v", stats)
		if c.Draft > 0 {
			require.Positive(d, stats.AcceptedTokens)
			require.Less(d, stats.Steps, stats.GeneratedTokens)
		}
	}
}
