package ops

import (
	"github.com/kompute-go/kompute-go/fallback"
	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/opdef"
	"github.com/kompute-go/kompute-go/kompute"
)

// Arithmetic is any element type that arithmetic ops support.
type Arithmetic interface {
	kompute.Number | uint8
}

// Integer is any integer element type.
type Integer interface {
	int32 | uint32 | uint8
}

// binaryCPU holds the CPU function of each kind.
var binaryCPU = func() (cpu [opdef.NumBinaryKinds]cpuFunc) {
	for kind := range cpu {
		cpu[kind] = func(a []array.Array, _ []byte) error {
			return fallback.Binary(opdef.BinaryKind(kind), at(a, opdef.Binary.A), at(a, opdef.Binary.B), at(a, opdef.Binary.Out))
		}
	}
	return cpu
}()

// binary enqueues one kind of the binary op: T operands, an R result.
func binary[R, T kompute.Element](s *kompute.Stream, kind opdef.BinaryKind, a, b *kompute.Tensor[T]) *kompute.Tensor[R] {
	c := newCall(s, opdef.Binary.Op)
	c.named(kind.String())
	input(c, opdef.Binary.A, a)
	input(c, opdef.Binary.B, b)
	return result[R](c, c.broadcast(opdef.Binary.A, opdef.Binary.B), opdef.BinaryParams{Kind: kind}, binaryCPU[kind])
}

// Add returns a + b, element by element.
//
// As in all binary ops, a and b broadcast: shapes are aligned at their last
// axes, and an axis of length 1, or a missing one, repeats. So [8, 1, 3] and
// [5, 3] give [8, 5, 3], and a Scalar fits any shape; shapes that do not
// broadcast are ErrShape. Integers wrap around.
func Add[T Arithmetic](s *kompute.Stream, a, b *kompute.Tensor[T]) *kompute.Tensor[T] {
	return binary[T](s, opdef.BinaryAdd, a, b)
}

// Sub returns a - b. Shapes broadcast as for Add; integers wrap around.
func Sub[T Arithmetic](s *kompute.Stream, a, b *kompute.Tensor[T]) *kompute.Tensor[T] {
	return binary[T](s, opdef.BinarySub, a, b)
}

// Mul returns a * b. Shapes broadcast as for Add; integers wrap around.
func Mul[T Arithmetic](s *kompute.Stream, a, b *kompute.Tensor[T]) *kompute.Tensor[T] {
	return binary[T](s, opdef.BinaryMul, a, b)
}

// Div returns a / b. Shapes broadcast as for Add. Integer division rounds down,
// as MLX's floor_divide and Python's //: -7 / 2 is -4, so that a is always
// a/b*b + a mod b. x / 0 is 0 for integers (undefined in MLX). For MLX's
// divide, which converts integers to float32, Cast them first.
func Div[T Arithmetic](s *kompute.Stream, a, b *kompute.Tensor[T]) *kompute.Tensor[T] {
	return binary[T](s, opdef.BinaryDiv, a, b)
}

// Max returns the larger of a and b; NaN if either is NaN, and b if they are
// equal (0 and -0). Shapes broadcast as for Add. ([AMax] reduces one tensor.)
func Max[T kompute.Element](s *kompute.Stream, a, b *kompute.Tensor[T]) *kompute.Tensor[T] {
	return binary[T](s, opdef.BinaryMax, a, b)
}

// Min returns the smaller of a and b; NaN if either is NaN, and b if they are
// equal (0 and -0). Shapes broadcast as for Add.
func Min[T kompute.Element](s *kompute.Stream, a, b *kompute.Tensor[T]) *kompute.Tensor[T] {
	return binary[T](s, opdef.BinaryMin, a, b)
}

// Pow returns a to the power of b. Shapes broadcast as for Add. A negative
// float to a non-integer power is NaN. Integers wrap around, and an integer to
// a negative power is 0.
func Pow[T Arithmetic](s *kompute.Stream, a, b *kompute.Tensor[T]) *kompute.Tensor[T] {
	return binary[T](s, opdef.BinaryPow, a, b)
}

// Mod returns the remainder of a / b with the sign of b, as Python's %: -7 mod
// 3 is 2. Shapes broadcast as for Add. A float remainder is exact before it is
// rounded; a zero remainder has the sign of a, as in MLX; an infinite a or a
// zero b gives NaN; and an infinite b gives a, or b if their signs differ. x
// mod 0 is 0 for integers (undefined in MLX).
func Mod[T Arithmetic](s *kompute.Stream, a, b *kompute.Tensor[T]) *kompute.Tensor[T] {
	return binary[T](s, opdef.BinaryMod, a, b)
}

// Equal returns a == b for each element; a NaN equals nothing, and 0 equals -0.
// Shapes broadcast as for Add.
func Equal[T kompute.Element](s *kompute.Stream, a, b *kompute.Tensor[T]) *kompute.Tensor[bool] {
	return binary[bool](s, opdef.BinaryEqual, a, b)
}

// NotEqual returns a != b for each element; a NaN differs from everything.
// Shapes broadcast as for Add.
func NotEqual[T kompute.Element](s *kompute.Stream, a, b *kompute.Tensor[T]) *kompute.Tensor[bool] {
	return binary[bool](s, opdef.BinaryNotEqual, a, b)
}

// Less returns a < b for each element; false is less than true. Shapes
// broadcast as for Add.
func Less[T kompute.Element](s *kompute.Stream, a, b *kompute.Tensor[T]) *kompute.Tensor[bool] {
	return binary[bool](s, opdef.BinaryLess, a, b)
}

// LessEqual returns a <= b for each element. Shapes broadcast as for Add.
func LessEqual[T kompute.Element](s *kompute.Stream, a, b *kompute.Tensor[T]) *kompute.Tensor[bool] {
	return binary[bool](s, opdef.BinaryLessEqual, a, b)
}

// Greater returns a > b for each element. Shapes broadcast as for Add.
func Greater[T kompute.Element](s *kompute.Stream, a, b *kompute.Tensor[T]) *kompute.Tensor[bool] {
	return binary[bool](s, opdef.BinaryGreater, a, b)
}

// GreaterEqual returns a >= b for each element. Shapes broadcast as for Add.
func GreaterEqual[T kompute.Element](s *kompute.Stream, a, b *kompute.Tensor[T]) *kompute.Tensor[bool] {
	return binary[bool](s, opdef.BinaryGreaterEqual, a, b)
}

// And returns whether a and b are both nonzero, element by element. Shapes
// broadcast as for Add.
func And[T kompute.Element](s *kompute.Stream, a, b *kompute.Tensor[T]) *kompute.Tensor[bool] {
	return binary[bool](s, opdef.BinaryAnd, a, b)
}

// Or returns whether a or b is nonzero, element by element. Shapes broadcast as
// for Add.
func Or[T kompute.Element](s *kompute.Stream, a, b *kompute.Tensor[T]) *kompute.Tensor[bool] {
	return binary[bool](s, opdef.BinaryOr, a, b)
}

// BitAnd returns a & b. Shapes broadcast as for Add.
func BitAnd[T Integer | bool](s *kompute.Stream, a, b *kompute.Tensor[T]) *kompute.Tensor[T] {
	return binary[T](s, opdef.BinaryBitAnd, a, b)
}

// BitOr returns a | b. Shapes broadcast as for Add.
func BitOr[T Integer | bool](s *kompute.Stream, a, b *kompute.Tensor[T]) *kompute.Tensor[T] {
	return binary[T](s, opdef.BinaryBitOr, a, b)
}

// BitXor returns a ^ b. Shapes broadcast as for Add.
func BitXor[T Integer | bool](s *kompute.Stream, a, b *kompute.Tensor[T]) *kompute.Tensor[T] {
	return binary[T](s, opdef.BinaryBitXor, a, b)
}

// ShiftLeft returns a << b. Shapes broadcast as for Add. Only the lowest five bits of b count, as
// in MLX on the CPU: a shift by 33 or -31 is a shift by 1. A uint8 result keeps its lowest eight
// bits.
func ShiftLeft[T Integer](s *kompute.Stream, a, b *kompute.Tensor[T]) *kompute.Tensor[T] {
	return binary[T](s, opdef.BinaryShiftLeft, a, b)
}

// ShiftRight returns a >> b, which keeps the sign of an int32. Shapes broadcast
// as for Add. Only the lowest five bits of b count, as for ShiftLeft.
func ShiftRight[T Integer](s *kompute.Stream, a, b *kompute.Tensor[T]) *kompute.Tensor[T] {
	return binary[T](s, opdef.BinaryShiftRight, a, b)
}
