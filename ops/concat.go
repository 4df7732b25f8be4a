package ops

import (
	"slices"

	"github.com/kompute-go/kompute-go/fallback"
	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/opdef"
	"github.com/kompute-go/kompute-go/kompute"
)

var concatCPU = onCPU(func(a []array.Array, p *opdef.ConcatParams) error {
	return fallback.Concat(a[:len(a)-1], a[len(a)-1], int(p.Axis))
})

// newConcat begins a call with n operands before the result.
func newConcat(s *kompute.Stream, n int) *call {
	c := newCall(s, opdef.Concat.Op)
	c.makeArgs(n + 1)
	return c
}

// concatX is the i-th of these operands.
func concatX(i int) opdef.Operand {
	o := opdef.Concat.X
	o.Index = i
	return o
}

// Concat joins tensors along one axis (negative counts from the end), in order:
// [2, 3], [2, 1] and [2, 5] along axis 1 give [2, 9].
//
// # Errors
//
// ErrShape if there is no such axis, or shapes differ along another one;
// ErrInvalid if there are no tensors.
func Concat[T kompute.Element](s *kompute.Stream, axis int, xs ...*kompute.Tensor[T]) *kompute.Tensor[T] {
	c := newConcat(s, len(xs))
	if len(xs) == 0 {
		c.fail(kompute.ErrInvalid, "there are no tensors")
	}
	var shape []int
	for i, x := range xs {
		l := input(c, concatX(i), x)
		if c.err != nil {
			break
		}
		if i > 0 {
			shape[axis] = c.sum(shape[axis], c.follows(shape, l.Shape, axis))
			continue
		}
		if axis = c.axis(l, axis); c.err != nil {
			break
		}
		shape = slices.Clone(l.Shape)
	}
	params := opdef.ConcatParams{Axis: uint32(axis)}
	return result[T](c, shape, params, concatCPU)
}

// follows checks that a tensor can be joined to others of the given shape, and
// returns its length along the axis.
func (c *call) follows(shape, next []int, axis int) int {
	ok := len(next) == len(shape)
	for i := 0; ok && i < len(next); i++ {
		ok = i == axis || next[i] == shape[i]
	}
	if !ok {
		c.fail(kompute.ErrShape, "shape %v does not continue %v along axis %d", next, shape, axis)
		return 0
	}
	return next[axis]
}

// Stack joins tensors of one shape along a new axis, before axis (negative counts
// from the end of the result): two of [3] along axis 0 give [2, 3], and along 1
// [3, 2]. Errors are those of Concat.
func Stack[T kompute.Element](s *kompute.Stream, axis int, xs ...*kompute.Tensor[T]) *kompute.Tensor[T] {
	c := newConcat(s, len(xs))
	c.named("stack")
	if len(xs) == 0 {
		c.fail(kompute.ErrInvalid, "there are no tensors")
	}
	var first, shape []int
	for i, x := range xs {
		l := input(c, concatX(i), x)
		if c.err != nil {
			break
		}
		if i == 0 {
			first = l.Shape
		}
		c.shape("x", l, first...)
		wide, err := l.ExpandDims(axis)
		if err != nil {
			c.fail(kompute.ErrShape, "%v", err)
			break
		}
		c.relayout(concatX(i), wide)
		shape = slices.Clone(wide.Shape)
	}
	if axis < 0 {
		axis += len(shape)
	}
	if c.err == nil {
		shape[axis] = len(xs)
	}
	params := opdef.ConcatParams{Axis: uint32(axis)}
	return result[T](c, shape, params, concatCPU)
}
