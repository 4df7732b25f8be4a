package ops

import (
	"slices"

	"github.com/kompute-go/kompute-go/fallback"
	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/opdef"
	"github.com/kompute-go/kompute-go/kompute"
)

// reduceCPU holds the CPU function of each kind.
var reduceCPU = func() (cpu [opdef.NumReduceKinds]cpuFunc) {
	for kind := range cpu {
		cpu[kind] = func(a []array.Array, _ []byte) error {
			return fallback.Reduce(opdef.ReduceKind(kind), at(a, opdef.Reduce.X), at(a, opdef.Reduce.Out))
		}
	}
	return cpu
}()

// reduction holds the options of a reduction.
type reduction struct {
	axes  []int
	named bool // whether axes were given; if not, all axes are reduced
	keep  bool
}

// ReduceOption changes the axes of a reduction or the shape of its result.
type ReduceOption func(*reduction)

// Axes restricts a reduction to the given axes; a negative one counts from the
// end. Without this option all axes are reduced; with an empty list, none.
func Axes(axes ...int) ReduceOption {
	return func(r *reduction) { r.axes, r.named = axes, true }
}

// KeepDims keeps the reduced axes in the result, with length 1, so that it
// broadcasts against the operand.
func KeepDims() ReduceOption { return func(r *reduction) { r.keep = true } }

// reduce enqueues one kind of the reduce op: T operand, R result. needs means
// that an empty set of elements has no result.
func reduce[R, T kompute.Element](s *kompute.Stream, kind opdef.ReduceKind, x *kompute.Tensor[T], needs bool, options []ReduceOption) *kompute.Tensor[R] {
	c := newCall(s, opdef.Reduce.Op)
	c.named(kind.String())
	l := input(c, opdef.Reduce.X, x)
	var r reduction
	for _, set := range options {
		if set != nil {
			set(&r)
		}
	}
	reduced := c.reducedAxes(l, r)
	if c.err != nil {
		return kompute.Failed[R](s, c.err)
	}
	ordered, kept := reduceLast(l, reduced)
	shape := kept.Shape
	if r.keep {
		shape = slices.Clone(l.Shape)
		for axis := range shape {
			if reduced[axis] {
				shape[axis] = 1
			}
		}
	}
	if needs && l.Size() == 0 && !slices.Contains(shape, 0) {
		c.fail(kompute.ErrShape, "there are no elements to reduce")
	}
	c.relayout(opdef.Reduce.X, ordered)
	return resultAs[R](c, shape, kept.Shape, opdef.ReduceParams{Kind: kind}, reduceCPU[kind])
}

// reducedAxes marks the axes to reduce.
func (c *call) reducedAxes(l array.Layout, r reduction) (reduced [array.MaxRank]bool) {
	if !r.named {
		for axis := range l.Shape {
			reduced[axis] = true
		}
	}
	for _, a := range r.axes {
		axis := c.axis(l, a)
		if c.err == nil && reduced[axis] {
			c.fail(kompute.ErrShape, "axis %d is named twice", a)
		}
		reduced[axis] = true
	}
	return reduced
}

// reduceLast returns l with the reduced axes last, and the layout of the other
// axes alone.
func reduceLast(l array.Layout, reduced [array.MaxRank]bool) (ordered, kept array.Layout) {
	ordered = array.Layout{Shape: make([]int, 0, l.Rank()), Strides: make([]int, 0, l.Rank()), Offset: l.Offset}
	for _, pass := range []bool{false, true} {
		for axis, n := range l.Shape {
			if reduced[axis] == pass {
				ordered.Shape = append(ordered.Shape, n)
				ordered.Strides = append(ordered.Strides, l.Strides[axis])
			}
		}
		if !pass {
			n := len(ordered.Shape)
			kept = array.Layout{Shape: ordered.Shape[:n:n], Strides: ordered.Strides[:n:n], Offset: l.Offset}
		}
	}
	return ordered, kept
}

// Sum adds up the elements of x along the given [Axes], or all of them to a
// tensor of rank 0; the sum of no elements is 0. The result has x's shape
// without those axes, or with length 1 there under [KeepDims]. For x [2, 3] =
// [[1, 2, 3], [4, 5, 6]] it is 21, over axis 0 [5, 7, 9], and over axis 1 with
// KeepDims [[6], [15]].
//
// Floats are added in float32, in a tree, and rounded once; integers wrap
// around. For bool and uint8 use [ReduceAs].
//
// # Errors
//
// ErrShape for an axis that x does not have, or that is given twice. This holds
// for all reductions.
func Sum[T kompute.Number](s *kompute.Stream, x *kompute.Tensor[T], options ...ReduceOption) *kompute.Tensor[T] {
	return reduce[T](s, opdef.ReduceSum, x, false, options)
}

// Mean is Sum divided by the number of elements; the mean of no elements is
// NaN. In float16 the sum may exceed the type's range: only the mean is rounded
// to it, where MLX overflows to infinity. For integers and bools use
// [ReduceAs].
func Mean[T kompute.Float](s *kompute.Stream, x *kompute.Tensor[T], options ...ReduceOption) *kompute.Tensor[T] {
	return reduce[T](s, opdef.ReduceMean, x, false, options)
}

// AMax returns the largest elements along the given [Axes], or the largest of
// all; NaN if any is NaN, and +0 is larger than -0. ([Max] compares two
// tensors.) For bool it is [Any].
//
// # Errors
//
// As for Sum, and ErrShape if there are no elements to reduce.
func AMax[T kompute.Element](s *kompute.Stream, x *kompute.Tensor[T], options ...ReduceOption) *kompute.Tensor[T] {
	return reduce[T](s, opdef.ReduceAMax, x, true, options)
}

// AMin returns the smallest elements, as AMax does the largest; NaN if any is
// NaN, and -0 is smaller than +0.
func AMin[T kompute.Element](s *kompute.Stream, x *kompute.Tensor[T], options ...ReduceOption) *kompute.Tensor[T] {
	return reduce[T](s, opdef.ReduceAMin, x, true, options)
}

// Prod multiplies the elements along the given [Axes], or all of them; the
// product of no elements is 1. Floats are multiplied in float32, in a tree, so
// whether an intermediate product overflows depends on the order; integers wrap
// around. For bool and uint8 use [ReduceAs]. Errors are those of Sum.
func Prod[T kompute.Number](s *kompute.Stream, x *kompute.Tensor[T], options ...ReduceOption) *kompute.Tensor[T] {
	return reduce[T](s, opdef.ReduceProd, x, false, options)
}

// All returns whether all elements along the given [Axes] are nonzero (a NaN
// is); it is true for no elements. Errors are those of Sum.
func All[T kompute.Element](s *kompute.Stream, x *kompute.Tensor[T], options ...ReduceOption) *kompute.Tensor[bool] {
	return reduce[bool](s, opdef.ReduceAll, x, false, options)
}

// Any returns whether any element along the given [Axes] is nonzero (a NaN is);
// it is false for no elements. Errors are those of Sum.
func Any[T kompute.Element](s *kompute.Stream, x *kompute.Tensor[T], options ...ReduceOption) *kompute.Tensor[bool] {
	return reduce[bool](s, opdef.ReduceAny, x, false, options)
}

// LogSumExp returns log Σ exp(x) along the given [Axes], or of all elements,
// without overflow: max + log Σ exp(x - max). A NaN gives NaN; otherwise a +Inf
// gives +Inf, and only -Infs give -Inf, as in MLX. For [0, 0] it is log 2 =
// 0.693.
//
// # Errors
//
// As for Sum, and ErrShape if there are no elements to reduce.
func LogSumExp[T kompute.Float](s *kompute.Stream, x *kompute.Tensor[T], options ...ReduceOption) *kompute.Tensor[T] {
	return reduce[T](s, opdef.ReduceLogSumExp, x, true, options)
}
