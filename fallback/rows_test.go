package fallback

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/array"
)

func TestSoftmax(t *testing.T) {
	check(t, func(g *gen) {
		dtype, shape := g.dtype("type", floatTypes), g.shape(1, 8)
		x := g.array(dtype, shape, func() float64 {
			if g.rng.IntN(50) == 0 {
				return math.Inf(-1)
			}
			return 20 * g.normal()
		})
		g.agree(func(in []array.Array, out array.Array) error { return Softmax(in[0], out) }, g.output(dtype, shape), 2e-6, 0, x)
	})
}

// The sum of a long row keeps what is added last: probabilities are as exact as in short rows.
func TestSoftmaxOfLongRows(t *testing.T) {
	numbers := map[string]func(rng *rand.Rand) float32{
		"equal":  func(*rand.Rand) float32 { return 1 },
		"normal": func(rng *rand.Rand) float32 { return float32(rng.NormFloat64()) },
	}
	forLevels(t, func(t *testing.T) {
		for name, number := range numbers {
			for _, cols := range []int{32000, 262145, 1 << 20} {
				rng, row, sum := rand.New(rand.NewPCG(1, 2)), make([]float32, cols), 0.0
				for i := range row {
					row[i] = number(rng)
				}
				row[cols-1] = 3
				for _, v := range row {
					sum += math.Exp(float64(v))
				}
				out := must(t, make([]float32, cols), 1, cols)
				require.NoError(t, Softmax(must(t, row, 1, cols), out))
				want := math.Exp(3) / sum
				require.InEpsilon(t, want, getAt(out, cols-1), 1e-5, "%d %s numbers", cols, name)
			}
		}
	})
}

func TestSoftmaxErrors(t *testing.T) {
	f32, scalar := must(t, []float32{1}, 1), must(t, []float32{1})
	require.ErrorIs(t, Softmax(scalar, scalar), ErrInvalid)
	require.ErrorIs(t, Softmax(f32, must(t, []array.F16{0}, 1)), ErrInvalid)
	require.ErrorIs(t, Softmax(must(t, []int32{1}, 1), f32), ErrInvalid)
}

func TestRMSNorm(t *testing.T) {
	check(t, func(g *gen) {
		dtype, shape := g.dtype("type", floatTypes), g.shape(1, 8)
		cols := shape[len(shape)-1]
		x := g.array(dtype, shape, g.normal)
		weight := array.Array{}
		if g.bool("weighted") {
			weight = g.array(g.dtype("weight type", floatTypes), []int{cols}, g.normal)
		}
		out := g.output(dtype, shape)
		g.agree(func(in []array.Array, out array.Array) error {
			return RMSNorm(in[0], in[1], out, 1e-5)
		}, out, 2e-6, 0, x, weight)
	})
	x, scalar := must(t, []float32{1, 2}, 2), must(t, []float32{1})
	require.ErrorIs(t, RMSNorm(scalar, array.Array{}, scalar, 0), ErrInvalid)
	require.ErrorIs(t, RMSNorm(x, scalar, x, 0), ErrInvalid)
	require.ErrorIs(t, RMSNorm(x, must(t, []int32{1, 2}, 2), x, 0), ErrInvalid)
	require.ErrorIs(t, RMSNorm(x, array.Array{}, must(t, []array.BF16{0, 0}, 2), 0), ErrInvalid)
	// In place.
	require.NoError(t, RMSNorm(x, array.Array{}, x, 0))
	require.InDelta(t, 2/math.Sqrt(2.5), value(x, 1), 1e-6)
	equal := must(t, slices.Repeat([]float32{1.1}, 12288), 12288)
	require.NoError(t, RMSNorm(equal, array.Array{}, equal, 0))
	require.InDelta(t, 1, value(equal, 0), 1e-6)
}

func TestLayerNorm(t *testing.T) {
	check(t, func(g *gen) {
		dtype, shape := g.dtype("type", floatTypes), g.shape(1, 8)
		cols := shape[len(shape)-1]
		x, out := g.array(dtype, shape, g.normal), g.output(dtype, shape)
		var weight, bias array.Array
		if g.bool("weighted") {
			weight = g.array(g.dtype("weight", floatTypes), []int{cols}, g.normal)
		}
		if g.bool("biased") {
			bias = g.array(g.dtype("bias", floatTypes), []int{cols}, g.normal)
		}
		g.agree(func(in []array.Array, out array.Array) error {
			return LayerNorm(in[0], in[1], in[2], out, 0.01)
		}, out, 2e-6, 40, x, weight, bias) // a row of equal numbers keeps the rounding error of its mean
	})
	row, one, scalar := must(t, []float32{1, 2}, 2), must(t, []float32{1}, 1), must(t, []float32{1})
	none := array.Array{}
	require.ErrorIs(t, LayerNorm(scalar, none, none, scalar, 0), ErrInvalid)
	require.ErrorIs(t, LayerNorm(row, one, none, row, 0), ErrInvalid)
	require.ErrorIs(t, LayerNorm(row, none, one, row, 0), ErrInvalid)
	require.ErrorIs(t, LayerNorm(row, none, none, one, 0), ErrInvalid)
	require.ErrorIs(t, LayerNorm(must(t, []int32{1}, 1), none, none, must(t, []int32{1}, 1), 0), ErrInvalid)
}
