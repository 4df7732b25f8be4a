package ops

import (
	"math"

	"github.com/kompute-go/kompute-go/fallback"
	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/opdef"
	"github.com/kompute-go/kompute-go/kompute"
)

var ropeCPU = onCPU(func(a []array.Array, p *opdef.RoPEParams) error {
	return fallback.RoPE(at(a, opdef.RoPE.X), at(a, opdef.RoPE.Offset), at(a, opdef.RoPE.Freqs), at(a, opdef.RoPE.Out), fallback.RoPEParams{
		Dims: int(p.Dims), Traditional: p.Traditional != 0, Base: p.Base, Scale: p.Scale, Offset: int(p.Offset),
	})
})

// RoPEParams selects the form of rotary position embedding. The zero value is
// the usual one: all of the head, half-split, base 10,000, scale 1.
type RoPEParams struct {
	// Dims is the number of leading elements of a head's D that are rotated;
	// the others are copied. It must be even; 0 means all of D.
	Dims int
	// Traditional pairs neighbours, elements 2i and 2i+1, as the paper does;
	// otherwise pairs are i and i + Dims/2.
	Traditional bool
	// Base is θ of the angles; 0 means 10,000. It excludes Freqs.
	Base float32
	// Scale multiplies positions; 0 means 1.
	Scale float32
	// Freqs [Dims/2] gives the wavelengths of the pairs, as positions per
	// radian, instead of Base^(2i/Dims). May be nil.
	Freqs *kompute.Tensor[float32]
}

// RoPE rotates the pairs of x [B, H, T, D] by angles that grow with the position
// (Su et al., 2021), and returns the same shape. Pair i at step t of the
// sequence is turned by
//
//	(offset + t) * Scale * Base^(-2i/Dims), or (offset + t) * Scale / Freqs[i]
//
// so that (a, b) becomes (a·cos - b·sin, a·sin + b·cos). x is often a transposed
// view of [B, T, H, D]; the result is contiguous [B, H, T, D].
//
// offset is At(n) for the whole batch, or AtDevice of an int32 tensor of shape
// [], [1] or [B]. During decoding it is the number of earlier tokens.
//
// # Errors
//
// ErrShape if x does not have four axes, Freqs does not have Dims/2 elements,
// or a device offset has another shape; ErrInvalid if Dims is odd, negative or
// greater than D, Base or Scale is negative or not finite, Base and Freqs are
// both given, or a host offset or the last position from it on does not fit 32 bits.
func RoPE[T kompute.Float](s *kompute.Stream, x *kompute.Tensor[T], p RoPEParams, offset Position) *kompute.Tensor[T] {
	c := newCall(s, opdef.RoPE.Op)
	l := input(c, opdef.RoPE.X, x)
	if !c.rank("x", l, 4) {
		return kompute.Failed[T](s, c.err)
	}
	p = p.resolve(c, l.Dim(3))
	if offset.set {
		c.ropeOffset(offset.device, l.Dim(0))
	} else if offset.host < math.MinInt32 || offset.host > math.MaxInt32-max(l.Dim(2)-1, 0) {
		c.fail(kompute.ErrInvalid, "%d steps from the offset %d on do not fit 32 bits", l.Dim(2), offset.host)
	}
	optionalRow(c, opdef.RoPE.Freqs.Called("Freqs"), p.Freqs, p.Dims/2)
	params := opdef.RoPEParams{
		Dims: uint32(p.Dims), Traditional: toUint32(p.Traditional),
		Base: p.Base, Scale: p.Scale, Offset: int32(offset.host),
	}
	return result[T](c, l.Shape, params, ropeCPU)
}

// resolve checks the parameters for heads of d elements and fills in defaults.
func (p RoPEParams) resolve(c *call, d int) RoPEParams {
	if p.Dims == 0 {
		p.Dims = d
	}
	if p.Dims < 0 || p.Dims > d || p.Dims%2 != 0 {
		c.fail(kompute.ErrInvalid, "%d rotated elements of heads of %d", p.Dims, d)
	}
	if p.Base != 0 && p.Freqs != nil {
		c.fail(kompute.ErrInvalid, "Base and Freqs are both given")
	}
	if p.Base == 0 {
		p.Base = 10000
	}
	if p.Scale == 0 {
		p.Scale = 1
	}
	if !(p.Base > 0 && p.Base <= math.MaxFloat32) || !(p.Scale > 0 && p.Scale <= math.MaxFloat32) {
		c.fail(kompute.ErrInvalid, "base %v, scale %v", p.Base, p.Scale)
	}
	return p
}

// ropeOffset appends a device offset of a batch of b, as [1] or [b].
func (c *call) ropeOffset(t *kompute.Tensor[int32], b int) {
	l := input(c, opdef.RoPE.Offset.Called("the offset"), t)
	switch {
	case c.err != nil:
	case l.Rank() == 0:
		l, _ = l.ExpandDims(0)
		c.relayout(opdef.RoPE.Offset, l)
	case l.Rank() != 1 || l.Dim(0) != 1 && l.Dim(0) != b:
		c.fail(kompute.ErrShape, "the offset has shape %v, not [], [1] or [%d]", l.Shape, b)
	}
}
