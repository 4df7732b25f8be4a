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

// binaryWant is the op on float64, for numbers that integers represent too.
func binaryWant(kind opdef.BinaryKind, x, y float64, float bool) float64 {
	truth := func(t bool) float64 { return float64(toByte(t)) }
	switch kind {
	case opdef.BinaryAdd:
		return x + y
	case opdef.BinarySub:
		return x - y
	case opdef.BinaryMul:
		return x * y
	case opdef.BinaryDiv:
		if float {
			return x / y
		}
		if y == 0 {
			return 0
		}
		return math.Floor(x / y)
	case opdef.BinaryMax:
		return math.Max(x, y)
	case opdef.BinaryMin:
		return math.Min(x, y)
	case opdef.BinaryPow:
		if !float && y < 0 {
			return 0
		}
		return math.Pow(x, y)
	case opdef.BinaryMod:
		if y == 0 && !float {
			return 0
		}
		return x - y*math.Floor(x/y)
	case opdef.BinaryEqual:
		return truth(x == y)
	case opdef.BinaryNotEqual:
		return truth(x != y)
	case opdef.BinaryLess:
		return truth(x < y)
	case opdef.BinaryLessEqual:
		return truth(x <= y)
	case opdef.BinaryGreater:
		return truth(x > y)
	case opdef.BinaryGreaterEqual:
		return truth(x >= y)
	case opdef.BinaryAnd:
		return truth(x != 0 && y != 0)
	case opdef.BinaryOr:
		return truth(x != 0 || y != 0)
	case opdef.BinaryBitAnd:
		return float64(int64(x) & int64(y))
	case opdef.BinaryBitOr:
		return float64(int64(x) | int64(y))
	case opdef.BinaryBitXor:
		return float64(int64(x) ^ int64(y))
	case opdef.BinaryShiftLeft:
		return float64(int64(x) << (int64(y) & 31))
	default:
		return float64(int64(x) >> (int64(y) & 31))
	}
}

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
		out := g.output(result, shape)
		require.NoError(g, Binary(kind, a, b, out))
		x, y := values(a), values(b)
		want := make([]float64, len(x))
		cell, _ := array.New(result, 1)
		for i := range x {
			setAt(cell, 0, binaryWant(kind, x[i], y[i], dtype.IsFloat()))
			want[i] = getAt(cell, 0)
		}
		requireSame(g, want, out)
		untouched(g, out)
	})
}

func TestBinaryEdges(t *testing.T) {
	f := func(kind opdef.BinaryKind, a, b float32) float64 {
		out := must(t, []float32{5}, 1)
		require.NoError(t, Binary(kind, must(t, []float32{a}, 1), must(t, []float32{b}, 1), out))
		return value(out, 0)
	}
	require.True(t, math.IsNaN(f(opdef.BinaryMod, 3, 0)))
	require.Equal(t, 2.0, f(opdef.BinaryMod, -7, 3))
	require.Equal(t, -2.0, f(opdef.BinaryMod, 7, -3))
	negative := float32(math.Copysign(0, -1))
	for kind, operands := range map[opdef.BinaryKind][2]float32{
		opdef.BinaryMod: {negative, 3}, opdef.BinaryMax: {0, negative}, opdef.BinaryMin: {0, negative}, opdef.BinaryMul: {0, -1},
	} {
		require.True(t, math.Signbit(f(kind, operands[0], operands[1])), "kind %d", kind)
	}
	require.False(t, math.Signbit(f(opdef.BinaryMod, 3, -3)))
	require.False(t, math.Signbit(f(opdef.BinaryMin, negative, 0)))
	require.True(t, math.IsNaN(f(opdef.BinaryMax, float32(nan), 1)))
	require.True(t, math.IsNaN(f(opdef.BinaryMin, 1, float32(nan))))
	require.Equal(t, inf, f(opdef.BinaryDiv, 1, 0))
	require.True(t, math.IsNaN(f(opdef.BinaryPow, -8, 0.5)))

	i := func(kind opdef.BinaryKind, a, b int32) float64 {
		out := must(t, []int32{5}, 1)
		require.NoError(t, Binary(kind, must(t, []int32{a}, 1), must(t, []int32{b}, 1), out))
		return value(out, 0)
	}
	require.Equal(t, -3.0, i(opdef.BinaryDiv, -7, 3))
	require.Equal(t, -3.0, i(opdef.BinaryDiv, 7, -3))
	require.Equal(t, -2.0, i(opdef.BinaryDiv, -6, 3))
	require.Equal(t, 0.0, i(opdef.BinaryDiv, -7, 0))
	require.Equal(t, float64(math.MinInt32), i(opdef.BinaryDiv, math.MinInt32, -1))
	require.Equal(t, 0.0, i(opdef.BinaryMod, math.MinInt32, -1))
	require.Equal(t, 2.0, i(opdef.BinaryMod, -7, 3))
	require.Equal(t, -2.0, i(opdef.BinaryMod, 7, -3))
	require.Equal(t, 0.0, i(opdef.BinaryPow, 2, -1))
	require.Equal(t, 0.0, i(opdef.BinaryPow, 2, 40))
	require.Equal(t, -8.0, i(opdef.BinaryShiftRight, -8, 32))
	require.Equal(t, -1.0, i(opdef.BinaryShiftRight, -8, -1))
	require.Equal(t, -4.0, i(opdef.BinaryShiftRight, -8, 1))
	require.Equal(t, 2.0, i(opdef.BinaryShiftLeft, 1, 33))
	require.Equal(t, -2.0, i(opdef.BinaryAdd, math.MaxInt32, math.MaxInt32))
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

var unaryWant = map[opdef.UnaryKind]func(float64) float64{
	opdef.UnaryNeg: func(x float64) float64 { return -x }, opdef.UnaryAbs: math.Abs, opdef.UnaryExp: math.Exp, opdef.UnaryLog: math.Log,
	opdef.UnarySqrt: math.Sqrt, opdef.UnaryRsqrt: func(x float64) float64 { return 1 / math.Sqrt(x) },
	opdef.UnarySin: math.Sin, opdef.UnaryCos: math.Cos, opdef.UnaryTanh: math.Tanh,
	opdef.UnarySigmoid: func(x float64) float64 { return 1 / (1 + math.Exp(-x)) },
	opdef.UnarySiLU:    func(x float64) float64 { return x / (1 + math.Exp(-x)) },
	opdef.UnaryGELU:    func(x float64) float64 { return x * (1 + math.Erf(x/math.Sqrt2)) / 2 },
	opdef.UnaryErf:     math.Erf, opdef.UnarySquare: func(x float64) float64 { return x * x },
	opdef.UnaryFloor: math.Floor, opdef.UnaryCeil: math.Ceil, opdef.UnaryRound: math.RoundToEven,
	opdef.UnaryNot: func(x float64) float64 { return float64(toByte(x == 0)) },
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
		out := g.output(result, shape)
		require.NoError(g, Unary(kind, x, out))
		want := values(x)
		cell, _ := array.New(result, 1)
		for i := range want {
			want[i] = unaryWant[kind](want[i])
			if !dtype.IsFloat() {
				setAt(cell, 0, want[i])
				want[i] = getAt(cell, 0)
			}
		}
		requireClose(g, want, out, 3e-7, 0)
		untouched(g, out)
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

// castWant converts as Cast says.
func castWant(v float64, from, to array.DType) float64 {
	if to == array.Bool {
		return float64(toByte(v != 0))
	}
	limits := map[array.DType][2]float64{
		array.Int32: {math.MinInt32, math.MaxInt32}, array.Uint32: {0, math.MaxUint32}, array.Uint8: {0, math.MaxUint8},
	}
	limit, integral := limits[to]
	if !integral || !from.IsFloat() {
		return v // setAt rounds or wraps
	}
	if math.IsNaN(v) {
		return 0
	}
	return math.Trunc(min(max(v, limit[0]), limit[1]))
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
		out := g.output(to, shape)
		require.NoError(g, Cast(x, out))
		want := values(x)
		cell, _ := array.New(to, 1)
		for i, v := range want {
			setAt(cell, 0, castWant(v, from, to))
			want[i] = getAt(cell, 0)
		}
		requireSame(g, want, out)
		untouched(g, out)
	})
	require.ErrorIs(t, Cast(must(t, []float32{1}, 1), must(t, []int32{1, 2}, 2)), ErrInvalid)
	// A bool of any nonzero byte is 1.
	odd := array.Array{DType: array.Bool, Layout: array.Layout{Shape: []int{1}, Strides: []int{1}}, Data: []byte{7}}
	out := must(t, []int32{0}, 1)
	require.NoError(t, Cast(odd, out))
	require.Equal(t, 1.0, value(out, 0))
}

func TestSiLUMul(t *testing.T) {
	check(t, func(g *gen) {
		dtype, shape := g.dtype("type", floatTypes), g.shape(0, 8)
		gate, up := g.array(dtype, shape, func() float64 { return 4 * g.normal() }), g.array(dtype, shape, g.normal)
		out := g.output(dtype, shape)
		require.NoError(g, SiLUMul(gate, up, out))
		want, u := values(gate), values(up)
		for i, v := range want {
			want[i] = v / (1 + math.Exp(-v)) * u[i]
		}
		requireClose(g, want, out, 1e-6, 0)
		untouched(g, out)
		again := dense(g, out)
		require.NoError(g, SiLUMul(dense(g, gate), dense(g, up), again))
		requireBits(g, out, again)
	})
	f32, i32 := must(t, []float32{1}, 1), must(t, []int32{1}, 1)
	require.ErrorIs(t, SiLUMul(i32, i32, i32), ErrInvalid)
	require.ErrorIs(t, SiLUMul(f32, i32, f32), ErrInvalid)
}

// mirror reverses the lowest n bits, for index patterns that jump about.
func mirror(i, n int) int { return int(bits.Reverse32(uint32(i)) >> (32 - n)) }
