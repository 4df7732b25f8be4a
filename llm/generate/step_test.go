package generate

import (
	"context"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/testmodel"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/model"
	"github.com/kompute-go/kompute-go/llm/sample"
	"github.com/kompute-go/kompute-go/ops"
)

// Replays give the same tokens as eager decoding and the goldens, whatever was
// generated before, and however.
func TestReplaysEqualEager(t *testing.T) {
	cases, _ := testmodel.Goldens(t)
	f := openDemo(t)
	testmodel.EachDevice(t, func(t *testing.T, d *kompute.Device) {
		withSession(t, f, d, model.Options{}, func(s *Session) {
			for _, c := range cases[:4] {
				for _, eager := range []bool{false, true, false} {
					r, err := s.Generate(t.Context(), c.PromptIDs, Options{EOS: f.EOS(), Eager: eager, MaxTokens: len(c.GeneratedIDs)})
					require.NoError(t, err)
					require.Equal(t, c.GeneratedIDs, r.IDs)
					require.Equal(t, eager, s.Stats().Work.Replays == 0)
					require.Len(t, s.seen, s.state.Len())
					require.Equal(t, len(c.PromptIDs)+len(r.IDs)-1, s.state.Len())
				}
			}
		})
	})
}

// hot samples with every filter, at a temperature so high that seeds soon differ.
func hot(seed uint64) sample.Params {
	return sample.Params{Temperature: 1.6, TopP: 0.98, TopK: 60, MinP: 0.002, Seed: seed}
}

// The same holds for sampled tokens: one region serves all parameters, and
// greedy generations in between change nothing.
func TestSampledReplaysEqualEager(t *testing.T) {
	cases, _ := testmodel.Goldens(t)
	c := cases[4]
	f := openDemo(t)
	choices := []sample.Params{hot(1), hot(2), {Temperature: 1, Seed: 3}, {Temperature: 0.8, TopP: 0.9}, {Temperature: 2, TopK: 2, Seed: 1 << 60}}
	testmodel.EachDevice(t, func(t *testing.T, d *kompute.Device) {
		withSession(t, f, d, model.Options{}, func(s *Session) {
			var region *kompute.Region
			for i, p := range choices {
				eager, err := s.Generate(t.Context(), c.PromptIDs, Options{EOS: f.EOS(), MaxTokens: 24, Sampling: p, Eager: true})
				require.NoError(t, err)
				require.Zero(t, s.Stats().Work.Replays)
				require.EqualValues(t, len(eager.IDs)-1, s.Stats().Work.IdleWaits)
				r, err := s.Generate(t.Context(), c.PromptIDs, Options{EOS: f.EOS(), MaxTokens: 24, Sampling: p})
				require.NoError(t, err)
				require.Positive(t, s.Stats().Work.Replays)
				require.Equal(t, eager.IDs, r.IDs, "%+v", p)
				require.Equal(t, eager.Text, r.Text)
				require.Equal(t, eager.Finish, r.Finish)
				require.Equal(t, len(c.PromptIDs)+len(r.IDs)-1, s.state.Len())
				if i > 0 && i != 3 {
					require.Same(t, region, s.Region(), "other parameters need no other region")
				}
				region = s.Region()
				if i == 2 {
					r, err = s.Generate(t.Context(), c.PromptIDs, Options{EOS: f.EOS(), MaxTokens: 8})
					require.NoError(t, err)
					require.Equal(t, c.GeneratedIDs[:8], r.IDs)
				}
			}
		})
	})
}

// Once the step is captured, a token costs one replay and nothing else, however
// it is chosen.
func TestSteadyDecode(t *testing.T) {
	t.Setenv("KOMPUTE_GO_FUSION_ON_CPU", "1") // as on a GPU, also where Vulkan runs on the CPU
	cases, _ := testmodel.Goldens(t)
	f := openDemo(t)
	testmodel.EachDevice(t, func(t *testing.T, d *kompute.Device) {
		withSession(t, f, d, model.Options{}, func(s *Session) {
			for _, p := range []sample.Params{{}, {}, hot(1), hot(2)} {
				o := Options{EOS: f.EOS(), Sampling: p, MaxTokens: 12}
				r, err := s.Generate(t.Context(), cases[0].PromptIDs, o)
				require.NoError(t, err)
				require.NotEmpty(t, r.IDs)
				requireSteady(t, d, s.Stats(), f.Spec.Config.Cache().Layers)
			}
		})
	})
}

// An eager token is the same work in the same memory as the one before, at any position: nothing is recorded again.
func TestSteadyEagerDecode(t *testing.T) {
	cases, _ := testmodel.Goldens(t)
	f := openDemo(t)
	testmodel.EachDevice(t, func(t *testing.T, d *kompute.Device) {
		withSession(t, f, d, model.Options{}, func(s *Session) {
			for range 3 {
				_, err := s.Generate(t.Context(), cases[0].PromptIDs, Options{MaxTokens: 12, Eager: true})
				require.NoError(t, err)
			}
			per := s.Stats().Work.PerToken()
			require.Zero(t, per.RecordedCommands)
			require.Zero(t, per.DescriptorWrites)
			if d.Backend() == "vulkan" {
				require.Positive(t, per.Dispatches)
			}
		})
	})
}

func requireSteady(t *testing.T, d *kompute.Device, s Stats, layers int) {
	t.Helper()
	per := s.Work.PerToken()
	t.Logf("%.1f dispatches a layer, %+v", per.Dispatches/float64(layers), per)
	if d.Backend() == "vulkan" && os.Getenv("KOMPUTE_GO_DISABLE_FUSION") == "" {
		require.LessOrEqual(t, per.Dispatches/float64(layers), 7.0, "with what comes before and after the layers")
	}
	require.LessOrEqual(t, per.Submits, 1.0)
	require.Positive(t, per.Submits)
	require.Positive(t, per.Dispatches)
	require.Positive(t, per.HostEnqueueNanos)
	require.Zero(t, per.DescriptorWrites)
	require.Zero(t, per.RecordedCommands)
	require.Zero(t, per.Allocations)
	require.Zero(t, s.Work.IdleWaits, "the device never waits for the host")
	require.Zero(t, s.Work.Ops, "nothing is enqueued op by op")
	require.Empty(t, s.Fallbacks)
	require.GreaterOrEqual(t, s.Work.Replays, uint64(s.Work.Tokens))
	require.LessOrEqual(t, s.Work.Replays, uint64(s.Work.Tokens+2*mostBatch), "the end of the turn is seen soon")
}

// After the cache has grown, there is a new step.
func TestLoopOfAGrowingCache(t *testing.T) {
	cases, _ := testmodel.Goldens(t)
	c := cases[0]
	f := openDemo(t)
	testmodel.EachDevice(t, func(t *testing.T, d *kompute.Device) {
		withSession(t, f, d, model.Options{}, func(s *Session) {
			first := s.state.Capacity()
			_, err := s.Generate(t.Context(), c.PromptIDs, Options{EOS: f.EOS(), MaxTokens: 4})
			require.NoError(t, err)
			loop := s.step
			require.NotNil(t, s.Region())
			r, err := s.Generate(t.Context(), c.PromptIDs, Options{EOS: f.EOS(), MaxTokens: 2 * first})
			require.NoError(t, err)
			require.Greater(t, s.state.Capacity(), first)
			require.NotSame(t, loop, s.step)
			require.Equal(t, c.GeneratedIDs, r.IDs)
			loop = s.step
			_, err = s.Generate(t.Context(), c.PromptIDs, Options{EOS: f.EOS(), MaxTokens: 4})
			require.NoError(t, err)
			require.Same(t, loop, s.step)
		})
	})
}

// Single tokens, eager decoding and sessions that cannot be captured have no captured step.
func TestWithoutLoop(t *testing.T) {
	cases, _ := testmodel.Goldens(t)
	f := openDemo(t)
	d, err := kompute.Open("cpu")
	require.NoError(t, err)
	defer d.Close()
	withSession(t, f, d, model.Options{}, func(s *Session) {
		sampled := Options{MaxTokens: 8, Sampling: sample.Params{Temperature: 1, TopK: 1}}
		for _, o := range []Options{{MaxTokens: 1}, {MaxTokens: 8, Eager: true}} {
			r, err := s.Generate(t.Context(), cases[0].PromptIDs, o)
			require.NoError(t, err)
			require.Equal(t, cases[0].GeneratedIDs[:o.MaxTokens], r.IDs)
			require.Nil(t, s.Region())
		}
		s.uncaptured = kompute.ErrUnsupported // as on a device that lacks an op
		for _, o := range []Options{{MaxTokens: 8}, sampled} {
			r, err := s.Generate(t.Context(), cases[0].PromptIDs, o)
			require.NoError(t, err)
			require.Equal(t, cases[0].GeneratedIDs[:8], r.IDs)
			require.Zero(t, s.Stats().Work.Replays)
			require.Equal(t, kompute.ErrUnsupported.Error(), s.Stats().Uncaptured)
			require.Nil(t, s.Region())
		}
		s.uncaptured = nil
		_, err := s.Generate(t.Context(), cases[0].PromptIDs, Options{MaxTokens: 8})
		require.NoError(t, err)
		require.NotNil(t, s.step)
	})
}

// Once a prompt is cancelled, no further piece of it begins.
func TestPromptCancelled(t *testing.T) {
	f := openDemo(t)
	prompt, err := f.EncodeText(t.Context(), strings.Repeat("one two three ", 40))
	require.NoError(t, err)
	testmodel.EachDevice(t, func(t *testing.T, d *kompute.Device) {
		withSession(t, f, d, model.Options{}, func(s *Session) {
			for _, pieces := range []int{1, 3} {
				ctx, cancel := context.WithCancel(t.Context())
				require.NoError(t, s.state.Truncate(0))
				s.seen = nil
				fed := 0
				r, err := s.Generate(ctx, prompt, Options{PrefillStep: 16, OnPrefill: func(done, _ int) {
					if fed = done; done == 16*pieces {
						cancel()
					}
				}})
				require.ErrorIs(t, err, context.Canceled)
				require.Equal(t, FinishCancelled, r.Finish)
				require.Equal(t, 16*pieces, fed)
				require.Equal(t, 16*pieces, s.state.Len())
			}
			r, err := s.Generate(t.Context(), prompt, Options{MaxTokens: 2})
			require.NoError(t, err)
			require.Len(t, r.IDs, 2)
		})
	})
}

// After a generation ends early, with replays still in flight, the session
// remains usable.
func TestReplaysInterrupted(t *testing.T) {
	cases, _ := testmodel.Goldens(t)
	c := cases[0]
	f := openDemo(t)
	testmodel.EachDevice(t, func(t *testing.T, d *kompute.Device) {
		withSession(t, f, d, model.Options{}, func(s *Session) {
			for n := 1; n < 6; n++ {
				ctx, cancel := context.WithCancel(t.Context())
				seen := 0
				r, err := s.Generate(ctx, c.PromptIDs, Options{EOS: f.EOS(), OnText: func(string) error {
					if seen++; seen == n {
						cancel()
					}
					return nil
				}})
				cancel()
				require.ErrorIs(t, err, context.Canceled)
				require.Equal(t, FinishCancelled, r.Finish)
				require.GreaterOrEqual(t, len(r.IDs), n)
				require.Equal(t, c.GeneratedIDs[:len(r.IDs)], r.IDs)
				require.Len(t, s.seen, s.state.Len())
				r, err = s.Generate(t.Context(), c.PromptIDs, Options{EOS: f.EOS(), MaxTokens: n + 1, OnText: func(string) error { return context.Canceled }})
				require.ErrorIs(t, err, context.Canceled)
				require.Equal(t, c.GeneratedIDs[:len(r.IDs)], r.IDs)
				r, err = s.Generate(t.Context(), c.PromptIDs, Options{EOS: f.EOS(), MaxTokens: 8, Sampling: sample.Params{Temperature: 1, TopK: 1}})
				require.NoError(t, err)
				require.Equal(t, c.GeneratedIDs[:8], r.IDs)
			}
		})
	})
}

// spoilt is a model whose decode steps give invalid logits.
type spoilt struct {
	model.Model
	mended bool
}

func (m *spoilt) Forward(s *kompute.Stream, p model.Pass) *kompute.Tensor[float32] {
	logits := m.Model.Forward(s, p)
	if p.At == nil || m.mended {
		return logits
	}
	return ops.Mul(s, logits, kompute.Constant(s, []float32{float32(math.NaN())}))
}

// Invalid logits end a generation with the typed error, greedy or sampled, replayed or
// not, and the session remains usable.
func TestBadLogits(t *testing.T) {
	cases, _ := testmodel.Goldens(t)
	f := openDemo(t)
	testmodel.EachDevice(t, func(t *testing.T, d *kompute.Device) {
		m, err := f.Load(t.Context(), d, model.Options{})
		require.NoError(t, err)
		spoilt := &spoilt{Model: m}
		s, err := NewSession(spoilt, f.Tokenizer, 200)
		require.NoError(t, err)
		for _, o := range []Options{{}, {Eager: true}, {Sampling: hot(1)}, {Sampling: hot(1), Eager: true, MaxTokens: 200}} {
			_, err = s.Generate(t.Context(), cases[1].PromptIDs, o)
			require.ErrorIs(t, err, sample.ErrLogits)
			require.Len(t, s.seen, s.state.Len())
		}
		spoilt.mended = true
		r, err := s.Generate(t.Context(), cases[0].PromptIDs, Options{MaxTokens: 8, Eager: true})
		require.NoError(t, err)
		require.Equal(t, cases[0].GeneratedIDs[:8], r.IDs)
		require.NoError(t, s.Close())
		require.NoError(t, m.Close())
	})
}

func TestPerToken(t *testing.T) {
	require.Zero(t, Work{}.PerToken())
	w := Work{Tokens: 3, Replays: 4, Submits: 2, Dispatches: 8, EnqueueNanos: 400}
	require.Equal(t, PerToken{Submits: 0.5, Dispatches: 2, HostEnqueueNanos: 100}, w.PerToken())
	w.Replays = 0
	require.InDelta(t, 2.0/3, w.PerToken().Submits, 1e-9)
}
