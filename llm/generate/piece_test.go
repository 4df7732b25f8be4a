package generate

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/testmodel"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/checkpoint"
	"github.com/kompute-go/kompute-go/llm/model"
)

// longPrompt is n tokens of text.
func longPrompt(t *testing.T, f *Folder, n int) []int {
	t.Helper()
	ids, err := f.EncodeText(t.Context(), strings.Repeat("Once upon a time there was a fox who lived in a wood. ", n/8))
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(ids), n)
	return ids[:n]
}

// forget empties the session's state, so that the next prompt is fed from its first token on.
func forget(t *testing.T, s *Session) {
	t.Helper()
	require.NoError(t, s.state.Truncate(0))
	s.seen = nil
}

// capturedRows returns the numbers of rows of the pieces that have a region.
func capturedRows(s *Session) map[int]bool {
	rows := map[int]bool{}
	for size, p := range s.pieces {
		if p.region != nil {
			rows[size.rows] = true
		}
	}
	return rows
}

func TestPieceRows(t *testing.T) {
	testmodel.EachDevice(t, func(t *testing.T, d *kompute.Device) {
		for n, want := range map[int]int{1: 16, 16: 16, 17: 32, 64: 64, 65: 128, 129: 256, 257: 384, 384: 384, 385: 512, 512: 512, 513: 768, 800: 1024} {
			if d.Backend() == "cpu" {
				want = n
			}
			require.Equal(t, want, pieceRows(d, n, 2048), n)
		}
		require.Equal(t, 5, pieceRows(d, 5, 5), "a whole piece has no unused rows")
		require.Equal(t, 500, pieceRows(d, 500, 500))
	})
}

// Long prompts leave at most an eighth of a piece's rows unused, where unused rows are work.
func TestNextPiece(t *testing.T) {
	f := openDemo(t)
	testmodel.EachDevice(t, func(t *testing.T, d *kompute.Device) {
		withSession(t, f, d, model.Options{}, func(s *Session) {
			next := func(n int, o Options) int { return (&generation{Session: s, options: &o}).nextPiece(n) }
			for n, want := range map[int]int{1: 1, 300: 300, 512: 512, 513: 512, 671: 512, 672: 672, 768: 768, 800: 768, 1100: 1024, 1344: 1344, 1343: 1024, 1536: 1536, 1700: 1536, 1800: 1800, 2048: 2048, 5000: 2048} {
				require.LessOrEqual(t, pieceRows(d, want, 2048)-want, max(wholeFrom/2, want/7), n)
				if d.Backend() == "cpu" {
					want = min(n, 2048)
				}
				require.Equal(t, want, next(n, Options{PrefillStep: 2048}), n)
				require.Equal(t, min(n, 2048), next(n, Options{PrefillStep: 2048, Eager: true}))
			}
			require.Equal(t, 600, next(700, Options{PrefillStep: 600}))
			require.Equal(t, 590, next(590, Options{PrefillStep: 600}))
		})
	})
}

// Prompts give the same tokens as replayed pieces and op by op, whatever their length,
// where they begin in the state, and how they are divided; and the goldens.
func TestPiecesEqualEager(t *testing.T) {
	cases, _ := testmodel.Goldens(t)
	f := openDemo(t)
	long := longPrompt(t, f, 90)
	testmodel.EachDevice(t, func(t *testing.T, d *kompute.Device) {
		withSession(t, f, d, model.Options{}, func(s *Session) {
			for _, n := range testmodel.Some(d, 33, 90, 17, 5, 1) {
				var want []int
				for run, o := range []Options{{Eager: true}, {}, {}, {PrefillStep: 16}, {PrefillStep: 16}, {PrefillStep: 24}} {
					forget(t, s)
					o.MaxTokens = 6
					r, err := s.Generate(t.Context(), long[:n], o)
					require.NoError(t, err)
					if want == nil {
						want = r.IDs
					}
					require.Equal(t, want, r.IDs, "%d tokens, run %d", n, run)
					require.Len(t, s.seen, s.state.Len())
					require.Equal(t, n+len(r.IDs)-1, s.state.Len())
				}
			}
			require.Empty(t, s.Stats().Fallbacks)
			for range 2 { // after tokens that are in the state already
				for _, c := range cases[:2] {
					r, err := s.Generate(t.Context(), c.PromptIDs, Options{EOS: f.EOS(), MaxTokens: len(c.GeneratedIDs)})
					require.NoError(t, err)
					require.Equal(t, c.GeneratedIDs, r.IDs)
				}
			}
			require.NotEmpty(t, capturedRows(s))
		})
	})
}

// A size is captured when it is used for the second time. From then on nothing is
// recorded for prompts of that size, whatever their tokens, their number and the sampling
// parameters.
func TestSteadyPieces(t *testing.T) {
	f := openDemo(t)
	long := longPrompt(t, f, 64)
	testmodel.EachDevice(t, func(t *testing.T, d *kompute.Device) {
		lengths := []int{40, 33, 57, 64, 35}
		if d.Backend() == "cpu" {
			lengths = []int{40, 40, 40, 40, 40} // there, each length is a size
		}
		withSession(t, f, d, model.Options{}, func(s *Session) {
			for _, seed := range []uint64{0, 1} {
				for i, n := range lengths {
					forget(t, s)
					o := Options{MaxTokens: 1}
					if seed > 0 {
						o.Sampling = hot(seed + uint64(i))
					}
					before, allocated := s.Stream().Stats(), d.Stats().Allocations
					_, err := s.Generate(t.Context(), long[len(long)-n:], o)
					require.NoError(t, err)
					after := s.Stream().Stats()
					require.Equal(t, i > 0, after.Replays == before.Replays+1, "use %d", i)
					if i > 1 {
						require.Equal(t, before.RecordedCommands, after.RecordedCommands, "use %d", i)
						require.Equal(t, before.DescriptorWrites, after.DescriptorWrites)
						require.Equal(t, before.Ops, after.Ops, "no op is enqueued")
						require.Equal(t, allocated, d.Stats().Allocations)
					}
				}
			}
			require.Len(t, s.pieces, 2, "greedy and sampled")
		})
	})
}

// One op prepares the heads of a layer and adds its keys and values to the state.
func TestPiecesAreFused(t *testing.T) {
	if os.Getenv("KOMPUTE_GO_DISABLE_FUSION") != "" {
		t.Skip("without passes")
	}
	t.Setenv("KOMPUTE_GO_FUSION_ON_CPU", "1") // as on a GPU, also where Vulkan runs on the CPU
	cases, _ := testmodel.Goldens(t)
	f := openDemo(t)
	testmodel.EachDevice(t, func(t *testing.T, d *kompute.Device) {
		withSession(t, f, d, model.Options{}, func(s *Session) {
			for range 3 {
				forget(t, s)
				r, err := s.Generate(t.Context(), cases[0].PromptIDs, Options{MaxTokens: 8})
				require.NoError(t, err)
				require.Equal(t, cases[0].GeneratedIDs[:8], r.IDs)
			}
			for _, p := range s.pieces {
				described, err := p.region.Describe()
				require.NoError(t, err)
				ops := map[string]int{}
				for _, op := range described.Ops {
					ops[op.Name]++
				}
				require.Equal(t, f.Spec.Config.Cache().Layers, ops["paged_heads"]+ops["qkv_heads"], ops)
				require.Zero(t, ops["rope"]+ops["paged_update"], ops)
			}
		})
	})
}

// The state grows, and with it pieces are captured again; closing the session frees them.
func TestPiecesOfAGrowingState(t *testing.T) {
	f := openDemo(t)
	long := longPrompt(t, f, 300)
	testmodel.EachDevice(t, func(t *testing.T, d *kompute.Device) {
		m, err := f.Load(t.Context(), d, model.Options{})
		require.NoError(t, err)
		before := d.Stats().LiveBytes
		s, err := NewSession(m, f.Tokenizer, 1)
		require.NoError(t, err)
		first := s.state.Capacity()
		want := map[int][]int{}                         // by the length of the prompt
		for _, n := range []int{20, 20, 280, 20, 280} { // the longest make the state grow
			forget(t, s)
			r, err := s.Generate(t.Context(), long[:n], Options{MaxTokens: 3, PrefillStep: 64})
			require.NoError(t, err)
			if want[n] == nil {
				forget(t, s)
				eager, err := s.Generate(t.Context(), long[:n], Options{MaxTokens: 3, PrefillStep: 64, Eager: true})
				require.NoError(t, err)
				want[n] = eager.IDs
			}
			require.Equal(t, want[n], r.IDs)
		}
		require.Greater(t, s.state.Capacity(), first)
		require.NotEmpty(t, capturedRows(s))
		region, _, _ := s.PromptRegion()
		require.NotNil(t, region)
		forget(t, s)
		_, err = s.Generate(t.Context(), long[:5], Options{MaxTokens: 1, Eager: true})
		require.NoError(t, err)
		region, _, _ = s.PromptRegion()
		require.Nil(t, region, "the latest prompt was not replayed")
		forget(t, s)
		_, err = s.Generate(t.Context(), long[:280], Options{MaxTokens: 3, PrefillStep: 64})
		require.NoError(t, err)
		region, rows, tokens := s.PromptRegion() // of the last 24 tokens
		require.NotNil(t, region)
		require.Equal(t, pieceRows(d, 24, 64), rows)
		require.Equal(t, 24, tokens)
		require.NoError(t, s.Close())
		require.Equal(t, before, d.Stats().LiveBytes)
		require.NoError(t, m.Close())
	})
}

// There are no more regions than mostPieces; those not used for longest are closed.
func TestPiecesAreBounded(t *testing.T) {
	f := openDemo(t)
	long := longPrompt(t, f, 64)
	d, err := kompute.Open("cpu") // where each length is a size
	require.NoError(t, err)
	defer d.Close()
	withSession(t, f, d, model.Options{}, func(s *Session) {
		for n := 1; n <= mostPieces+2; n++ {
			for range 2 {
				forget(t, s)
				_, err := s.Generate(t.Context(), long[:n], Options{MaxTokens: 1})
				require.NoError(t, err)
			}
		}
		rows := capturedRows(s)
		require.Len(t, rows, mostPieces)
		require.False(t, rows[1] || rows[2])
		for _, captured := range []bool{false, true} {
			forget(t, s)
			_, err := s.Generate(t.Context(), long[:1], Options{MaxTokens: 1})
			require.NoError(t, err)
			require.Equal(t, captured, capturedRows(s)[1], "its uses count anew")
		}
	})
}

// The second piece of a prompt is captured while the first one is computed, and replayed.
func TestPieceAhead(t *testing.T) {
	f := openDemo(t)
	long := longPrompt(t, f, 64)
	testmodel.EachDevice(t, func(t *testing.T, d *kompute.Device) {
		withSession(t, f, d, model.Options{}, func(s *Session) {
			fed := 0
			_, err := s.Generate(t.Context(), long, Options{MaxTokens: 1, PrefillStep: 16, OnPrefill: func(done, _ int) {
				fed++
				require.Equal(t, map[int]bool{16: true}, capturedRows(s))
				require.EqualValues(t, fed-1, s.Stream().Stats().Replays, "all but the first")
			}})
			require.NoError(t, err)
			require.Equal(t, 3, fed)
			require.EqualValues(t, 3, s.Stream().Stats().Replays)
		})
	})
}

// Where the state is full, the unused rows of a piece neither move its tokens nor write
// over others.
func TestPieceAtTheEnd(t *testing.T) {
	spec := testmodel.Small()
	spec.MaxPositions = 40
	dir := t.TempDir()
	spec.Write(t, dir)
	c, err := checkpoint.Open(dir)
	require.NoError(t, err)
	defer c.Close()
	words := openDemo(t).Tokenizer
	prompt := make([]int, 40)
	for i := range prompt {
		prompt[i] = (i*7 + 3) % 90
	}
	testmodel.EachDevice(t, func(t *testing.T, d *kompute.Device) {
		for _, o := range []model.Options{{}, {CacheType: array.Float16}} {
			m, err := model.Load(t.Context(), d, c, o)
			require.NoError(t, err)
			s, err := NewSession(m, words, 40)
			require.NoError(t, err)
			for _, first := range []int{16, 36, 39} {
				var want *Result
				for _, eager := range []bool{true, false, false, false} {
					forget(t, s)
					_, err := s.Generate(t.Context(), prompt[:first], Options{MaxTokens: 1, Eager: eager})
					require.NoError(t, err)
					r, err := s.Generate(t.Context(), prompt, Options{Eager: eager})
					require.NoError(t, err)
					require.Equal(t, 40-first, s.Stats().Fed)
					if want == nil {
						want = r
					}
					require.Equal(t, want.IDs, r.IDs)
					forget(t, s)
				}
			}
			require.NotEmpty(t, capturedRows(s))
			require.NoError(t, s.Close())
			require.NoError(t, m.Close())
		}
	})
}
