package nn

import (
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/ops"
)

// GatedMLP is the feed-forward network down(SiLU(gate(x)) · up(x)), SwiGLU in
// Shazeer (2020).
type GatedMLP[T kompute.Float] struct {
	Gate, Up, Down Linear[T]
	GateUp         Linear[T] // both at once, one after the other; nil: they have no matrix in common
}

// Forward maps [1, T, H] to [1, T, H].
func (m *GatedMLP[T]) Forward(s *kompute.Stream, x *kompute.Tensor[T]) *kompute.Tensor[T] {
	if m.GateUp != nil && x.Dim(1) >= jointRows {
		both := m.GateUp.Forward(s, x)
		gate, up := both.Dim(2)/2, both.Dim(2)
		return m.Down.Forward(s, ops.SiLUMul(s, both.Slice(2, 0, gate), both.Slice(2, gate, up)))
	}
	return m.Down.Forward(s, ops.SiLUMul(s, m.Gate.Forward(s, x), m.Up.Forward(s, x)))
}
