package fallback

import (
	"math"

	"github.com/kompute-go/kompute-go/internal/array"
)

// BinaryKind is a kind of the binary op. The values are those of BINARY_* in
// shaders/include/types.h.
type BinaryKind uint32

// The kinds of the binary op.
const (
	BinaryAdd BinaryKind = iota
	BinarySub
	BinaryMul
	BinaryDiv
	BinaryMax
	BinaryMin
	BinaryPow
	BinaryMod
	BinaryEqual
	BinaryNotEqual
	BinaryLess
	BinaryLessEqual
	BinaryGreater
	BinaryGreaterEqual
	BinaryAnd
	BinaryOr
	BinaryBitAnd
	BinaryBitOr
	BinaryBitXor
	BinaryShiftLeft
	BinaryShiftRight
	binaryKinds
)

// truth reports whether the result is bool.
func (k BinaryKind) truth() bool { return k >= BinaryEqual && k <= BinaryOr }

// bitwise reports whether the operands must be integers.
func (k BinaryKind) bitwise() bool { return k >= BinaryBitAnd && k <= BinaryShiftRight }

// boolean reports whether the kind makes a bool of bools.
func (k BinaryKind) boolean() bool {
	return k == BinaryMax || k == BinaryMin || k >= BinaryBitAnd && k <= BinaryBitXor
}

// Binary computes out = a (kind) b, element by element. a, b and out have one
// shape, a and b one type; out has it too, or bool for comparisons and logic.
//
// Integers wrap around; they divide rounding down, and x/0 is 0. Mod has the sign
// of b, but of a where it is zero; x mod 0 is NaN, or 0 for integers. Max and Min
// hand NaN on, and of equals b. An integer to a negative power is 0. Of a shift
// the lowest five bits count. Logic takes nonzero as true. Bools have comparisons,
// logic, Max, Min and the bitwise kinds without shifts.
//
// Errors: ErrInvalid for other shapes or types, or a kind that the type lacks.
func Binary(kind BinaryKind, a, b, out array.Array) error {
	c := checker{op: "binary"}
	c.array("a", &a)
	c.array("b", &b)
	c.array("out", &out)
	c.shape("b", &b, a.Shape)
	c.shape("out", &out, a.Shape)
	c.dtype("b", &b, a.DType)
	if kind >= binaryKinds {
		c.fail("kind %d does not exist", kind)
	}
	if kind.truth() {
		c.dtype("out", &out, array.Bool)
	} else {
		c.dtype("out", &out, a.DType)
		if a.DType == array.Bool && !kind.boolean() || kind.bitwise() && a.DType.IsFloat() {
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

func binaryFloats(kind BinaryKind, l *loop, a, b, out *array.Array) {
	inner := l.inner()
	cost := 1.0
	if kind == BinaryPow || kind == BinaryMod {
		cost = 40
	}
	l.blocks(cost, func(off offsets, n int) {
		scratch := borrow(3 * blockSize)
		defer scratch.release()
		buf := scratch.f
		x := floats(a, off[0], inner[0], n, cut(&buf, n))
		y := floats(b, off[1], inner[1], n, cut(&buf, n))
		if kind.truth() {
			truths(kind, storage[uint8](out), off[2], inner[2], x, y)
			return
		}
		z := place(out, off[2], inner[2], n, buf)
		binaryFloatRow(kind, z, x, y)
		storeFloats(out, off[2], inner[2], z)
	})
}

// binaryFloatRow computes z = x (kind) y.
func binaryFloatRow(kind BinaryKind, z, x, y []float32) {
	x, y = x[:len(z)], y[:len(z)]
	switch kind {
	case BinaryAdd:
		for i := range z {
			z[i] = x[i] + y[i]
		}
	case BinarySub:
		for i := range z {
			z[i] = x[i] - y[i]
		}
	case BinaryMul:
		for i := range z {
			z[i] = x[i] * y[i]
		}
	case BinaryDiv:
		for i := range z {
			z[i] = x[i] / y[i]
		}
	case BinaryMax:
		for i := range z {
			z[i] = maxFloat(x[i], y[i])
		}
	case BinaryMin:
		for i := range z {
			z[i] = minFloat(x[i], y[i])
		}
	case BinaryPow:
		for i := range z {
			z[i] = float32(math.Pow(float64(x[i]), float64(y[i])))
		}
	case BinaryMod:
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

type integer interface{ int32 | uint32 | uint8 }

func binaryInts[T integer](kind BinaryKind, l *loop, a, b, out *array.Array) {
	inner := l.inner()
	as, bs := storage[T](a), storage[T](b)
	l.blocks(1, func(off offsets, n int) {
		var xs, ys, zs [halfBlock]T
		for i := 0; i < n; i += halfBlock {
			m := min(halfBlock, n-i)
			x := view(as, off[0]+i*inner[0], inner[0], m, xs[:])
			y := view(bs, off[1]+i*inner[1], inner[1], m, ys[:])
			at := off[2] + i*inner[2]
			if kind.truth() {
				truths(kind, storage[uint8](out), at, inner[2], x, y)
				continue
			}
			z := zs[:m]
			binaryIntRow(kind, z, x, y)
			scatter(storage[T](out), at, inner[2], z)
		}
	})
}

// binaryIntRow computes z = x (kind) y.
func binaryIntRow[T integer](kind BinaryKind, z, x, y []T) {
	x, y = x[:len(z)], y[:len(z)]
	f := binaryInt[T](kind)
	for i := range z {
		z[i] = f(x[i], y[i])
	}
}

// binaryInt returns the function of one kind.
func binaryInt[T integer](kind BinaryKind) func(x, y T) T {
	switch kind {
	case BinaryAdd:
		return func(x, y T) T { return x + y }
	case BinarySub:
		return func(x, y T) T { return x - y }
	case BinaryMul:
		return func(x, y T) T { return x * y }
	case BinaryDiv:
		return divInt[T]
	case BinaryMax:
		return func(x, y T) T { return max(x, y) }
	case BinaryMin:
		return func(x, y T) T { return min(x, y) }
	case BinaryPow:
		return powInt[T]
	case BinaryMod:
		return modInt[T]
	case BinaryBitAnd:
		return func(x, y T) T { return x & y }
	case BinaryBitOr:
		return func(x, y T) T { return x | y }
	case BinaryBitXor:
		return func(x, y T) T { return x ^ y }
	case BinaryShiftLeft:
		return func(x, y T) T { return x << (uint32(y) & 31) }
	default:
		return func(x, y T) T { return x >> (uint32(y) & 31) }
	}
}

func divInt[T integer](x, y T) T {
	if y == 0 {
		return 0
	}
	q := x / y
	if q*y != x && (x < 0) != (y < 0) {
		q--
	}
	return q
}

func modInt[T integer](x, y T) T {
	if y == 0 {
		return 0
	}
	r := x % y
	if r != 0 && (r < 0) != (y < 0) {
		r += y
	}
	return r
}

// powInt multiplies by repeated squaring, which wraps around like repeated
// multiplication.
func powInt[T integer](x, y T) T {
	if y < 0 {
		return 0
	}
	result := T(1)
	for ; y > 0; y >>= 1 {
		if y&1 == 1 {
			result *= x
		}
		x *= x
	}
	return result
}

// truths writes x (kind) y as bools to out, from off on, stride apart.
func truths[T float32 | integer](kind BinaryKind, out []uint8, off, stride int, x, y []T) {
	y = y[:len(x)]
	for i := range x {
		var t bool
		switch kind {
		case BinaryEqual:
			t = x[i] == y[i]
		case BinaryNotEqual:
			t = x[i] != y[i]
		case BinaryLess:
			t = x[i] < y[i]
		case BinaryLessEqual:
			t = x[i] <= y[i]
		case BinaryGreater:
			t = x[i] > y[i]
		case BinaryGreaterEqual:
			t = x[i] >= y[i]
		case BinaryAnd:
			t = x[i] != 0 && y[i] != 0
		default:
			t = x[i] != 0 || y[i] != 0
		}
		out[off+i*stride] = toByte(t)
	}
}

func toByte(t bool) uint8 {
	if t {
		return 1
	}
	return 0
}
