package sample

import (
	"math"
	"slices"
	"sort"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// The known answers published with the reference implementation, Random123.
func TestPhiloxKnownAnswers(t *testing.T) {
	const ones = math.MaxUint32
	for _, c := range []struct {
		counter [4]uint32
		key     [2]uint32
		want    [4]uint32
	}{
		{want: [4]uint32{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
		{[4]uint32{ones, ones, ones, ones}, [2]uint32{ones, ones}, [4]uint32{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
		{
			[4]uint32{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
			[2]uint32{0xa4093822, 0x299f31d0},
			[4]uint32{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1},
		},
	} {
		require.Equal(t, c.want, philox4x32(c.counter, c.key))
	}
}

func TestValidate(t *testing.T) {
	for _, p := range []Params{
		{Temperature: -1},
		{Temperature: math.NaN()},
		{Temperature: math.Inf(1)},
		{TopP: -0.1},
		{TopP: 1.1},
		{TopP: math.NaN()},
		{MinP: -0.1},
		{MinP: 2},
		{TopK: -1},
	} {
		_, err := New(p)
		require.ErrorIs(t, err, ErrParams, "%+v", p)
	}
	_, err := New(Params{Temperature: 0.6, TopP: 0.95, TopK: 20, MinP: 0.05})
	require.NoError(t, err)
}

func TestGreedyTakesFirstOfEquals(t *testing.T) {
	s, err := New(Params{})
	require.NoError(t, err)
	got, err := s.Sample([]float32{1, 3, 2, 3}, 0)
	require.NoError(t, err)
	require.EqualValues(t, 1, got)
}

func TestBadLogits(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, temp := range []float64{0, 1} {
		s, err := New(Params{Temperature: temp})
		require.NoError(t, err)
		for _, logits := range [][]float32{nil, {1, nan}, {nan, 1}, {inf, 1}, {-inf, -inf}} {
			_, err := s.Sample(logits, 0)
			require.ErrorIs(t, err, ErrLogits, "%v", logits)
		}
		got, err := s.Sample([]float32{-inf, 2, -inf}, 7)
		require.NoError(t, err)
		require.EqualValues(t, 1, got)
	}
}

// allowed computes which tokens may be drawn, filter after filter over arrays
// as mlx_lm writes them down.
func allowed(logits []float32, p Params) map[int]bool {
	n := len(logits)
	logp := make([]float64, n)
	sum := 0.0
	for _, l := range logits {
		sum += math.Exp(float64(l))
	}
	for i, l := range logits {
		logp[i] = float64(l) - math.Log(sum)
	}
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	byLogp := func(a, b int) bool { return logp[order[a]] > logp[order[b]] }
	keep := map[int]bool{}
	for i := range n {
		keep[i] = true
	}
	sort.SliceStable(order, byLogp)
	if p.TopP > 0 && p.TopP < 1 {
		above := 0.0
		for _, i := range order {
			if above >= p.TopP {
				delete(keep, i)
			}
			above += math.Exp(logp[i])
		}
	}
	if p.MinP > 0 {
		for i := range n {
			if logp[i] < logp[order[0]]+math.Log(p.MinP) {
				delete(keep, i)
			}
		}
	}
	if p.TopK > 0 {
		for rank, i := range order {
			if rank >= p.TopK {
				delete(keep, i)
			}
		}
	}
	return keep
}

func TestFiltersKeepWhatTheDefinitionKeeps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// Steps of 1/8 give many equal logits; thresholds stay clear of sums of them.
		logits := rapid.SliceOfN(rapid.Map(rapid.IntRange(-40, 40), func(i int) float32 { return float32(i) / 8 }), 1, 50).Draw(t, "logits")
		p := Params{
			Temperature: 1,
			TopP:        rapid.SampledFrom([]float64{0, 0.0013, 0.31871, 0.70713, 0.95371, 1}).Draw(t, "topP"),
			MinP:        rapid.SampledFrom([]float64{0, 0.0517, 0.5113, 1}).Draw(t, "minP"),
			TopK:        rapid.IntRange(0, 60).Draw(t, "topK"),
		}
		s, err := New(p)
		require.NoError(t, err)
		best, err := argMax(logits)
		require.NoError(t, err)
		s.logSoftmax(logits, float64(logits[best]))
		got := s.filter(s.logp[best])
		if got == nil {
			require.Len(t, allowed(logits, p), len(logits))
			return
		}
		var want []int32
		for i := range allowed(logits, p) {
			want = append(want, int32(i))
		}
		slices.Sort(want)
		require.Equal(t, want, got)
	})
}

// At temperature T the frequencies approach softmax(logits/T).
func TestFrequencies(t *testing.T) {
	const draws, temperature = 20_000, 1.7
	logits := []float32{0.5, -1, 2, 1.25, -3, 0}
	for _, p := range []Params{
		{Temperature: temperature, Seed: 3},
		{Temperature: temperature, Seed: 4, TopK: 3},
	} {
		keep, total := allowed(logits, p), 0.0
		for i := range keep {
			total += math.Exp(float64(logits[i]) / temperature)
		}
		s, err := New(p)
		require.NoError(t, err)
		count := make([]int, len(logits))
		for step := range uint64(draws) {
			tok, err := s.Sample(logits, step)
			require.NoError(t, err)
			count[tok]++
		}
		for i, n := range count {
			want := 0.0
			if keep[i] {
				want = math.Exp(float64(logits[i])/temperature) / total
			}
			require.InDelta(t, want, float64(n)/draws, 0.012, "token %d", i)
		}
	}
}

func TestSameSeedSameTokens(t *testing.T) {
	logits := make([]float32, 2048)
	for i := range logits {
		logits[i] = float32(Uniform(9, uint64(i))) * 4
	}
	run := func(seed uint64) (out []uint32) {
		s, err := New(Params{Temperature: 0.8, TopP: 0.9, TopK: 50, MinP: 0.01, Seed: seed})
		require.NoError(t, err)
		for step := range uint64(64) {
			tok, err := s.Sample(logits, step)
			require.NoError(t, err)
			out = append(out, tok)
		}
		return out
	}
	require.Equal(t, run(1), run(1))
	require.NotEqual(t, run(1), run(2))
}

func BenchmarkSampleTopPLargeVocabulary(b *testing.B) {
	logits := make([]float32, 151_936)
	for i := range logits {
		logits[i] = float32(Uniform(9, uint64(i))) * 12
	}
	s, err := New(Params{Temperature: 0.6, TopP: 0.95, TopK: 20})
	require.NoError(b, err)
	for i := 0; b.Loop(); i++ {
		if _, err := s.Sample(logits, uint64(i)); err != nil {
			b.Fatal(err)
		}
	}
}
