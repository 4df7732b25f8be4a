package ops

import (
	"math"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/kompute"
)

// Scalar returns v as a tensor of rank 0, which broadcasts against any shape:
//
//	half := ops.Mul(s, x, ops.Scalar(s, float32(0.5)))
//
// It belongs to the innermost open scope of the stream, as a result does.
func Scalar[T kompute.Element](s *kompute.Stream, v T) *kompute.Tensor[T] {
	if s == nil {
		return kompute.Failed[T](s, &kompute.OpError{Op: "scalar", Reason: "the stream is nil", Err: kompute.ErrInvalid})
	}
	return kompute.Constant(s, []T{v})
}

// ScalarLike is Scalar for generic code: v converted to the element type of
// like, rounded to nearest even for floats, and truncated toward zero and
// clamped to the type's range for integers (NaN gives 0).
func ScalarLike[T kompute.Number](s *kompute.Stream, like *kompute.Tensor[T], v float64) *kompute.Tensor[T] {
	var x any
	switch array.DTypeOf[T]() {
	case array.Float32:
		x = float32(v)
	case array.Float16:
		x = array.F16FromFloat32(roundToOdd(v))
	case array.BFloat16:
		x = array.BF16FromFloat32(roundToOdd(v))
	case array.Int32:
		x = int32(clamp(v, math.MinInt32, math.MaxInt32))
	default:
		x = uint32(clamp(v, 0, math.MaxUint32))
	}
	return Scalar(s, x.(T))
}

// roundToOdd returns v or, where it is no float32, the one of its two neighbours whose last
// bit is 1. Rounded again, to 16 bits, that is what v itself is rounded to, while the
// nearest float32 may lie halfway between two numbers that v is not halfway between.
func roundToOdd(v float64) float32 {
	near := float32(v)
	if v != v || float64(near) == v {
		return near
	}
	bits := math.Float32bits(near)
	if math.Abs(float64(near)) > math.Abs(v) {
		bits-- // toward zero
	}
	return math.Float32frombits(bits | 1)
}

func clamp(v, lo, hi float64) float64 {
	if v != v {
		return 0
	}
	return min(max(v, lo), hi)
}
