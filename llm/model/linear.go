package model

import (
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/ops"
)

// Linear is a projection x·Wᵀ + b of the last axis, with any storage of W.
type Linear[T kompute.Float] interface {
	// Forward maps [..., in] to [..., out].
	Forward(s *kompute.Stream, x *kompute.Tensor[T]) *kompute.Tensor[T]
}

// Embedding is a table with one row per token, with any storage of the rows.
type Embedding[T kompute.Float] interface {
	// Forward maps token numbers [...] to rows [..., H].
	Forward(s *kompute.Stream, tokens *kompute.Tensor[uint32]) *kompute.Tensor[T]
	// Transposed returns the projection from H to the vocabulary that shares the table.
	Transposed() Linear[T]
}

// dense is a matrix in the type of the activations.
type dense[T kompute.Float] struct {
	weight     *kompute.Tensor[T] // [out, in]
	transposed *kompute.Tensor[T] // a view of it, [in, out]
}

// Forward implements [Linear].
func (l *dense[T]) Forward(s *kompute.Stream, x *kompute.Tensor[T]) *kompute.Tensor[T] {
	return ops.MatMul(s, x, l.transposed)
}

// quantized is a matrix in one of MLX's quantizations, whose scales and biases
// have a type of their own.
type quantized[T kompute.Float, S ops.Scale] struct {
	weight         *kompute.Tensor[uint32] // [out, in*bits/32]
	scales, biases *kompute.Tensor[S]      // [out, in/group size]; no biases in some modes
	packing        ops.Quantization
}

// Forward implements [Linear].
func (l *quantized[T, S]) Forward(s *kompute.Stream, x *kompute.Tensor[T]) *kompute.Tensor[T] {
	return ops.QuantizedMatMul(s, x, l.weight, l.scales, l.biases, l.packing, ops.Transposed)
}

// biased adds a vector to what another projection gives.
type biased[T kompute.Float] struct {
	Linear[T]
	bias *kompute.Tensor[T] // [out]
}

// Forward implements [Linear].
func (l *biased[T]) Forward(s *kompute.Stream, x *kompute.Tensor[T]) *kompute.Tensor[T] {
	return ops.Add(s, l.Linear.Forward(s, x), l.bias)
}

// denseEmbedding is a table in the type of the activations.
type denseEmbedding[T kompute.Float] struct{ dense[T] }

// Forward implements [Embedding].
func (e *denseEmbedding[T]) Forward(s *kompute.Stream, tokens *kompute.Tensor[uint32]) *kompute.Tensor[T] {
	return ops.Gather(s, e.weight, tokens, 0)
}

// Transposed implements [Embedding].
func (e *denseEmbedding[T]) Transposed() Linear[T] { return &e.dense }

// quantizedEmbedding is a table in one of MLX's quantizations.
type quantizedEmbedding[T kompute.Float, S ops.Scale] struct{ quantized[T, S] }

// Forward implements [Embedding].
func (e *quantizedEmbedding[T, S]) Forward(s *kompute.Stream, tokens *kompute.Tensor[uint32]) *kompute.Tensor[T] {
	return ops.QuantizedGather[T](s, e.weight, e.scales, e.biases, tokens, e.packing)
}

// Transposed implements [Embedding].
func (e *quantizedEmbedding[T, S]) Transposed() Linear[T] { return &e.quantized }
