package nn

import (
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/ops"
)

// GatedMLP is the feed-forward network down(SiLU(gate(x)) · up(x)), SwiGLU in
// Shazeer (2020).
type GatedMLP[T kompute.Float] struct {
	Gate, Up, Down Linear[T]
}

// Forward maps [1, T, H] to [1, T, H].
func (m *GatedMLP[T]) Forward(s *kompute.Stream, x *kompute.Tensor[T]) *kompute.Tensor[T] {
	return m.Down.Forward(s, ops.SiLUMul(s, m.Gate.Forward(s, x), m.Up.Forward(s, x)))
}
