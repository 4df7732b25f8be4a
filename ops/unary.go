package ops

import (
	"github.com/kompute-go/kompute-go/fallback"
	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/opdef"
	"github.com/kompute-go/kompute-go/kompute"
)

// unaryCPU holds the CPU function of each kind.
var unaryCPU = func() (cpu [opdef.NumUnaryKinds]cpuFunc) {
	for kind := range cpu {
		cpu[kind] = func(a []array.Array, _ []byte) error {
			return fallback.Unary(opdef.UnaryKind(kind), at(a, opdef.Unary.X), at(a, opdef.Unary.Out))
		}
	}
	return cpu
}()

// unary enqueues one kind of the unary op: a T operand, an R result.
func unary[R, T kompute.Element](s *kompute.Stream, kind opdef.UnaryKind, x *kompute.Tensor[T]) *kompute.Tensor[R] {
	c := newCall(s, opdef.Unary.Op)
	c.named(kind.String())
	return result[R](c, input(c, opdef.Unary.X, x).Shape, opdef.UnaryParams{Kind: kind}, unaryCPU[kind])
}

// Neg returns -x, element by element; the result has x's shape. Integers wrap
// around.
func Neg[T Arithmetic](s *kompute.Stream, x *kompute.Tensor[T]) *kompute.Tensor[T] {
	return unary[T](s, opdef.UnaryNeg, x)
}

// Abs returns |x|; the smallest int32 is unchanged.
func Abs[T Arithmetic](s *kompute.Stream, x *kompute.Tensor[T]) *kompute.Tensor[T] {
	return unary[T](s, opdef.UnaryAbs, x)
}

// Square returns x * x. Integers wrap around.
func Square[T Arithmetic](s *kompute.Stream, x *kompute.Tensor[T]) *kompute.Tensor[T] {
	return unary[T](s, opdef.UnarySquare, x)
}

// Exp returns e to the power of x.
func Exp[T kompute.Float](s *kompute.Stream, x *kompute.Tensor[T]) *kompute.Tensor[T] {
	return unary[T](s, opdef.UnaryExp, x)
}

// Log returns the natural logarithm: -Inf at 0, NaN below.
func Log[T kompute.Float](s *kompute.Stream, x *kompute.Tensor[T]) *kompute.Tensor[T] {
	return unary[T](s, opdef.UnaryLog, x)
}

// Sqrt returns the square root: NaN below 0.
func Sqrt[T kompute.Float](s *kompute.Stream, x *kompute.Tensor[T]) *kompute.Tensor[T] {
	return unary[T](s, opdef.UnarySqrt, x)
}

// Rsqrt returns 1 / sqrt(x): +Inf at 0, NaN below.
func Rsqrt[T kompute.Float](s *kompute.Stream, x *kompute.Tensor[T]) *kompute.Tensor[T] {
	return unary[T](s, opdef.UnaryRsqrt, x)
}

// Sin returns the sine of x in radians, within 1e-6 for every float32 however
// large, rounded once for narrower floats. An infinite x gives NaN.
func Sin[T kompute.Float](s *kompute.Stream, x *kompute.Tensor[T]) *kompute.Tensor[T] {
	return unary[T](s, opdef.UnarySin, x)
}

// Cos returns the cosine of x in radians, as accurate as Sin.
func Cos[T kompute.Float](s *kompute.Stream, x *kompute.Tensor[T]) *kompute.Tensor[T] {
	return unary[T](s, opdef.UnaryCos, x)
}

// Tanh returns the hyperbolic tangent.
func Tanh[T kompute.Float](s *kompute.Stream, x *kompute.Tensor[T]) *kompute.Tensor[T] {
	return unary[T](s, opdef.UnaryTanh, x)
}

// Sigmoid returns 1 / (1 + e^-x).
func Sigmoid[T kompute.Float](s *kompute.Stream, x *kompute.Tensor[T]) *kompute.Tensor[T] {
	return unary[T](s, opdef.UnarySigmoid, x)
}

// SiLU returns x * sigmoid(x), also called swish (Elfwing et al., 2017). For
// -Inf it is NaN, as in MLX.
func SiLU[T kompute.Float](s *kompute.Stream, x *kompute.Tensor[T]) *kompute.Tensor[T] {
	return unary[T](s, opdef.UnarySiLU, x)
}

// GELU returns x/2 * (1 + erf(x/√2)), the exact form (Hendrycks and Gimpel,
// 2016), not the one with tanh. For -Inf it is NaN, as in MLX.
func GELU[T kompute.Float](s *kompute.Stream, x *kompute.Tensor[T]) *kompute.Tensor[T] {
	return unary[T](s, opdef.UnaryGELU, x)
}

// Erf returns the error function.
func Erf[T kompute.Float](s *kompute.Stream, x *kompute.Tensor[T]) *kompute.Tensor[T] {
	return unary[T](s, opdef.UnaryErf, x)
}

// Floor rounds down to whole numbers. Integers are unchanged.
func Floor[T Arithmetic](s *kompute.Stream, x *kompute.Tensor[T]) *kompute.Tensor[T] {
	return unary[T](s, opdef.UnaryFloor, x)
}

// Ceil rounds up to whole numbers. Integers are unchanged.
func Ceil[T Arithmetic](s *kompute.Stream, x *kompute.Tensor[T]) *kompute.Tensor[T] {
	return unary[T](s, opdef.UnaryCeil, x)
}

// Round rounds to the nearest whole number, and halves to even: 0.5 gives 0,
// 1.5 gives 2. Integers are unchanged.
func Round[T Arithmetic](s *kompute.Stream, x *kompute.Tensor[T]) *kompute.Tensor[T] {
	return unary[T](s, opdef.UnaryRound, x)
}

// Not returns whether x is zero, element by element; a NaN is not zero.
func Not[T kompute.Element](s *kompute.Stream, x *kompute.Tensor[T]) *kompute.Tensor[bool] {
	return unary[bool](s, opdef.UnaryNot, x)
}
