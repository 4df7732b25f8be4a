package sample

import (
	"math"
	"math/rand/v2"
	"sort"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

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

// allowed computes which tokens may be drawn, filter after filter over arrays as in
// mlx_lm.
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

// At a high temperature all kept tokens are nearly equally likely, so that many draws
// return each of them, and no others.
func TestFiltersKeepWhatTheDefinitionKeeps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// Steps of 1/8 give many equal logits; thresholds stay clear of sums of them.
		logits := rapid.SliceOfN(rapid.Map(rapid.IntRange(-40, 40), func(i int) float32 { return float32(i) / 8 }), 1, 50).Draw(t, "logits")
		p := Params{
			Temperature: 1e6,
			TopP:        rapid.SampledFrom([]float64{0, 0.0013, 0.31871, 0.70713, 0.95371, 1}).Draw(t, "topP"),
			MinP:        rapid.SampledFrom([]float64{0, 0.0517, 0.5113, 1}).Draw(t, "minP"),
			TopK:        rapid.IntRange(0, 60).Draw(t, "topK"),
		}
		s, err := New(p)
		require.NoError(t, err)
		got := map[int]bool{}
		for step := range uint64(1500) {
			token, err := s.Sample(logits, step)
			require.NoError(t, err)
			got[int(token)] = true
		}
		require.Equal(t, allowed(logits, p), got)
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
		logits[i] = rand.New(rand.NewPCG(9, uint64(i))).Float32() * 4
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
		logits[i] = rand.New(rand.NewPCG(9, uint64(i))).Float32() * 12
	}
	s, err := New(Params{Temperature: 0.6, TopP: 0.95, TopK: 20})
	require.NoError(b, err)
	for i := 0; b.Loop(); i++ {
		if _, err := s.Sample(logits, uint64(i)); err != nil {
			b.Fatal(err)
		}
	}
}

func TestNilSampler(t *testing.T) {
	var none *Sampler
	_, err := none.Sample([]float32{1}, 0)
	require.ErrorIs(t, err, ErrParams)
}
