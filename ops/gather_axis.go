package ops

import (
	"slices"

	"github.com/kompute-go/kompute-go/fallback"
	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/opdef"
	"github.com/kompute-go/kompute-go/kompute"
)

var gatherAxisCPU = onCPU(func(a []array.Array, p *opdef.GatherAxisParams) error {
	return fallback.GatherAxis(at(a, opdef.GatherAxis.X), at(a, opdef.GatherAxis.Indices), at(a, opdef.GatherAxis.Out), int(p.Axis))
})

// TakeAlongAxis picks elements along one axis of x (negative counts from the
// end), as MLX's and NumPy's take_along_axis: the result is
//
//	out[…, i, …] = x[…, indices[…, i, …], …]
//
// x and indices have the same rank, and their other axes broadcast against each
// other: for x [B, V] and indices [B, 3], axis 1, the result is [B, 3]. Indices
// are as for Gather: a negative one counts from the end, and one outside the
// axis gives zero.
//
// # Errors
//
// ErrShape if there is no such axis, ranks differ or shapes do not broadcast.
func TakeAlongAxis[T kompute.Element, I Index](s *kompute.Stream, x *kompute.Tensor[T], indices *kompute.Tensor[I], axis int) *kompute.Tensor[T] {
	c := newCall(s, opdef.GatherAxis.Op)
	l := input(c, opdef.GatherAxis.X, x)
	il := input(c, opdef.GatherAxis.Indices, indices)
	axis, shape := c.along(l, il, axis)
	if c.err != nil {
		return kompute.Failed[T](s, c.err)
	}
	picked := slices.Clone(shape)
	picked[axis] = il.Shape[axis]
	c.stretch(opdef.GatherAxis.Indices, picked)
	wide := slices.Clone(shape)
	wide[axis] = l.Shape[axis]
	c.stretch(opdef.GatherAxis.X, wide)
	return result[T](c, picked, opdef.GatherAxisParams{Axis: uint32(axis)}, gatherAxisCPU)
}

// along resolves the op's axis and returns the common shape of x and indices,
// whose length along that axis is not meaningful.
func (c *call) along(x, indices array.Layout, axis int) (int, []int) {
	axis = c.axis(x, axis)
	if !c.rank("indices", indices, x.Rank()) {
		return 0, nil
	}
	a, b := slices.Clone(x.Shape), slices.Clone(indices.Shape)
	a[axis], b[axis] = 1, 1
	shape, err := array.BroadcastShapes(a, b)
	if err != nil {
		c.fail(kompute.ErrShape, "shapes %v and %v do not broadcast outside axis %d", x.Shape, indices.Shape, axis)
		return 0, nil
	}
	return axis, shape
}
