package fallback

import (
	"math"

	"github.com/kompute-go/kompute-go/fallback/internal/simd"
	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/opdef"
)

// integral reports whether the kind exists for integers.
func integral(k opdef.UnaryKind) bool {
	return k == opdef.UnaryNeg || k == opdef.UnaryAbs || k == opdef.UnarySquare || k >= opdef.UnaryFloor && k <= opdef.UnaryNot
}

// Unary computes out = kind(x), element by element. x and out have one shape and
// type, except that Not gives bool and accepts any type, where nonzero is true.
// Round goes to the nearest, ties to even; GELU is x·(1 + erf(x/√2))/2. For
// integers there are Neg, Abs, Square and Not, which wrap around; Floor, Ceil and
// Round leave integers unchanged.
//
// Errors: ErrInvalid for other shapes or types, or a kind that the type lacks.
func Unary(kind opdef.UnaryKind, x, out array.Array) error {
	c := checker{op: "unary"}
	c.array("x", &x)
	c.array("out", &out)
	c.shape("out", &out, x.Shape)
	if kind >= opdef.NumUnaryKinds {
		c.fail("kind %d does not exist", kind)
	}
	if kind == opdef.UnaryNot {
		c.dtype("out", &out, array.Bool)
	} else {
		c.dtype("out", &out, x.DType)
		if x.DType == array.Bool || !integral(kind) && !x.DType.IsFloat() {
			c.fail("kind %d does not exist for %v", kind, x.DType)
		}
	}
	if c.err != nil {
		return c.err
	}
	switch l := newLoop(len(x.Shape), &x, &out); x.DType {
	case array.Int32:
		unaryInts[int32](kind, &l, &x, &out)
	case array.Uint32:
		unaryInts[uint32](kind, &l, &x, &out)
	case array.Bool, array.Uint8:
		unaryInts[uint8](kind, &l, &x, &out)
	default:
		unaryFloats(kind, &l, &x, &out)
	}
	return nil
}

func unaryFloats(kind opdef.UnaryKind, l *loop, x, out *array.Array) {
	inner := l.inner()
	f := unaryFloat(kind)
	row, vector := vectorUnary[kind]
	cost := 10.0
	if vector {
		cost = 1
	}
	l.blocks(cost, func(off offsets, n int) {
		scratch := borrow(2 * blockSize)
		defer scratch.release()
		buf := scratch.f
		in := floats(x, off[0], inner[0], n, cut(&buf, n))
		if kind == opdef.UnaryNot {
			bools := storage[uint8](out)
			for i, v := range in {
				bools[off[1]+i*inner[1]] = toByte(v == 0)
			}
			return
		}
		res := place(out, off[1], inner[1], n, buf)
		done := 0
		if vector {
			done = simd.UnaryRow(row, res, in)
		}
		for i, v := range in[done:] {
			res[done+i] = f(v)
		}
		storeFloats(out, off[1], inner[1], res)
	})
}

// vectorUnary maps kinds to their vector forms.
var vectorUnary = map[opdef.UnaryKind]simd.Unary{
	opdef.UnaryNeg: simd.Neg, opdef.UnaryAbs: simd.Abs, opdef.UnarySquare: simd.Square, opdef.UnarySqrt: simd.Sqrt,
	opdef.UnaryRsqrt: simd.Rsqrt, opdef.UnaryLog: simd.Log,
	opdef.UnaryExp: simd.Exp, opdef.UnarySigmoid: simd.Sigmoid, opdef.UnarySiLU: simd.SiLU,
	opdef.UnarySin: simd.Sin, opdef.UnaryCos: simd.Cos, opdef.UnaryTanh: simd.Tanh, opdef.UnaryErf: simd.Erf,
	opdef.UnaryFloor: simd.Floor, opdef.UnaryCeil: simd.Ceil, opdef.UnaryRound: simd.Round,
}

// unaryFloat returns the function of one kind, for numbers that no vector form
// takes. Transcendental functions are computed in float64 and rounded.
func unaryFloat(kind opdef.UnaryKind) func(float32) float32 {
	switch kind {
	case opdef.UnaryNeg:
		return func(x float32) float32 { return -x }
	case opdef.UnaryAbs:
		return func(x float32) float32 { return math.Float32frombits(math.Float32bits(x) &^ (1 << 31)) }
	case opdef.UnarySquare:
		return func(x float32) float32 { return x * x }
	case opdef.UnarySqrt:
		return func(x float32) float32 { return float32(math.Sqrt(float64(x))) }
	}
	g := unaryFloat64(kind)
	return func(x float32) float32 { return float32(g(float64(x))) }
}

func unaryFloat64(kind opdef.UnaryKind) func(float64) float64 {
	switch kind {
	case opdef.UnaryExp:
		return math.Exp
	case opdef.UnaryLog:
		return math.Log
	case opdef.UnaryRsqrt:
		return func(x float64) float64 { return 1 / math.Sqrt(x) }
	case opdef.UnarySin:
		return math.Sin
	case opdef.UnaryCos:
		return math.Cos
	case opdef.UnaryTanh:
		return math.Tanh
	case opdef.UnarySigmoid:
		return func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
	case opdef.UnarySiLU:
		return func(x float64) float64 { return x / (1 + math.Exp(-x)) }
	case opdef.UnaryGELU:
		return func(x float64) float64 { return 0.5 * x * math.Erfc(-x/math.Sqrt2) }
	case opdef.UnaryErf:
		return math.Erf
	case opdef.UnaryFloor:
		return math.Floor
	case opdef.UnaryCeil:
		return math.Ceil
	default:
		return math.RoundToEven
	}
}

func unaryInts[T integer](kind opdef.UnaryKind, l *loop, x, out *array.Array) {
	inner := l.inner()
	in := storage[T](x)
	l.blocks(1, func(off offsets, n int) {
		if kind == opdef.UnaryNot {
			bools := storage[uint8](out)
			for i := range n {
				bools[off[1]+i*inner[1]] = toByte(in[off[0]+i*inner[0]] == 0)
			}
			return
		}
		res := storage[T](out)
		for i := range n {
			v := in[off[0]+i*inner[0]]
			switch {
			case kind == opdef.UnaryNeg, kind == opdef.UnaryAbs && v < 0:
				v = -v
			case kind == opdef.UnarySquare:
				v *= v
			}
			res[off[1]+i*inner[1]] = v
		}
	})
}
