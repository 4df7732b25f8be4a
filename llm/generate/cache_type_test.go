package generate

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/testmodel"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/model"
	"github.com/kompute-go/kompute-go/llm/nn"
	"github.com/kompute-go/kompute-go/ops"
)

// divergence says how far logits are from those with keys and values of float32.
type divergence struct {
	rows, agree         int     // rows, and those with the same greedy token
	difference, largest float64 // mean and largest difference of a logit
	deviation           float64 // standard deviation of logits
	surprise, reference float64 // mean -log of the probability of the token that follows
}

// surpriseAt returns -log of the probability of a token.
func surpriseAt(logits []float32, token int) float64 {
	top, sum := float64(logits[argMax(logits)]), 0.0
	for _, v := range logits {
		sum += math.Exp(float64(v) - top)
	}
	return math.Log(sum) + top - float64(logits[token])
}

func argMax(logits []float32) (at int) {
	for i, v := range logits {
		if v > logits[at] {
			at = i
		}
	}
	return at
}

func (d *divergence) add(want, got []float32, next int) {
	apart, square, mean := 0.0, 0.0, 0.0
	for i, v := range want {
		diff := math.Abs(float64(v) - float64(got[i]))
		apart += diff
		d.largest = max(d.largest, diff)
		mean += float64(v)
		square += float64(v) * float64(v)
	}
	n := float64(len(want))
	d.difference += apart / n
	d.deviation += math.Sqrt(square/n - mean/n*mean/n)
	d.surprise += surpriseAt(got, next)
	d.reference += surpriseAt(want, next)
	d.rows++
	if argMax(want) == argMax(got) {
		d.agree++
	}
}

// feed returns the logits of all tokens, which are fed in two pieces and then one by
// one, as a prompt and an answer are.
func feed(t *testing.T, d *kompute.Device, o model.Options, ids []int) (logits [][]float32) {
	f := testmodel.NewFixture(t, d, testmodel.OpenMote(t), o, 8)
	defer f.Close()
	vocabulary := f.Model.Limits().Vocabulary
	for at := 0; at < len(ids); {
		n := 1
		if at < len(ids)/2 {
			n = (len(ids) + 3) / 4
		}
		require.NoError(t, f.State.Reserve(f.Stream, at+n)) // which moves what is there
		all := f.Logits(model.AllRows, testmodel.Unsigned(ids[at:at+n])...)
		for ; len(all) > 0; all = all[vocabulary:] {
			logits = append(logits, all[:vocabulary])
		}
		at += n
	}
	return logits
}

// Keys and values of other types change logits only a little: the means are over
// texts that the model has written.
func TestCacheTypes(t *testing.T) {
	cases, _ := testmodel.Goldens(t)
	bounds := map[kompute.DType]float64{array.Float16: 1e-3, array.BFloat16: 1e-2, array.Uint8: 1e-2} // of the deviation
	testmodel.EachDevice(t, func(t *testing.T, d *kompute.Device) {
		cases := cases
		if d.Backend() != "cpu" {
			cases = cases[:1]
		}
		var texts [][]int
		var want [][][]float32
		for _, c := range cases {
			ids := append(append([]int(nil), c.PromptIDs...), c.GeneratedIDs...)
			texts, want = append(texts, ids), append(want, feed(t, d, model.Options{}, ids))
		}
		for _, dtype := range testmodel.Some(d, array.Uint8, array.BFloat16, array.Float16) {
			var all divergence
			for i, ids := range texts {
				for j, got := range feed(t, d, model.Options{CacheType: dtype}, ids)[:len(ids)-1] {
					all.add(want[i][j], got, ids[j+1])
				}
			}
			n := float64(all.rows)
			t.Logf("%v: %d of %d greedy tokens agree; logits differ by %.5f (at most %.3f), their deviation is %.3f; perplexity %.4f, with float32 %.4f",
				dtype, all.agree, all.rows, all.difference/n, all.largest, all.deviation/n, math.Exp(all.surprise/n), math.Exp(all.reference/n))
			require.Positive(t, all.difference, "the type is used")
			require.Less(t, all.difference, bounds[dtype]*all.deviation)
			require.GreaterOrEqual(t, all.agree, all.rows*97/100)
			require.InDelta(t, all.reference/n, all.surprise/n, 0.01)
		}
	})
}

// lastLogits feeds all tokens, so many at a time, or as the last rows of a piece of 32 more if
// that is 0, and returns the logits of the last one.
func lastLogits(t *testing.T, d *kompute.Device, o model.Options, ids []uint32, together int) (logits []float32) {
	f := testmodel.NewFixture(t, d, testmodel.OpenMote(t), o, len(ids))
	defer f.Close()
	if together > 0 {
		for part := range slices.Chunk(ids, together) {
			logits = f.Logits(model.LastRow, part...)
		}
		return logits
	}
	place, err := nn.NewPiece(d, len(ids)+32)
	require.NoError(t, err)
	defer place.Close()
	require.NoError(t, place.Set(0, len(ids)))
	tokens, err := kompute.New(d, append(make([]uint32, 32), ids...), 1, len(ids)+32)
	require.NoError(t, err)
	defer tokens.Close()
	sc := f.Stream.Scope()
	defer sc.Close()
	logits, err = f.Model.Forward(f.Stream, model.Pass{Tokens: tokens, State: f.State, Piece: place}).Read(t.Context())
	require.NoError(t, err)
	return logits
}

// Many tokens at a time read a cache of another type than the activations in other ways
// than few do, and give the same logits.
func TestPromptsOfCacheTypes(t *testing.T) {
	cases, _ := testmodel.Goldens(t)
	var ids []int
	for _, c := range cases {
		ids = append(append(ids, c.PromptIDs...), c.GeneratedIDs...)
	}
	text := testmodel.Unsigned(ids[:80])
	testmodel.EachDevice(t, func(t *testing.T, d *kompute.Device) {
		for _, o := range testmodel.Some(d, model.Options{CacheType: array.BFloat16},
			model.Options{DType: array.BFloat16, CacheType: array.Float32}, model.Options{CacheType: array.Float16},
			model.Options{CacheType: array.Uint8}) {
			tolerance := 1e-2
			if o.DType == array.BFloat16 {
				tolerance = 5e-2
			}
			want := lastLogits(t, d, o, text, 12) // so few that they read a page
			testmodel.RequireClose(t, want, lastLogits(t, d, o, text, len(text)), tolerance, fmt.Sprint("at once: ", o))
			testmodel.RequireClose(t, want, lastLogits(t, d, o, text, 0), tolerance, fmt.Sprint("a piece: ", o))
		}
	})
}

// With keys and values of any type, replays give the same tokens as eager decoding, and
// so does a cache that grows.
func TestReplaysOfCacheTypes(t *testing.T) {
	cases, _ := testmodel.Goldens(t)
	f := openDemo(t)
	testmodel.EachDevice(t, func(t *testing.T, d *kompute.Device) {
		for _, dtype := range testmodel.Some(d, array.Uint8, array.Float16) {
			withSession(t, f, d, model.Options{CacheType: dtype}, func(s *Session) {
				c := cases[1]
				var want []int
				for _, eager := range []bool{true, false, false, false} {
					forget(t, s)
					r, err := s.Generate(t.Context(), c.PromptIDs, Options{EOS: f.EOS(), Eager: eager, MaxTokens: 40})
					require.NoError(t, err)
					require.Equal(t, eager, s.Stats().Work.Replays == 0)
					if want == nil {
						want = r.IDs
					}
					require.Equal(t, want, r.IDs, dtype)
				}
				require.NotEmpty(t, capturedRows(s))
				require.Empty(t, s.Stream().Stats().Fallbacks)
			})
		}
	})
}

// A state takes the memory of its type, and a type that keys and values cannot have is
// refused.
func TestCacheTypeMemory(t *testing.T) {
	d, err := kompute.Open("cpu")
	require.NoError(t, err)
	defer d.Close()
	f := openDemo(t)
	_, err = f.Load(t.Context(), d, model.Options{CacheType: array.Int32})
	require.ErrorIs(t, err, kompute.ErrDType)
	for dtype, bytes := range map[kompute.DType]int{array.Float32: 4, array.Float16: 2, array.Uint8: 1} {
		m, err := f.Load(t.Context(), d, model.Options{CacheType: dtype})
		require.NoError(t, err)
		before := d.Stats().LiveBytes
		state, err := m.NewState(256)
		require.NoError(t, err)
		head := int64(ops.PageRow(dtype, 64) * bytes)
		require.Zero(t, (d.Stats().LiveBytes-before)%(2*256*head))
		require.NoError(t, state.Close())
		require.NoError(t, m.Close())
	}
}
