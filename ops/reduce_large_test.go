package ops_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/ops"
)

// The mean of more elements than float32 has whole numbers for is within a millionth:
// neither their sum nor their count loses what is added last.
func TestMeanOfManyElements(t *testing.T) {
	const n = 1<<24 + 5
	numbers := map[string]func(rng *rand.Rand) float32{
		"equal":   func(*rand.Rand) float32 { return 0.1 },
		"uniform": func(rng *rand.Rand) float32 { return rng.Float32() },
	}
	for _, device := range specs(t) {
		dev, err := kompute.Open(device)
		require.NoError(t, err)
		s, err := dev.NewStream()
		require.NoError(t, err)
		for name, number := range numbers {
			rng, data, sum := rand.New(rand.NewPCG(1, 2)), make([]float32, n), 0.0
			for i := range data {
				data[i] = number(rng)
				sum += float64(data[i])
			}
			x, err := kompute.New(dev, data, n)
			require.NoError(t, err)
			mean := ops.Mean(s, x)
			got, err := mean.Read(t.Context())
			require.NoError(t, err)
			want := sum / n
			require.LessOrEqual(t, math.Abs(float64(got[0])-want), 1e-6*want, "%s numbers on %s", name, device)
			require.NoError(t, mean.Close())
			require.NoError(t, x.Close())
		}
		require.NoError(t, s.Close())
		require.NoError(t, dev.Close())
	}
}

// The mean of integers that float32 does not have, and that nearly cancel, is exact.
func TestMeanOfIntegersThatCancel(t *testing.T) {
	for _, device := range specs(t) {
		dev, err := kompute.Open(device)
		require.NoError(t, err)
		s, err := dev.NewStream()
		require.NoError(t, err)
		x, err := kompute.New(dev, []int32{math.MaxInt32, -math.MaxInt32 + 1, 1<<24 + 1, -1 << 24, math.MinInt32, math.MaxInt32}, 3, 2)
		require.NoError(t, err)
		mean := ops.ReduceAs[float32](s, ops.ReduceMean, x, ops.Axes(1))
		got, err := mean.Read(t.Context())
		require.NoError(t, err)
		require.Equal(t, []float32{0.5, 0.5, -0.5}, got, device)
		require.NoError(t, mean.Close())
		require.NoError(t, x.Close())
		require.NoError(t, s.Close())
		require.NoError(t, dev.Close())
	}
}

// logSumExp computes it in float64.
func logSumExp(elements []float32) float64 {
	top, sum := math.Inf(-1), 0.0
	for _, v := range elements {
		if v != v {
			return math.NaN()
		}
		top = math.Max(top, float64(v))
	}
	if math.IsInf(top, 0) {
		return top
	}
	for _, v := range elements {
		sum += math.Exp(float64(v) - top)
	}
	return top + math.Log(sum)
}

// awkwardRows are rows of cols elements: normal ones, or a single number if that is given,
// with others at random places.
func awkwardRows(rows, cols int) []float32 {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	kinds := []struct {
		all    float32
		others []float32
	}{
		{},
		{others: []float32{inf}}, {others: []float32{-inf}}, {others: []float32{-inf, inf, -inf}}, {others: []float32{nan}},
		{others: []float32{nan, inf}}, {others: []float32{-inf, nan}}, {others: []float32{3e38, 3e38, -3e38}},
		{others: []float32{1e12, -1e30}}, {all: -inf}, {all: nan}, {all: inf}, {all: -inf, others: []float32{2}}, {all: -3e38},
	}
	rng, data := rand.New(rand.NewPCG(1, uint64(cols))), make([]float32, rows*cols)
	for r := range rows {
		kind, row := kinds[r%len(kinds)], data[r*cols:(r+1)*cols]
		for i := range row {
			row[i] = kind.all
			if kind.all == 0 {
				row[i] = float32(rng.NormFloat64()) * 3
			}
		}
		for _, v := range kind.others {
			row[rng.IntN(cols)] = v
		}
	}
	return data
}

// requireLogSumExp compares each row's result with that of float64.
func requireLogSumExp[T kompute.Float](t *testing.T, s *kompute.Stream, x *kompute.Tensor[T], bound float64) {
	scope := s.Scope()
	defer scope.Close()
	data, err := ops.Cast[float32](s, x).Read(t.Context())
	require.NoError(t, err)
	got, err := ops.Cast[float32](s, ops.LogSumExp(s, x, ops.Axes(1))).Read(t.Context())
	require.NoError(t, err)
	cols := len(data) / len(got)
	for r, v := range got {
		want := logSumExp(data[r*cols : (r+1)*cols])
		switch {
		case math.IsNaN(want):
			require.True(t, math.IsNaN(float64(v)), "row %d of %v: %v", r, x.Shape(), v)
		case math.IsInf(want, 0):
			require.Equal(t, float32(want), v, "row %d of %v", r, x.Shape())
		default:
			require.InEpsilon(t, want, v, bound, "row %d of %v", r, x.Shape())
		}
	}
}

// Infinities, NaNs and elements of any magnitude anywhere in rows of which a thread joins
// one, four, five or more quads, on CPU drivers in the form that GPUs take.
func TestLogSumExpOfManyElements(t *testing.T) {
	t.Setenv("KOMPUTE_GO_FUSION_ON_CPU", "1")
	for _, device := range specs(t) {
		dev, err := kompute.Open(device)
		require.NoError(t, err)
		s, err := dev.NewStream()
		require.NoError(t, err)
		for _, shape := range [][2]int{{28, 4096}, {512, 4100}, {28, 1<<16 + 5}} {
			x, err := kompute.New(dev, awkwardRows(shape[0], shape[1]), shape[0], shape[1])
			require.NoError(t, err)
			requireLogSumExp(t, s, x, 1e-6)
			narrow := ops.Cast[kompute.BFloat16](s, x)
			requireLogSumExp(t, s, narrow, 1.0/128)
			require.NoError(t, narrow.Close())
			require.NoError(t, x.Close())
		}
		require.NoError(t, s.Close())
		require.NoError(t, dev.Close())
	}
}
