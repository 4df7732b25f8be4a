package ops

import (
	"github.com/kompute-go/kompute-go/fallback"
	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/opdef"
	"github.com/kompute-go/kompute-go/kompute"
)

var gatherCPU = onCPU(func(a []array.Array, p *opdef.GatherParams) error {
	return fallback.Gather(at(a, opdef.Gather.X), at(a, opdef.Gather.Indices), at(a, opdef.Gather.Out), int(p.Axis))
})

// Index is any element type that gather ops take as an index.
type Index interface {
	int32 | uint32
}

// Gather picks entries along one axis of x (negative counts from the end), as
// MLX's and NumPy's take: for x [pre…, V, post…], where axis is that of V, and
// indices of any shape, the result is [pre…, indices…, post…]. For an embedding
// table [V, D], axis 0 and token ids [B, T] it is [B, T, D].
//
// A negative index counts from the end: -1 is the last entry. An index outside
// -V ≤ i < V gives zeros. (MLX leaves that undefined.)
//
// # Errors
//
// ErrShape if there is no such axis, or the result would have more than 8 axes.
func Gather[T kompute.Element, I Index](s *kompute.Stream, x *kompute.Tensor[T], indices *kompute.Tensor[I], axis int) *kompute.Tensor[T] {
	c := newCall(s, opdef.Gather.Op)
	l := input(c, opdef.Gather.X, x)
	il := input(c, opdef.Gather.Indices, indices)
	axis = c.axis(l, axis)
	if c.err != nil {
		return kompute.Failed[T](s, c.err)
	}
	shape := make([]int, 0, l.Rank()+il.Rank())
	shape = append(append(append(shape, l.Shape[:axis]...), il.Shape...), l.Shape[axis+1:]...)
	return result[T](c, shape, opdef.GatherParams{Axis: uint32(axis)}, gatherCPU)
}
