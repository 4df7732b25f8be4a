package fallback

import (
	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/opdef"
)

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
