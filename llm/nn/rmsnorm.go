package nn

import (
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/ops"
)

// RMSNorm is x / sqrt(mean(x²) + eps) · weight over the last axis (Zhang and
// Sennrich, 2019).
type RMSNorm[T kompute.Float] struct {
	Weight *kompute.Tensor[T] // as long as the last axis
	Eps    float32
}

// Forward keeps the shape of x. The nil norm returns x itself.
func (n *RMSNorm[T]) Forward(s *kompute.Stream, x *kompute.Tensor[T]) *kompute.Tensor[T] {
	if n == nil {
		return x
	}
	return ops.RMSNorm(s, x, n.Weight, n.Eps)
}
