package fallback

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/opdef"
	"github.com/kompute-go/kompute-go/internal/testlimit"
)

func TestReduce(t *testing.T) {
	check(t, func(g *gen) {
		kind := opdef.ReduceKind(g.int("kind", 0, int(opdef.NumReduceKinds)-1))
		types := allTypes
		if kind == opdef.ReduceLogSumExp || kind == opdef.ReduceGreedy {
			types = floatTypes
		}
		dtype, shape := g.dtype("type", types), g.shape(1, 8)
		if g.int("long", 0, 20) == 0 {
			shape = []int{g.int("rows", 1, 3), 3*reducePiece + 5}
		}
		kept := g.int("kept", 0, len(shape))
		if indexed(kind) {
			kept = len(shape) - 1
		}
		if product(shape[kept:]) == 0 && needsElements(kind) {
			return
		}
		nans := g.bool("NaN")
		x := g.array(dtype, shape, func() float64 {
			switch {
			case nans && dtype.IsFloat() && g.rng.IntN(30) == 0:
				return nan
			case kind == opdef.ReduceProd && dtype.IsFloat():
				return math.Exp(g.normal() / 500) // a row may repeat one
			}
			return math.Abs(g.small())
		})
		result, _ := reducedType(kind, dtype)
		g.agree(func(in []array.Array, out array.Array) error {
			return Reduce(kind, in[0], out)
		}, g.output(result, shape[:kept]), 1e-5, 0, x)
	})
}

func product(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

func TestReduceEdges(t *testing.T) {
	reduced := func(kind opdef.ReduceKind, x array.Array) float64 {
		dtype, _ := reducedType(kind, x.DType)
		out, err := array.New(dtype)
		require.NoError(t, err)
		require.NoError(t, Reduce(kind, x, out))
		return value(out)
	}
	none := must(t, []float32{}, 0)
	require.Equal(t, 0.0, reduced(opdef.ReduceSum, none))
	require.Equal(t, 1.0, reduced(opdef.ReduceProd, must(t, []int32{}, 0)))
	require.True(t, math.IsNaN(reduced(opdef.ReduceMean, none)))
	require.Equal(t, 1.0, reduced(opdef.ReduceAll, none))
	require.Equal(t, 0.0, reduced(opdef.ReduceAny, none))
	require.Equal(t, -2.0, reduced(opdef.ReduceSum, must(t, []int32{math.MaxInt32, math.MaxInt32}, 2)))
	require.Equal(t, 131073.0, reduced(opdef.ReduceProd, must(t, []int32{65537, 65537}, 2)))
	require.Equal(t, 600.0, reduced(opdef.ReduceSum, must(t, []uint8{200, 200, 200}, 3)))
	require.Equal(t, 2.0, reduced(opdef.ReduceSum, must(t, []bool{true, false, true}, 3)))
	require.Equal(t, float64(1<<31), reduced(opdef.ReduceMean, must(t, []int32{math.MaxInt32, math.MaxInt32}, 2)))
	infinite, lowest := float32(inf), float32(-inf)
	require.Equal(t, inf, reduced(opdef.ReduceLogSumExp, must(t, []float32{infinite, lowest, infinite}, 3)))
	require.Equal(t, -inf, reduced(opdef.ReduceLogSumExp, must(t, []float32{lowest, lowest}, 2)))
	require.InDelta(t, 1e30, reduced(opdef.ReduceLogSumExp, must(t, []float32{1e30, 1}, 2)), 1e24)
	require.Equal(t, 1.0, reduced(opdef.ReduceAny, must(t, []float32{0, float32(nan)}, 2)))

	long := make([]float32, 1<<22)
	for i := range long {
		long[i] = 0.1
	}
	require.InEpsilon(t, float64(float32(0.1))*(1<<22), reduced(opdef.ReduceSum, must(t, long, len(long))), 1e-6)
}

func TestReduceFindsPlaces(t *testing.T) {
	x := make([]float32, 32*reducePiece)
	for i := range x {
		x[i] = float32(mirror(i, 15))
	}
	out := must(t, []uint32{9})
	for kind, want := range map[opdef.ReduceKind]float64{opdef.ReduceArgMax: 32767, opdef.ReduceArgMin: 0} {
		require.NoError(t, Reduce(kind, must(t, x, len(x)), out))
		require.Equal(t, want, value(out))
	}
	x[3*reducePiece], x[reducePiece+9] = float32(nan), float32(nan)
	for _, kind := range []opdef.ReduceKind{opdef.ReduceArgMax, opdef.ReduceArgMin} {
		require.NoError(t, Reduce(kind, must(t, x, len(x)), out))
		require.Equal(t, float64(reducePiece+9), value(out))
	}
	require.NoError(t, Reduce(opdef.ReduceArgMax, must(t, []int32{math.MinInt32, math.MaxInt32 - 1, math.MaxInt32}, 3), out))
	require.Equal(t, 2.0, value(out))
}

// Results of short rows go where they belong: kept until all are there, they would take more
// memory than the operands.
func TestReduceMemory(t *testing.T) {
	const rows = 1 << 22
	x := must(t, []bool{true, false}, 1, 2)
	l, err := x.Broadcast(rows, 2)
	require.NoError(t, err)
	x.Layout = l
	for kind, dtype := range map[opdef.ReduceKind]array.DType{opdef.ReduceArgMin: array.Uint32, opdef.ReduceAny: array.Bool, opdef.ReduceSum: array.Int32} {
		out, err := array.New(dtype, rows)
		require.NoError(t, err)
		testlimit.Run(t, 10*time.Second, 4<<20, func() { require.NoError(t, Reduce(kind, x, out)) })
		require.Equal(t, 1.0, getAt(out, rows-1))
	}
}

func TestReduceErrors(t *testing.T) {
	f32, i32, place := must(t, []float32{1, 2}, 2), must(t, []int32{1, 2}, 2), must(t, []uint32{0})
	one := must(t, []float32{0})
	none := must(t, []float32{}, 0)
	require.ErrorIs(t, Reduce(opdef.NumReduceKinds, f32, one), ErrInvalid)
	require.ErrorIs(t, Reduce(opdef.ReduceSum, f32, place), ErrInvalid)
	require.ErrorIs(t, Reduce(opdef.ReduceLogSumExp, i32, one), ErrInvalid)
	require.ErrorIs(t, Reduce(opdef.ReduceGreedy, i32, place), ErrInvalid)
	require.ErrorIs(t, Reduce(opdef.ReduceSum, one, f32), ErrInvalid)
	require.ErrorIs(t, Reduce(opdef.ReduceSum, must(t, []float32{1, 2}, 2, 1), must(t, []float32{1}, 1)), ErrInvalid)
	require.ErrorIs(t, Reduce(opdef.ReduceArgMax, place, place), ErrInvalid)
	require.ErrorIs(t, Reduce(opdef.ReduceArgMin, must(t, []float32{1, 2}, 2, 1), place), ErrInvalid)
	require.ErrorIs(t, Reduce(opdef.ReduceAMax, none, one), ErrInvalid)
	require.ErrorIs(t, Reduce(opdef.ReduceArgMax, none, place), ErrInvalid)
	require.ErrorIs(t, Reduce(opdef.ReduceLogSumExp, none, one), ErrInvalid)
}
