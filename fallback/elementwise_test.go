package fallback

import (
	"math"
	"math/bits"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/opdef"
)

var (
	nan = math.NaN()
	inf = math.Inf(1)
)

func TestBinary(t *testing.T) {
	check(t, func(g *gen) {
		kind := opdef.BinaryKind(g.int("kind", 0, int(opdef.NumBinaryKinds)-1))
		types := []array.DType{array.Float32, array.Float16, array.BFloat16, array.Int32, array.Uint32, array.Uint8}
		if truth(kind) {
			types = allTypes
		}
		if bitwise(kind) {
			types = intTypes
		}
		dtype := g.dtype("type", types)
		shape := g.shape(0, 8)
		draw := func() float64 {
			v := g.small()
			if !dtype.IsFloat() && dtype != array.Int32 {
				v = math.Abs(v)
			}
			return v
		}
		a, b := g.array(dtype, shape, draw), g.array(dtype, shape, draw)
		result := dtype
		if truth(kind) {
			result = array.Bool
		}
		g.agree(func(in []array.Array, out array.Array) error {
			return Binary(kind, in[0], in[1], out)
		}, g.output(result, shape), 0, 0, a, b)
	})
}

func TestBinaryErrors(t *testing.T) {
	f32, i32 := must(t, []float32{1, 2}, 2), must(t, []int32{1, 2}, 2)
	truth := must(t, []bool{true, false}, 2)
	require.ErrorIs(t, Binary(opdef.BinaryAdd, f32, i32, f32), ErrInvalid)
	require.ErrorIs(t, Binary(opdef.BinaryAdd, f32, f32, i32), ErrInvalid)
	require.ErrorIs(t, Binary(opdef.BinaryEqual, f32, f32, f32), ErrInvalid)
	require.ErrorIs(t, Binary(opdef.BinaryBitAnd, f32, f32, f32), ErrInvalid)
	require.ErrorIs(t, Binary(opdef.BinaryAdd, truth, truth, truth), ErrInvalid)
	require.ErrorIs(t, Binary(opdef.BinaryShiftLeft, truth, truth, truth), ErrInvalid)
	require.NoError(t, Binary(opdef.BinaryBitXor, truth, truth, must(t, []bool{true, true}, 2)))
	require.ErrorIs(t, Binary(opdef.NumBinaryKinds, f32, f32, f32), ErrInvalid)
	require.ErrorIs(t, Binary(opdef.BinaryAdd, f32, must(t, []float32{1}, 1), f32), ErrInvalid)
	require.ErrorIs(t, Binary(opdef.BinaryAdd, f32, array.Array{}, f32), ErrInvalid)
	short := f32
	short.Offset = 1
	require.ErrorContains(t, Binary(opdef.BinaryAdd, f32, short, f32), "b reaches elements 1 to 3 of 2")
	bad := f32
	bad.Shape = []int{-2}
	require.ErrorIs(t, Binary(opdef.BinaryAdd, bad, bad, bad), ErrInvalid)
	bad.Shape = []int{2, 1}
	require.ErrorIs(t, Binary(opdef.BinaryAdd, bad, bad, bad), ErrInvalid)
	bad.DType = 99
	require.ErrorIs(t, Binary(opdef.BinaryAdd, bad, bad, bad), ErrInvalid)
}

func TestUnary(t *testing.T) {
	check(t, func(g *gen) {
		kind := opdef.UnaryKind(g.int("kind", 0, int(opdef.NumUnaryKinds)-1))
		types := floatTypes
		if integral(kind) {
			types = append(intTypes, floatTypes...)
		}
		dtype := g.dtype("type", types)
		shape := g.shape(0, 8)
		x := g.array(dtype, shape, func() float64 {
			if !dtype.IsFloat() || g.rng.IntN(8) == 0 {
				return float64(g.rng.IntN(4)) / 2
			}
			return 3 * g.normal()
		})
		result := dtype
		if kind == opdef.UnaryNot {
			result = array.Bool
		}
		g.agree(func(in []array.Array, out array.Array) error {
			return Unary(kind, in[0], out)
		}, g.output(result, shape), 3e-7, 0, x)
	})
}

func TestUnaryErrors(t *testing.T) {
	f32, i32 := must(t, []float32{1}, 1), must(t, []int32{1}, 1)
	truth := must(t, []bool{true}, 1)
	require.ErrorIs(t, Unary(opdef.UnaryExp, i32, i32), ErrInvalid)
	require.ErrorIs(t, Unary(opdef.UnaryNeg, truth, truth), ErrInvalid)
	require.ErrorIs(t, Unary(opdef.UnaryNeg, f32, i32), ErrInvalid)
	require.ErrorIs(t, Unary(opdef.UnaryNot, f32, f32), ErrInvalid)
	require.ErrorIs(t, Unary(opdef.NumUnaryKinds, f32, f32), ErrInvalid)
	require.NoError(t, Unary(opdef.UnaryNot, truth, truth))
	require.Equal(t, 0.0, value(truth, 0))
}

func TestCopy(t *testing.T) {
	check(t, func(g *gen) {
		dtype, shape := g.dtype("type", allTypes), g.shape(0, 8)
		x, out := g.array(dtype, shape, func() float64 { return float64(g.rng.IntN(256)) }), g.output(dtype, shape)
		require.NoError(g, Copy(x, out))
		requireSame(g, values(x), out)
		untouched(g, out)
	})
	f32 := must(t, []float32{1}, 1)
	require.ErrorIs(t, Copy(f32, must(t, []int32{1}, 1)), ErrInvalid)
	require.ErrorIs(t, Copy(f32, must(t, []float32{1, 2}, 2)), ErrInvalid)
}

func TestCast(t *testing.T) {
	special := []float64{nan, inf, -inf, 0, -0.5, 1e10, -1e10, 2147483648, -2147483649, 4294967296, 255.9, 256, -1, 65520, 1e-8, 1e39}
	check(t, func(g *gen) {
		from, to := g.dtype("from", allTypes), g.dtype("to", allTypes)
		shape := g.shape(0, 8)
		x := g.array(from, shape, func() float64 {
			switch {
			case !from.IsFloat():
				return float64(int64(g.rng.Uint64()) >> (g.rng.IntN(30) + 33) & (1<<32 - 1))
			case g.rng.IntN(3) == 0:
				return special[g.rng.IntN(len(special))]
			}
			return g.normal() * math.Exp2(float64(g.rng.IntN(36)))
		})
		g.agree(func(in []array.Array, out array.Array) error { return Cast(in[0], out) }, g.output(to, shape), 0, 0, x)
	})
	require.ErrorIs(t, Cast(must(t, []float32{1}, 1), must(t, []int32{1, 2}, 2)), ErrInvalid)
	// A bool counts as 1 for any nonzero byte.
	odd := array.Array{DType: array.Bool, Layout: array.Layout{Shape: []int{1}, Strides: []int{1}}, Data: []byte{7}}
	out := must(t, []int32{0}, 1)
	require.NoError(t, Cast(odd, out))
	require.Equal(t, 1.0, value(out, 0))
}

func TestSiLUMul(t *testing.T) {
	check(t, func(g *gen) {
		dtype, shape := g.dtype("type", floatTypes), g.shape(0, 8)
		gate, up := g.array(dtype, shape, func() float64 { return 4 * g.normal() }), g.array(dtype, shape, g.normal)
		g.agree(func(in []array.Array, out array.Array) error {
			return SiLUMul(in[0], in[1], out)
		}, g.output(dtype, shape), 1e-6, 0, gate, up)
	})
	f32, i32 := must(t, []float32{1}, 1), must(t, []int32{1}, 1)
	require.ErrorIs(t, SiLUMul(i32, i32, i32), ErrInvalid)
	require.ErrorIs(t, SiLUMul(f32, i32, f32), ErrInvalid)
}

// mirror reverses the lowest n bits, for index patterns that jump about.
func mirror(i, n int) int { return int(bits.Reverse32(uint32(i)) >> (32 - n)) }
