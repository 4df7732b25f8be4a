package ops

import (
	"slices"

	"github.com/kompute-go/kompute-go/fallback"
	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/opdef"
	"github.com/kompute-go/kompute-go/kompute"
)

var scatterCPU = onCPU(func(a []array.Array, p *opdef.ScatterParams) error {
	run := fallback.Scatter
	if p.Along != 0 {
		run = fallback.PutAlongAxis
	}
	return run(at(a, opdef.Scatter.X), at(a, opdef.Scatter.Indices), at(a, opdef.Scatter.Updates), at(a, opdef.Scatter.Out), int(p.Axis), ScatterMode(p.Mode))
})

// ScatterMode selects how an update is combined with the existing element.
type ScatterMode = opdef.ScatterMode

// The modes of Scatter and PutAlongAxis. If several updates go to one place,
// ScatterSet keeps the last of them, by its index; the other modes combine all
// of them with the existing element. Min and Max propagate NaN.
const (
	ScatterSet = opdef.ScatterSet
	ScatterAdd = opdef.ScatterAdd
	ScatterMul = opdef.ScatterMul
	ScatterMin = opdef.ScatterMin
	ScatterMax = opdef.ScatterMax
)

// Scatter returns a copy of x in which updates are put at places along one axis
// (negative counts from the end), as MLX's x.at[indices].add(updates) and its
// variants. It is the inverse of Gather: x is [pre…, V, post…], axis is that of
// V, indices have any shape, and updates broadcast to [pre…, indices…, post…]:
//
//	out[pre, indices[i], post] = out[pre, indices[i], post] + updates[pre, i, post]
//
// Floats are combined in float32 and rounded once; integers wrap around, and
// bools are combined as 0 and 1, and any nonzero result is true. A negative
// index counts from the end; an index outside -V ≤ i < V has no effect. (MLX
// leaves that undefined.)
//
// Results do not depend on the order in which threads run. The updates of a
// place are combined in the order of their indices by one thread or, if places
// are few and updates many, by a team of threads that add up their shares in a
// fixed tree. (MLX uses atomics, and does not define which of several set
// updates is kept.)
//
// # Errors
//
// ErrShape if there is no such axis, or updates do not broadcast; ErrInvalid for
// an unknown mode.
func Scatter[T kompute.Element, I Index](s *kompute.Stream, x *kompute.Tensor[T], indices *kompute.Tensor[I], updates *kompute.Tensor[T], axis int, mode ScatterMode) *kompute.Tensor[T] {
	c := newCall(s, opdef.Scatter.Op)
	l := input(c, opdef.Scatter.X, x)
	il := input(c, opdef.Scatter.Indices, indices)
	input(c, opdef.Scatter.Updates, updates)
	c.mode(mode)
	axis = c.axis(l, axis)
	if c.err != nil {
		return kompute.Failed[T](s, c.err)
	}
	shape := slices.Concat(l.Shape[:axis], il.Shape, l.Shape[axis+1:])
	if len(shape) > array.MaxRank {
		c.fail(kompute.ErrShape, "updates would have rank %d, more than %d", len(shape), array.MaxRank)
	}
	return scatter[T](c, l.Shape, shape, opdef.ScatterParams{Axis: uint32(axis), Mode: mode})
}

// PutAlongAxis returns a copy of x in which values are put along one axis
// (negative counts from the end), as MLX's and NumPy's put_along_axis:
//
//	out[…, indices[…, i, …], …] = values[…, i, …]
//
// indices have x's rank, and their other axes broadcast to x's shape; values
// broadcast to the resulting shape of indices. Modes, indices and the order of
// sums are those of Scatter.
//
// # Errors
//
// ErrShape if there is no such axis, ranks differ or shapes do not broadcast;
// ErrInvalid for an unknown mode.
func PutAlongAxis[T kompute.Element, I Index](s *kompute.Stream, x *kompute.Tensor[T], indices *kompute.Tensor[I], values *kompute.Tensor[T], axis int, mode ScatterMode) *kompute.Tensor[T] {
	c := newCall(s, opdef.Scatter.Op)
	c.named("put_along_axis")
	l := input(c, opdef.Scatter.X, x)
	il := input(c, opdef.Scatter.Indices, indices)
	input(c, opdef.Scatter.Updates.Called("values"), values)
	c.mode(mode)
	axis, _ = c.along(l, il, axis)
	if c.err != nil {
		return kompute.Failed[T](s, c.err)
	}
	shape := slices.Clone(l.Shape)
	shape[axis] = il.Shape[axis]
	c.stretch(opdef.Scatter.Indices, shape)
	return scatter[T](c, l.Shape, shape, opdef.ScatterParams{Axis: uint32(axis), Mode: mode, Along: 1})
}

func (c *call) mode(mode ScatterMode) {
	if mode >= opdef.NumScatterModes {
		c.fail(kompute.ErrInvalid, "there is no scatter mode %d", mode)
	}
}

// scatter completes either op after broadcasting updates, the third array.
func scatter[T kompute.Element](c *call, shape, updates []int, params opdef.ScatterParams) *kompute.Tensor[T] {
	if c.err == nil && !countable(updates) {
		c.fail(kompute.ErrTooLarge, "updates of shape %v have more than %d elements", updates, uint32(maxElements))
	}
	c.stretch(opdef.Scatter.Updates, updates)
	return result[T](c, shape, params, scatterCPU)
}
