package nn

import (
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/ops"
)

// RoPE is rotary position embedding (Su et al., 2021).
type RoPE[T kompute.Float] struct {
	Dims int // how many leading elements of a head are rotated
	// Traditional rotates neighbours, elements 2i and 2i+1, as the paper does; else pairs
	// are i and i + Dims/2.
	Traditional bool
	// Base is θ: pair i rotates by θ^(-2i/Dims) radians per position. 0 if Wavelengths
	// are given.
	Base float32
	// Wavelengths [Dims/2] are positions per radian, one for each pair, for models
	// that scale them; or nil.
	Wavelengths *kompute.Tensor[float32]
}

// Forward rotates the heads x [B, heads, T, D] by their positions, which begin at
// first, and keeps the shape.
func (r *RoPE[T]) Forward(s *kompute.Stream, x *kompute.Tensor[T], first ops.Position) *kompute.Tensor[T] {
	return ops.RoPE(s, x, ops.RoPEParams{Dims: r.Dims, Traditional: r.Traditional, Base: r.Base, Freqs: r.Wavelengths}, first)
}
