package ops

import (
	"github.com/kompute-go/kompute-go/fallback"
	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/opdef"
	"github.com/kompute-go/kompute-go/kompute"
)

var sliceCPU = onCPU(func(a []array.Array, p *opdef.SliceParams) error {
	return fallback.Slice(at(a, opdef.Slice.X), at(a, opdef.Slice.Start), at(a, opdef.Slice.Out), ints(p.Start))
})

// Slice returns a copy of the part of x that has the given shape, of x's rank,
// and begins at start. (If the host knows the start, Tensor.Slice returns a
// view without any work.) start is one of
//
//   - nothing: the first element,
//   - one At per axis,
//   - one AtDevice of an int32 tensor [rank]. It is known only when the op runs,
//     so each number of it is clamped so that the part fits, as in XLA. (MLX
//     leaves that undefined.)
//
// For example, row t of a table [capacity, D], where at holds [t, 0] on the
// device:
//
//	row := ops.Slice(s, table, []int{1, d}, ops.AtDevice(at))
//
// # Errors
//
// ErrShape if shape has another rank than x, is larger or negative, or the
// number of starts is neither 0, 1 nor rank; ErrInvalid if At places a part of
// it outside x.
func Slice[T kompute.Element](s *kompute.Stream, x *kompute.Tensor[T], shape []int, start ...Position) *kompute.Tensor[T] {
	c := newCall(s, opdef.Slice.Op)
	l := input(c, opdef.Slice.X, x)
	c.within(l, shape)
	params := opdef.SliceParams{Start: c.starts(opdef.Slice.Start, l, array.Layout{Shape: shape}, start)}
	return result[T](c, shape, params, sliceCPU)
}

// within checks that a part of x can have that shape.
func (c *call) within(x array.Layout, shape []int) {
	if c.err != nil {
		return
	}
	if len(shape) != x.Rank() {
		c.fail(kompute.ErrShape, "a part of shape %v for rank %d", shape, x.Rank())
		return
	}
	for i, n := range shape {
		if n < 0 || n > x.Shape[i] {
			c.fail(kompute.ErrShape, "the part has %d elements along axis %d, x %d", n, i, x.Shape[i])
			return
		}
	}
}
