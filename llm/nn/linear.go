package nn

import (
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/ops"
)

// Linear is a projection x·Wᵀ + b of the last axis, with W dense or quantized.
type Linear[T kompute.Float] interface {
	// Forward maps [..., in] to [..., out].
	Forward(s *kompute.Stream, x *kompute.Tensor[T]) *kompute.Tensor[T]
}

// Dense is a projection whose matrix has the type of the activations.
type Dense[T kompute.Float] struct {
	Weight     *kompute.Tensor[T] // [out, in]
	Transposed *kompute.Tensor[T] // a view of Weight, [in, out]
}

// Forward implements [Linear].
func (l *Dense[T]) Forward(s *kompute.Stream, x *kompute.Tensor[T]) *kompute.Tensor[T] {
	return ops.MatMul(s, x, l.Transposed)
}

// Quantized is a projection whose matrix has one of MLX's quantizations, with scales
// and biases of type S.
type Quantized[T kompute.Float, S ops.Scale] struct {
	Weight  *kompute.Tensor[uint32] // [out, in*bits/32]
	Scales  *kompute.Tensor[S]      // [out, in/group size]
	Biases  *kompute.Tensor[S]      // as Scales; nil in the modes without
	Packing ops.Quantization
}

// Forward implements [Linear].
func (l *Quantized[T, S]) Forward(s *kompute.Stream, x *kompute.Tensor[T]) *kompute.Tensor[T] {
	return ops.QuantizedMatMul(s, x, l.Weight, l.Scales, l.Biases, l.Packing, ops.Transposed)
}

// Biased adds a vector to the result of another projection.
type Biased[T kompute.Float] struct {
	Linear[T]
	Bias *kompute.Tensor[T] // [out]
}

// Forward implements [Linear].
func (l *Biased[T]) Forward(s *kompute.Stream, x *kompute.Tensor[T]) *kompute.Tensor[T] {
	return ops.Add(s, l.Linear.Forward(s, x), l.Bias)
}
