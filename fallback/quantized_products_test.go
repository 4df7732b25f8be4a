package fallback

import (
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/fallback/internal/simd"
	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/opdef"
)

// Products of one x have the same bits whether they are computed together or alone.
func TestQuantizedProducts(t *testing.T) {
	rng := rand.New(rand.NewPCG(31, 31))
	q := Quantization{GroupSize: 64, Bits: 4}
	params := func(transpose uint32) []byte {
		p := opdef.QuantizedMatMulParams{GroupSize: uint32(q.GroupSize), Bits: uint32(q.Bits), Mode: q.Mode, Transpose: transpose}
		return append([]byte(nil), unsafe.Slice((*byte)(unsafe.Pointer(&p)), unsafe.Sizeof(p))...)
	}
	const k = 192
	for _, level := range simd.Levels() {
		defer simd.Use(simd.Use(level))
		for _, rows := range []int{1, 5, 70} {
			x := must(t, make([]float32, rows*k), rows, k)
			for i := range storage[float32](&x) {
				storage[float32](&x)[i] = float32(rng.NormFloat64())
			}
			var calls [][]array.Array
			var alone []array.Array
			for _, n := range []int{33, 100, 1, 64} {
				w, scales, biases := randomQuantized(t, rng, q, n, k)
				one, out := must(t, make([]float32, rows*n), rows, n), must(t, make([]float32, rows*n), rows, n)
				require.NoError(t, QuantizedMatMulTransposed(x, w, scales, biases, one, q))
				calls, alone = append(calls, []array.Array{x, w, scales, biases, out}), append(alone, one)
			}
			done, err := QuantizedProducts(calls, params(1))
			require.NoError(t, err)
			require.True(t, done)
			for i := range calls {
				require.Equal(t, values(alone[i]), values(calls[i][4]), "%v, %d rows, matrix %d", level, rows, i)
			}
			calls[1][4].Shape = []int{rows, 99}
			_, err = QuantizedProducts(calls, params(1))
			require.ErrorIs(t, err, ErrInvalid)
		}
	}
	w, scales, biases := randomQuantized(t, rng, q, 32, 64)
	stored := []array.Array{must(t, make([]float32, 32), 1, 32), w, scales, biases, must(t, make([]float32, 64), 1, 64)}
	done, err := QuantizedProducts([][]array.Array{stored, stored}, params(0))
	require.NoError(t, err)
	require.False(t, done, "products with matrices as stored")
}
