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

// vectorBinary are the kinds that have vector forms.
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

// compareRow compares the first elements by vectors, and returns how many.
func compareRow(kind opdef.BinaryKind, z []uint8, x, y []float32) int {
	switch kind {
	case opdef.BinaryEqual:
		return simd.CompareRow(simd.Equal, z, x, y)
	case opdef.BinaryNotEqual:
		return simd.CompareRow(simd.NotEqual, z, x, y)
	case opdef.BinaryLess:
		return simd.CompareRow(simd.Less, z, x, y)
	case opdef.BinaryLessEqual:
		return simd.CompareRow(simd.LessEqual, z, x, y)
	case opdef.BinaryGreater:
		return simd.CompareRow(simd.Less, z, y, x)
	case opdef.BinaryGreaterEqual:
		return simd.CompareRow(simd.LessEqual, z, y, x)
	}
	return 0
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

func binaryInts[T integer](kind opdef.BinaryKind, l *loop, a, b, out *array.Array) {
	inner := l.inner()
	as, bs := storage[T](a), storage[T](b)
	l.blocks(1, func(off offsets, n int) {
		var xs, ys, zs [halfBlock]T
		for i := 0; i < n; i += halfBlock {
			m := min(halfBlock, n-i)
			x := view(as, off[0]+i*inner[0], inner[0], m, xs[:])
			y := view(bs, off[1]+i*inner[1], inner[1], m, ys[:])
			at := off[2] + i*inner[2]
			if truth(kind) {
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
func binaryIntRow[T integer](kind opdef.BinaryKind, z, x, y []T) {
	x, y = x[:len(z)], y[:len(z)]
	f := binaryInt[T](kind)
	for i := range z {
		z[i] = f(x[i], y[i])
	}
}

// binaryInt returns the function of one kind.
func binaryInt[T integer](kind opdef.BinaryKind) func(x, y T) T {
	switch kind {
	case opdef.BinaryAdd:
		return func(x, y T) T { return x + y }
	case opdef.BinarySub:
		return func(x, y T) T { return x - y }
	case opdef.BinaryMul:
		return func(x, y T) T { return x * y }
	case opdef.BinaryDiv:
		return divInt[T]
	case opdef.BinaryMax:
		return func(x, y T) T { return max(x, y) }
	case opdef.BinaryMin:
		return func(x, y T) T { return min(x, y) }
	case opdef.BinaryPow:
		return powInt[T]
	case opdef.BinaryMod:
		return modInt[T]
	case opdef.BinaryBitAnd:
		return func(x, y T) T { return x & y }
	case opdef.BinaryBitOr:
		return func(x, y T) T { return x | y }
	case opdef.BinaryBitXor:
		return func(x, y T) T { return x ^ y }
	case opdef.BinaryShiftLeft:
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
func truths[T float32 | integer](kind opdef.BinaryKind, out []uint8, off, stride int, x, y []T) {
	y = y[:len(x)]
	for i := range x {
		var t bool
		switch kind {
		case opdef.BinaryEqual:
			t = x[i] == y[i]
		case opdef.BinaryNotEqual:
			t = x[i] != y[i]
		case opdef.BinaryLess:
			t = x[i] < y[i]
		case opdef.BinaryLessEqual:
			t = x[i] <= y[i]
		case opdef.BinaryGreater:
			t = x[i] > y[i]
		case opdef.BinaryGreaterEqual:
			t = x[i] >= y[i]
		case opdef.BinaryAnd:
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
