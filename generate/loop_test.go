package generate

import (
	"context"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/testmodel"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/model"
	"github.com/kompute-go/kompute-go/sample"
)

// Replays give what eager decoding gives, and what the goldens say, whatever
// was generated before, in whatever way.
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
					require.Equal(t, eager, r.Work.Replays == 0)
					require.Len(t, s.seen, s.cache.Len())
					require.Equal(t, len(c.PromptIDs)+len(r.IDs)-1, s.cache.Len())
				}
			}
		})
	}, kompute.WithStrict())
}

// Once the loop is captured, a token costs a replay and nothing else.
func TestSteadyDecode(t *testing.T) {
	t.Setenv("KOMPUTE_GO_FUSION_ON_CPU", "1") // as on a GPU, also where Vulkan runs on the CPU
	cases, _ := testmodel.Goldens(t)
	f := openDemo(t)
	testmodel.EachDevice(t, func(t *testing.T, d *kompute.Device) {
		withSession(t, f, d, model.Options{}, func(s *Session) {
			for range 3 {
				r, err := s.Generate(t.Context(), cases[0].PromptIDs, Options{EOS: f.EOS()})
				require.NoError(t, err)
				per := r.Work.PerToken()
				layers := float64(f.Checkpoint.Config.Layers)
				t.Logf("%.1f dispatches a layer, %+v", per.Dispatches/layers, per)
				if d.Backend() == "vulkan" && os.Getenv("KOMPUTE_GO_DISABLE_FUSION") == "" {
					require.LessOrEqual(t, per.Dispatches/layers, 7.0, "with what comes before and after the layers")
				}
				require.LessOrEqual(t, per.Submits, 1.0)
				require.Positive(t, per.Submits)
				require.Positive(t, per.Dispatches)
				require.Positive(t, per.HostEnqueueNanos)
				require.Zero(t, per.DescriptorWrites)
				require.Zero(t, per.RecordedCommands)
				require.Zero(t, per.Allocations)
				require.Zero(t, r.Work.Ops, "nothing is enqueued op by op")
				require.Empty(t, r.Fallbacks)
				require.GreaterOrEqual(t, r.Work.Replays, uint64(r.Work.Tokens))
				require.LessOrEqual(t, r.Work.Replays, uint64(r.Work.Tokens+2*mostBatch), "the end of the turn is seen soon")
			}
		})
	})
}

// A cache that grows gets a loop of its own.
func TestLoopOfAGrowingCache(t *testing.T) {
	cases, _ := testmodel.Goldens(t)
	c := cases[0]
	f := openDemo(t)
	testmodel.EachDevice(t, func(t *testing.T, d *kompute.Device) {
		withSession(t, f, d, model.Options{}, func(s *Session) {
			first := s.cache.Capacity()
			_, err := s.Generate(t.Context(), c.PromptIDs, Options{EOS: f.EOS(), MaxTokens: 4})
			require.NoError(t, err)
			loop := s.loop
			require.NotNil(t, s.Region())
			r, err := s.Generate(t.Context(), c.PromptIDs, Options{EOS: f.EOS(), MaxTokens: 2 * first})
			require.NoError(t, err)
			require.Greater(t, s.cache.Capacity(), first)
			require.NotSame(t, loop, s.loop)
			require.Equal(t, c.GeneratedIDs, r.IDs)
			loop = s.loop
			_, err = s.Generate(t.Context(), c.PromptIDs, Options{EOS: f.EOS(), MaxTokens: 4})
			require.NoError(t, err)
			require.Same(t, loop, s.loop)
		})
	})
}

// Sampling, a single token and eager decoding need no loop; and sampling works
// where there is one.
func TestWithoutLoop(t *testing.T) {
	cases, _ := testmodel.Goldens(t)
	f := openDemo(t)
	d, err := kompute.Open("cpu")
	require.NoError(t, err)
	defer d.Close()
	withSession(t, f, d, model.Options{}, func(s *Session) {
		sampled := Options{MaxTokens: 8, Sampling: sample.Params{Temperature: 1, TopK: 1}}
		for _, o := range []Options{sampled, {MaxTokens: 1}, {MaxTokens: 8, Eager: true}} {
			r, err := s.Generate(t.Context(), cases[0].PromptIDs, o)
			require.NoError(t, err)
			require.Equal(t, cases[0].GeneratedIDs[:o.MaxTokens], r.IDs)
			require.Nil(t, s.Region())
		}
		s.uncaptured = kompute.ErrUnsupported // as on a device that lacks an op
		r, err := s.Generate(t.Context(), cases[0].PromptIDs, Options{MaxTokens: 8})
		require.NoError(t, err)
		require.Equal(t, cases[0].GeneratedIDs[:8], r.IDs)
		require.Nil(t, s.Region())
		s.uncaptured = nil
		_, err = s.Generate(t.Context(), cases[0].PromptIDs, Options{MaxTokens: 8})
		require.NoError(t, err)
		require.NotNil(t, s.loop)
		r, err = s.Generate(t.Context(), cases[0].PromptIDs, sampled)
		require.NoError(t, err)
		require.Equal(t, cases[0].GeneratedIDs[:8], r.IDs)
		require.Zero(t, r.Work.Replays)
	})
}

// What ends a generation early leaves a session that works on, with replays
// still in flight.
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
				require.NoError(t, err)
				require.Equal(t, FinishCancelled, r.Finish)
				require.Equal(t, c.GeneratedIDs[:len(r.IDs)], r.IDs)
				require.Len(t, s.seen, s.cache.Len())
				_, err = s.Generate(t.Context(), c.PromptIDs, Options{EOS: f.EOS(), MaxTokens: n + 1, OnText: func(string) error { return context.Canceled }})
				require.NoError(t, err)
				r, err = s.Generate(t.Context(), c.PromptIDs, Options{EOS: f.EOS(), MaxTokens: 8})
				require.NoError(t, err)
				require.Equal(t, c.GeneratedIDs[:8], r.IDs)
			}
		})
	})
}

func TestPerToken(t *testing.T) {
	require.Zero(t, Work{}.PerToken())
	w := Work{Tokens: 3, Replays: 4, Submits: 2, Dispatches: 8, EnqueueNanos: 400}
	require.Equal(t, PerToken{Submits: 0.5, Dispatches: 2, HostEnqueueNanos: 100}, w.PerToken())
	w.Replays = 0
	require.InDelta(t, 2.0/3, w.PerToken().Submits, 1e-9)
}
