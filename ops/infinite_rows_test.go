package ops_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/testmodel"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/ops"
)

// withInfinities sets elements of some rows of x to what is not finite.
func withInfinities(x []float32, k int) {
	inf := float32(math.Inf(1))
	for row := range len(x) / k {
		switch at := row*k + row*7; row % 5 {
		case 0:
			x[at] = inf
		case 1:
			x[at] = -inf
		case 2:
			x[at] = float32(math.NaN())
		case 3: // which have one sign, or the other, in some of the results
			x[at], x[row*k+(row*7+100)%k] = inf, -inf
		}
	}
}

// productOf is x times the transpose of w, in float64.
func productOf(x, w []float32, k int) []float64 {
	var out []float64
	for ; len(x) > 0; x = x[k:] {
		for row := w; len(row) > 0; row = row[k:] {
			sum := 0.0
			for i, v := range row[:k] {
				sum += float64(v) * float64(x[i])
			}
			out = append(out, sum)
		}
	}
	return out
}

func requireProducts(t *testing.T, want []float64, got []float32) {
	t.Helper()
	for i, v := range want {
		g := float64(got[i])
		same := math.IsNaN(v) && math.IsNaN(g) || math.IsInf(v, 0) && v == g || math.Abs(v-g) < 1e-2
		require.True(t, same, "element %d is %v, not %v", i, g, v)
	}
}

type infiniteRows struct {
	rows int
	q    ops.Quantization
}

// multiplier returns a function that multiplies rows of x with a matrix [n, k], and the
// matrix's elements.
func multiplier(t *testing.T, l *layer[float32], s *kompute.Stream, n, k int, q ops.Quantization) (func(s *kompute.Stream, x *kompute.Tensor[float32]) *kompute.Tensor[float32], []float32) {
	if q.Mode != ops.ModeAffine {
		w, scales, _ := ops.Quantize[uint8](s, l.floats(n, k), q)
		elements, err := ops.Dequantize[float32](s, w, scales, nil, q).Read(t.Context())
		require.NoError(t, err)
		return func(s *kompute.Stream, x *kompute.Tensor[float32]) *kompute.Tensor[float32] {
			return ops.QuantizedMatMul(s, x, w, scales, nil, q, ops.Transposed)
		}, elements
	}
	w, scales, biases := ops.Quantize[float32](s, l.floats(n, k), q)
	biases = ops.Add(s, biases, ops.Scalar(s, float32(0.01))) // no element is zero, whose product with an infinity is NaN
	elements, err := ops.Dequantize[float32](s, w, scales, biases, q).Read(t.Context())
	require.NoError(t, err)
	return func(s *kompute.Stream, x *kompute.Tensor[float32]) *kompute.Tensor[float32] {
		return ops.QuantizedMatMul(s, x, w, scales, biases, q, ops.Transposed)
	}, elements
}

// Rows with infinities have the infinities and NaNs of the weights' own products,
// eagerly and fused, for any number of rows, with the kernels of a GPU.
func TestRowsWithInfinities(t *testing.T) {
	t.Setenv("KOMPUTE_GO_FUSION_ON_CPU", "1")
	const k, n = 256, 40
	testmodel.EachDevice(t, func(t *testing.T, dev *kompute.Device) {
		l := &layer[float32]{t: t, dev: dev, rng: rand.New(rand.NewPCG(1, 1))}
		defer l.close()
		s, err := dev.NewStream()
		require.NoError(t, err)
		sc := s.Scope()
		affine := func(bits, group int) ops.Quantization { return ops.Quantization{GroupSize: group, Bits: bits} }
		for _, form := range testmodel.Some(dev, []infiniteRows{
			{4, affine(4, 128)}, {2, affine(8, 64)}, {12, affine(4, 32)},
			{1, affine(4, 128)}, {37, affine(4, 128)}, {70, affine(4, 64)},
			{9, ops.MXFP4}, {1, ops.MXFP4}, {2, ops.MXFP8},
			{5, affine(8, 64)}, {33, affine(8, 32)}, {1, affine(2, 32)},
			{3, ops.NVFP4}, {6, affine(3, 64)}, {3, affine(6, 64)},
			{17, affine(5, 32)},
		}...) {
			multiply, elements := multiplier(t, l, s, n, k, form.q)
			values, err := l.floats(form.rows, k).Read(t.Context())
			require.NoError(t, err)
			withInfinities(values, k)
			x, residual := keep(l, kompute.New[float32])(values, form.rows, k), l.floats(form.rows, n)
			product := func(s *kompute.Stream) *kompute.Tensor[float32] { return multiply(s, x) }
			want := productOf(values, elements, k)
			eager, err := product(s).Read(t.Context())
			require.NoError(t, err)
			requireProducts(t, want, eager)

			var out *kompute.Tensor[float32]
			region, err := s.Capture(func(s *kompute.Stream) { out = kompute.Result(s, ops.Add(s, residual, product(s))) })
			require.NoError(t, err)
			require.NoError(t, region.Replay(t.Context()))
			got, err := out.Read(t.Context())
			require.NoError(t, err)
			added, err := residual.Read(t.Context())
			require.NoError(t, err)
			for i, v := range added {
				want[i] += float64(v)
			}
			requireProducts(t, want, got)
			require.NoError(t, region.Close())
			require.NoError(t, out.Close())
		}
		sc.Close()
		require.NoError(t, s.Close())
	})
}
