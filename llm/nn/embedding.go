package nn

import (
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/ops"
)

// Embedding is a table with one row of H elements per token, dense or quantized.
type Embedding[T kompute.Float] interface {
	// Forward maps token numbers [...] to rows [..., H].
	Forward(s *kompute.Stream, tokens *kompute.Tensor[uint32]) *kompute.Tensor[T]
	// Tied returns the projection from H to V that shares the table.
	Tied() Linear[T]
}

// DenseEmbedding is a table in the type of the activations.
type DenseEmbedding[T kompute.Float] struct{ Dense[T] }

// Forward implements [Embedding].
func (e *DenseEmbedding[T]) Forward(s *kompute.Stream, tokens *kompute.Tensor[uint32]) *kompute.Tensor[T] {
	return ops.Gather(s, e.Weight, tokens, 0)
}

// Tied implements [Embedding].
func (e *DenseEmbedding[T]) Tied() Linear[T] { return &e.Dense }

// QuantizedEmbedding is a table in one of MLX's quantizations.
type QuantizedEmbedding[T kompute.Float, S ops.Scale] struct{ Quantized[T, S] }

// Forward implements [Embedding].
func (e *QuantizedEmbedding[T, S]) Forward(s *kompute.Stream, tokens *kompute.Tensor[uint32]) *kompute.Tensor[T] {
	return ops.QuantizedGather[T](s, e.Weight, e.Scales, e.Biases, tokens, e.Packing)
}

// Tied implements [Embedding].
func (e *QuantizedEmbedding[T, S]) Tied() Linear[T] { return &e.Quantized }
