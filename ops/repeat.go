package ops

import (
	"math"
	"slices"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/opdef"
	"github.com/kompute-go/kompute-go/kompute"
)

// Repeat repeats each entry along one axis (negative counts from the end) n
// times, as MLX's and NumPy's repeat: [a, b] and 2 give [a, a, b, b]. A
// broadcast view, where an op can use one instead, takes no work.
//
// # Errors
//
// ErrShape if there is no such axis; ErrInvalid if n is negative; ErrTooLarge.
func Repeat[T kompute.Element](s *kompute.Stream, x *kompute.Tensor[T], n, axis int) *kompute.Tensor[T] {
	c := newCall(s, opdef.Copy.Op)
	c.named("repeat")
	l := input(c, opdef.Copy.X, x)
	axis = c.axis(l, axis)
	if c.err != nil {
		return kompute.Failed[T](s, c.err)
	}
	reps := slices.Repeat([]int{1}, l.Rank())
	reps[axis] = n
	return repeat[T](c, l, reps, true)
}

// Tile repeats all of x along each axis, as MLX's and NumPy's tile: [a, b] and
// 2 give [a, b, a, b]. If there are fewer numbers than axes, they apply to the
// last axes; if there are more, x gets leading axes of length 1.
//
// # Errors
//
// ErrShape if the result would have more than 8 axes; ErrInvalid if a number is
// negative; ErrTooLarge.
func Tile[T kompute.Element](s *kompute.Stream, x *kompute.Tensor[T], reps ...int) *kompute.Tensor[T] {
	c := newCall(s, opdef.Copy.Op)
	c.named("tile")
	l := input(c, opdef.Copy.X, x)
	if len(reps) > array.MaxRank {
		c.fail(kompute.ErrShape, "the result would have rank %d, more than %d", len(reps), array.MaxRank)
	}
	for c.err == nil && l.Rank() < len(reps) {
		l, _ = l.ExpandDims(0)
	}
	if c.err != nil {
		return kompute.Failed[T](s, c.err)
	}
	ones := slices.Repeat([]int{1}, l.Rank()-len(reps))
	return repeat[T](c, l, slices.Concat(ones, reps), false)
}

// repeat copies x, a view of the first array, with the entries of each axis
// (inner) or each whole axis repeated. If 8 axes suffice, this is one copy
// between views with an extra axis for each repeated one.
func repeat[T kompute.Element](c *call, x array.Layout, reps []int, inner bool) *kompute.Tensor[T] {
	shape, extra := slices.Clone(x.Shape), 0
	for i, n := range reps {
		if n < 0 {
			c.fail(kompute.ErrInvalid, "%d times along axis %d", n, i)
		}
		if n > 0 && shape[i] > math.MaxInt/n {
			c.fail(kompute.ErrTooLarge, "axis %d of %v %d times", i, x.Shape, n)
		}
		shape[i] *= n
		if n != 1 {
			extra++
		}
	}
	if c.err == nil && x.Rank()+extra > array.MaxRank {
		return repeatInTurn[T](c, x, reps, inner)
	}
	if c.err != nil {
		return kompute.Failed[T](c.stream, c.err)
	}
	from := repeated(x, reps, inner)
	c.relayout(opdef.Copy.X, from)
	return resultAs[T](c, shape, from.Shape, opdef.CopyParams{}, copyCPU)
}

// repeated returns a view of x with an extra axis for each repetition.
func repeated(x array.Layout, reps []int, inner bool) array.Layout {
	out := array.Layout{Offset: x.Offset}
	for i, n := range x.Shape {
		shape, strides := []int{reps[i], n}, []int{0, x.Strides[i]}
		switch {
		case reps[i] == 1:
			shape, strides = shape[1:], strides[1:]
		case inner:
			slices.Reverse(shape)
			slices.Reverse(strides)
		}
		out.Shape, out.Strides = append(out.Shape, shape...), append(out.Strides, strides...)
	}
	return out
}

// repeatInTurn repeats axis by axis, last first, with copies of shape [pre, n,
// post].
func repeatInTurn[T kompute.Element](c *call, x array.Layout, reps []int, inner bool) *kompute.Tensor[T] {
	s, op, label := c.stream, c.op, c.label // c ends with its first copy
	once := slices.Repeat([]int{1}, x.Rank())
	out := repeat[T](c, x, once, inner) // a copy, which can be reshaped
	shape := slices.Clone(x.Shape)
	for axis := x.Rank() - 1; axis >= 0; axis-- {
		if reps[axis] == 1 || out.Err() != nil {
			continue
		}
		pre, post := 1, 1
		for i, n := range shape {
			if i < axis {
				pre *= n
			} else if i > axis {
				post *= n
			}
		}
		step := newCall(s, op)
		step.named(label)
		l, err := input(step, opdef.Copy.X, out).Reshape(pre, shape[axis], post)
		if err != nil {
			step.fail(kompute.ErrShape, "%v", err)
			return kompute.Failed[T](s, step.err)
		}
		next := repeat[T](step, l, []int{1, reps[axis], 1}, inner)
		_ = out.Close() // its work is enqueued and keeps it
		shape[axis] *= reps[axis]
		out = next
	}
	if out.Err() != nil {
		return out
	}
	view := out.Reshape(shape...)
	_ = out.Close()
	return view
}
