package fallback

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/fallback/internal/simd"
	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/opdef"
)

// A projection has the bits of the ops that it replaces, also where some rows are not finite.
func TestProjectionEqualsItsOps(t *testing.T) {
	rng := rand.New(rand.NewPCG(31, 31))
	forLevels(t, func(t *testing.T) {
		for _, q := range quantizedForms {
			projectionCase(t, rng, q, 1+rng.IntN(4), 1+rng.IntN(500))
			projectionCase(t, rng, q, 2+rng.IntN(11), 2100) // prepared in a loop of their own
			if simd.Active() == simd.Generic && rng.IntN(4) > 0 {
				continue
			}
			projectionCase(t, rng, q, 130+rng.IntN(150), 1+rng.IntN(250)) // several blocks of rows
			projectionCase(t, rng, q, 65+rng.IntN(10), 1600)              // blocks of half as many columns
		}
	})
}

// projectionCase compares a random projection of rows of about so many elements with its ops.
func projectionCase(t *testing.T, rng *rand.Rand, q Quantization, rows, elements int) {
	t.Helper()
	o, k, n := &opdef.Projection, max(elements/q.GroupSize, 1)*q.GroupSize, 1+rng.IntN(150)*min(rng.IntN(8), 1)
	dtype := floatTypes[rng.IntN(len(floatTypes))]
	numbers := func(shape ...int) array.Array {
		a, err := array.New(dtype, shape...)
		require.NoError(t, err)
		if rows == 1 && rng.IntN(3) == 0 { // every second element of a larger array, but the first
			wide, err := array.New(dtype, 2*a.Size()+1)
			require.NoError(t, err)
			a.Data, a.Offset, a.Strides[len(shape)-1] = wide.Data, 1, 2
		}
		for i := range a.Size() {
			setAt(a, i, rng.NormFloat64())
		}
		if shape[len(shape)-1] == 1 {
			a.Strides[len(shape)-1] = rows // as in the transpose of one row
		}
		return a
	}
	params := opdef.ProjectionParams{GroupSize: uint32(q.GroupSize), Bits: uint32(q.Bits), Eps: 1e-6}
	a := make([]array.Array, len(o.Operands))
	x := numbers(1, rows, k)
	if rng.IntN(3) == 0 {
		setAt(x, rng.IntN(x.Size()), math.Inf(1))
	}
	a[o.X.Index] = x
	prepared := x
	switch rng.IntN(3) {
	case 0:
		params.Norm, a[o.Gain.Index], prepared = 1, numbers(k), numbers(1, rows, k)
		require.NoError(t, RMSNorm(x, a[o.Gain.Index], prepared, params.Eps))
	case 1:
		a[o.Up.Index], prepared = numbers(1, rows, k), numbers(1, rows, k)
		require.NoError(t, SiLUMul(x, a[o.Up.Index], prepared))
	}
	matrix := func(i, n int) (product array.Array) {
		w, scales, biases := randomQuantized(t, rng, q, n, k)
		at := i * opdef.ProjectionGroupSize
		a[o.W.Index+at], a[o.Scales.Index+at], a[o.Biases.Index+at] = w, scales, biases
		product = numbers(1, rows, n)
		require.NoError(t, QuantizedMatMulTransposed(prepared, w, scales, biases, product, q))
		return product
	}
	var want, got []array.Array
	result := func(i, n int, expected array.Array) {
		out := numbers(1, rows, n)
		a[o.Out.Index+i*opdef.ProjectionGroupSize] = out
		want, got = append(want, expected), append(got, out)
	}
	switch rng.IntN(3) {
	case 0:
		for i := range 1 + rng.IntN(opdef.ProjectionGroups) {
			n := 1 + rng.IntN(70)
			result(i, n, matrix(i, n))
		}
	case 1:
		params.Epilogue, a[o.Residual.Index] = opdef.ProjectionResidual, numbers(1, rows, n)
		sums := numbers(1, rows, n)
		require.NoError(t, Binary(opdef.BinaryAdd, matrix(0, n), a[o.Residual.Index], sums))
		result(0, n, sums)
	case 2:
		params.Epilogue = opdef.ProjectionSiLUMul
		gated := numbers(1, rows, n)
		require.NoError(t, SiLUMul(matrix(0, n), matrix(1, n), gated))
		result(0, n, gated)
	}
	runStages(&gen{TestingT: t, rng: rng}, o.Op, params, a)
	for i := range want {
		requireSame(t, values(want[i]), got[i])
	}
}
