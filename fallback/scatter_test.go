package fallback

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/opdef"
	"github.com/kompute-go/kompute-go/internal/testlimit"
)

// Sums of 16 bits are rounded once, whether they are kept for all places or only for
// those of updates, which are few among very many places.
func TestScatterRoundsOnce(t *testing.T) {
	for _, places := range []int{5, 40, 5000} {
		for _, mode := range []opdef.ScatterMode{opdef.ScatterAdd, opdef.ScatterMul} {
			rng := rand.New(rand.NewPCG(uint64(places), uint64(mode)))
			const updates, columns = 20, 3
			index := make([]int32, updates)
			for i := range index {
				index[i] = int32(rng.IntN(5))
			}
			numbers := func(rows int) array.Array {
				a, err := array.New(array.BFloat16, rows, columns)
				require.NoError(t, err)
				for i := range rows * columns {
					setAt(a, i, rng.NormFloat64())
				}
				return a
			}
			x, u, out := numbers(places), numbers(updates), numbers(places)
			require.NoError(t, Scatter(x, must(t, index, updates), u, out, 0, mode))
			want := make([]float32, places*columns)
			for i := range want {
				want[i] = float32(getAt(x, i))
			}
			for n, i := range index {
				for c := range columns {
					want[int(i)*columns+c] = combineFloats(mode)(want[int(i)*columns+c], float32(getAt(u, n*columns+c)))
				}
			}
			for i, v := range want {
				require.Equal(t, array.BF16FromFloat32(v), array.Storage[array.BF16](out)[i], "%d places, mode %d, element %d", places, mode, i)
			}
		}
	}
}

// Indices and updates of the longest axes may be broadcast from one element, and a few
// updates may go into the longest axis: neither takes memory in proportion to the axis.
func TestScatterMemory(t *testing.T) {
	const long = 1 << 23
	repeated := func(a array.Array, n int) array.Array {
		l, err := a.Broadcast(n)
		require.NoError(t, err)
		a.Layout = l
		return a
	}
	for _, dtype := range []array.DType{array.Int32, array.BFloat16} {
		out, err := array.New(dtype, 10)
		require.NoError(t, err)
		one, err := array.New(dtype, 1)
		require.NoError(t, err)
		setAt(one, 0, 1)
		axis, err := array.New(dtype, long)
		require.NoError(t, err)
		for _, put := range []func(x, indices, updates, out array.Array, axis int, mode opdef.ScatterMode) error{Scatter, PutAlongAxis} {
			testlimit.Run(t, 10*time.Second, 4<<20, func() {
				require.NoError(t, put(out, repeated(must(t, []int32{3}, 1), long), repeated(one, long), out, 0, opdef.ScatterAdd))
			})
			for _, mode := range []opdef.ScatterMode{opdef.ScatterSet, opdef.ScatterAdd} {
				testlimit.Run(t, 10*time.Second, 4<<20, func() {
					require.NoError(t, put(axis, must(t, []int32{3, 3}, 2), repeated(one, 2), axis, 0, mode))
				})
			}
		}
		require.Equal(t, 2.0*long, getAt(out, 3))
		require.Equal(t, 3.0, getAt(axis, 3))
	}
}
