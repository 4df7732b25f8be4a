package ops_test

import (
	"math"
	"math/rand/v2"
	"slices"
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

// logSumExp is that of elements of which none is NaN.
func logSumExp(elements []float32) float64 {
	top, sum := float64(slices.Max(elements)), 0.0
	if math.IsInf(top, 0) {
		return top
	}
	for _, v := range elements {
		sum += math.Exp(float64(v) - top)
	}
	return top + math.Log(sum)
}

// Infinities, NaNs and elements of any magnitude anywhere in long rows, which GPUs join in
// larger batches than CPU drivers.
func TestLogSumExpOfManyElements(t *testing.T) {
	t.Setenv("KOMPUTE_GO_FUSION_ON_CPU", "1")
	const n = 1<<16 + 5
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	special := [][]float32{nil, {inf}, {-inf, inf, -inf}, {nan}, {nan, inf}, {-inf, nan}, {3e38, 3e38, -3e38}, {1e12, -1e30}}
	for _, device := range specs(t) {
		dev, err := kompute.Open(device)
		require.NoError(t, err)
		s, err := dev.NewStream()
		require.NoError(t, err)
		for i, elements := range special {
			rng, data := rand.New(rand.NewPCG(1, uint64(i))), make([]float32, n)
			for j := range data {
				data[j] = float32(rng.NormFloat64()) * 3
			}
			for _, v := range elements {
				data[rng.IntN(n)] = v
			}
			want := logSumExp(data)
			if slices.ContainsFunc(elements, func(v float32) bool { return v != v }) {
				want = math.NaN()
			}
			x, err := kompute.New(dev, data, n)
			require.NoError(t, err)
			y := ops.LogSumExp(s, x)
			got, err := y.Read(t.Context())
			require.NoError(t, err)
			switch {
			case math.IsNaN(want):
				require.True(t, math.IsNaN(float64(got[0])), "%v on %s: %v", elements, device, got)
			case math.IsInf(want, 0):
				require.Equal(t, float32(want), got[0], "%v on %s", elements, device)
			default:
				require.InEpsilon(t, want, got[0], 1e-6, "%v on %s", elements, device)
			}
			require.NoError(t, y.Close())
			require.NoError(t, x.Close())
		}
		require.NoError(t, s.Close())
		require.NoError(t, dev.Close())
	}
}
