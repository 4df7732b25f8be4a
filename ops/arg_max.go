package ops

import (
	"slices"

	"github.com/kompute-go/kompute-go/array"
	"github.com/kompute-go/kompute-go/fallback"
	"github.com/kompute-go/kompute-go/kompute"
)

func argMaxCPU(a []array.Array) error { return fallback.ArgMax(a[0], a[1]) }

// ArgMax returns where x is largest along one axis (negative counts from the
// end), as an index; the result has x's shape without that axis. Of equal
// elements the first counts, and a NaN is larger than any number. Of
// x [2, 3] = [[1, 5, 5], [7, 0, 2]] along axis -1 it is [1, 0], and along
// axis 0 [1, 0, 0].
//
// # Errors
//
// ErrShape if there is no such axis, or it has no elements while the result
// would have some.
func ArgMax[T kompute.Number](s *kompute.Stream, x *kompute.Tensor[T], axis int) *kompute.Tensor[uint32] {
	c := newCall(s, "arg_max")
	l := input(&c, "x", x)
	if c.err != nil {
		return kompute.Failed[uint32](s, c.err)
	}
	axis, err := l.Axis(axis)
	if err != nil {
		c.fail(kompute.ErrShape, "%v", err)
		return kompute.Failed[uint32](s, c.err)
	}
	n := l.Shape[axis]
	if axis != l.Rank()-1 {
		l = array.Layout{
			Shape:   append(slices.Delete(slices.Clone(l.Shape), axis, axis+1), n),
			Strides: append(slices.Delete(slices.Clone(l.Strides), axis, axis+1), l.Strides[axis]),
			Offset:  l.Offset,
		}
		c.relayout(0, l)
	}
	shape := l.Shape[:l.Rank()-1]
	if n == 0 && !slices.Contains(shape, 0) {
		c.fail(kompute.ErrShape, "axis %d has no elements", axis)
	}
	return result[uint32](&c, shape, argMaxOp{}, argMaxCPU)
}
