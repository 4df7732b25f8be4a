package fallback

import (
	"math"

	"github.com/kompute-go/kompute-go/fallback/internal/simd"
	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/opdef"
)

// truth reports whether the result is bool.
func truth(k opdef.BinaryKind) bool { return k >= opdef.BinaryEqual && k <= opdef.BinaryOr }

// bitwise reports whether the operands must be integers.
func bitwise(k opdef.BinaryKind) bool { return k >= opdef.BinaryBitAnd && k <= opdef.BinaryShiftRight }

// boolean reports whether the kind makes a bool of bools.
func boolean(k opdef.BinaryKind) bool {
	return k == opdef.BinaryMax || k == opdef.BinaryMin || k >= opdef.BinaryBitAnd && k <= opdef.BinaryBitXor
}

// Binary computes out = a (kind) b, element by element. a, b and out have one
// shape, a and b one type; out has it too, or bool for comparisons and logic.
//
// Integers wrap around; their quotients are rounded down, and x/0 is 0. Mod has the
// sign of b, or that of a where the result is zero; x mod 0 is NaN, or 0 for
// integers. Max and Min return NaN if either operand is NaN, and b if both are
// equal. An integer to a negative power is 0. Shifts use the lowest five bits of b.
// Logic takes nonzero as true. Bools have comparisons, logic, Max, Min and the
// bitwise kinds except shifts.
//
// Errors: ErrInvalid for other shapes or types, or a kind that the type lacks.
func Binary(kind opdef.BinaryKind, a, b, out array.Array) error {
	c := checker{op: "binary"}
	c.array("a", &a)
	c.array("b", &b)
	c.array("out", &out)
	c.shape("b", &b, a.Shape)
	c.shape("out", &out, a.Shape)
	c.dtype("b", &b, a.DType)
	if kind >= opdef.NumBinaryKinds {
		c.fail("kind %d does not exist", kind)
	}
	if truth(kind) {
		c.dtype("out", &out, array.Bool)
	} else {
		c.dtype("out", &out, a.DType)
		if a.DType == array.Bool && !boolean(kind) || bitwise(kind) && a.DType.IsFloat() {
			c.fail("kind %d does not exist for %v", kind, a.DType)
		}
	}
	if c.err != nil {
		return c.err
	}
	switch l := newLoop(len(a.Shape), &a, &b, &out); a.DType {
	case array.Int32:
		binaryInts[int32](kind, &l, &a, &b, &out)
	case array.Uint32:
		binaryInts[uint32](kind, &l, &a, &b, &out)
	case array.Bool, array.Uint8:
		binaryInts[uint8](kind, &l, &a, &b, &out)
	default:
		binaryFloats(kind, &l, &a, &b, &out)
	}
	return nil
}

func binaryFloats(kind opdef.BinaryKind, l *loop, a, b, out *array.Array) {
	inner := l.inner()
	cost := 1.0
	if kind == opdef.BinaryPow || kind == opdef.BinaryMod {
		cost = 40
	}
	l.blocks(cost, func(off offsets, n int) {
		scratch := borrow(3 * blockSize)
		defer scratch.release()
		buf := scratch.f
		x := floats(a, off[0], inner[0], n, cut(&buf, n))
		y := cut(&buf, n)
		if inner[1] == 0 && !truth(kind) && n > 1 {
			y = floats(b, off[1], 1, 1, y) // one for all
		} else {
			y = floats(b, off[1], inner[1], n, y)
		}
		if truth(kind) {
			done := 0
			if inner[2] == 1 {
				done = compareRow(kind, storage[uint8](out)[off[2]:off[2]+n], x, y)
			}
			truths(kind, storage[uint8](out), off[2]+done*inner[2], inner[2], x[done:], y[done:])
			return
		}
		z := place(out, off[2], inner[2], n, buf)
		binaryFloatRow(kind, z, x, y)
		storeFloats(out, off[2], inner[2], z)
	})
}

// vectorBinary maps kinds to their vector forms.
var vectorBinary = map[opdef.BinaryKind]simd.Binary{
	opdef.BinaryAdd: simd.Add, opdef.BinarySub: simd.Sub, opdef.BinaryMul: simd.Mul, opdef.BinaryDiv: simd.Div,
	opdef.BinaryMax: simd.Max2, opdef.BinaryMin: simd.Min2,
}

// binaryFloatRow computes z = x (kind) y, where y may be one number for all.
func binaryFloatRow(kind opdef.BinaryKind, z, x, y []float32) {
	if f, ok := vectorBinary[kind]; ok {
		done := simd.BinaryRow(f, z, x, y)
		z, x = z[done:], x[done:]
		if len(y) > 1 {
			y = y[done:]
		}
	}
	if len(z) > 1 && len(y) == 1 {
		all := borrow(len(z))
		defer all.release()
		y = view(y, 0, 0, len(z), all.f)
	}
	if len(z) == 0 {
		return
	}
	x, y = x[:len(z)], y[:len(z)]
	switch kind {
	case opdef.BinaryAdd:
		for i := range z {
			z[i] = x[i] + y[i]
		}
	case opdef.BinarySub:
		for i := range z {
			z[i] = x[i] - y[i]
		}
	case opdef.BinaryMul:
		for i := range z {
			z[i] = x[i] * y[i]
		}
	case opdef.BinaryDiv:
		for i := range z {
			z[i] = x[i] / y[i]
		}
	case opdef.BinaryMax:
		for i := range z {
			z[i] = maxFloat(x[i], y[i])
		}
	case opdef.BinaryMin:
		for i := range z {
			z[i] = minFloat(x[i], y[i])
		}
	case opdef.BinaryPow:
		for i := range z {
			z[i] = float32(math.Pow(float64(x[i]), float64(y[i])))
		}
	case opdef.BinaryMod:
		for i := range z {
			z[i] = modFloat(x[i], y[i])
		}
	}
}

// maxFloat returns a NaN, or the larger, or y. The builtin would prefer +0 to -0.
func maxFloat(x, y float32) float32 {
	if x > y || x != x {
		return x
	}
	return y
}

func minFloat(x, y float32) float32 {
	if x < y || x != x {
		return x
	}
	return y
}

// modFloat is Python's %: x - y·floor(x/y), computed without rounding on the
// way. A zero has the sign of x.
func modFloat(x, y float32) float32 {
	r := float32(math.Mod(float64(x), float64(y)))
	if r != 0 && (r < 0) != (y < 0) {
		return r + y
	}
	return r
}
