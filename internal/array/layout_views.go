package array

import (
	"fmt"
	"slices"
)

// Reshape returns a view with the given shape, where one dimension may be -1.
// It fails where the strides would need a copy.
func (l Layout) Reshape(shape ...int) (Layout, error) { return l.ReshapeIn(nil, shape) }

// ReshapeIn is Reshape in the caller's memory, as ContiguousIn.
func (l Layout) ReshapeIn(memory, shape []int) (Layout, error) {
	out := makeLayoutIn(memory, len(shape))
	copy(out.Shape, shape)
	if err := l.inferShape(out.Shape); err != nil {
		return Layout{}, err
	}
	out, err := out.rowMajor()
	if err != nil {
		return Layout{}, err
	}
	out.Offset = l.Offset
	if l.Size() == 0 || l.IsContiguous() {
		return out, nil
	}
	if !splitStrides(l.Collapse(), out) {
		return Layout{}, fmt.Errorf("%w: shape %v with strides %v cannot be viewed as %v; copy it first",
			ErrLayout, l.Shape, l.Strides, out.Shape)
	}
	return out, nil
}

// inferShape replaces a length of -1 in shape, and checks the size.
func (l Layout) inferShape(shape []int) error {
	size, known, free := l.Size(), 1, -1
	for i, d := range shape {
		if d == -1 && free < 0 {
			free = i
			continue
		}
		if d < 0 {
			return fmt.Errorf("%w: cannot reshape %v to %v: one length may be -1, and no other negative", ErrLayout, l.Shape, shape)
		}
		var fits bool
		if known, fits = times(known, d); !fits {
			return fmt.Errorf("%w: shape %v overflows", ErrLayout, shape)
		}
	}
	if free >= 0 && known > 0 {
		shape[free] = size / known
		known *= shape[free]
	}
	if known != size || free >= 0 && shape[free] < 0 {
		if free >= 0 {
			shape[free] = -1 // as it was asked for
		}
		return fmt.Errorf("%w: cannot reshape %v (%d elements) to %v", ErrLayout, l.Shape, size, shape)
	}
	return nil
}

// splitStrides sets out's strides from the collapsed layout c, and reports whether
// every collapsed axis splits evenly into axes of out.
func splitStrides(c, out Layout) bool {
	k := len(c.Shape) - 1
	left, stride := 1, 1
	if k >= 0 {
		left, stride = c.Shape[k], c.Strides[k]
	}
	for i := len(out.Shape) - 1; i >= 0; i-- {
		d := out.Shape[i]
		if left == 1 && k > 0 && d > 1 {
			k--
			left, stride = c.Shape[k], c.Strides[k]
		}
		if d > 1 && left%d != 0 {
			return false
		}
		out.Strides[i] = stride
		stride *= d
		left /= max(d, 1)
	}
	return left == 1 && k <= 0
}

// Collapse returns the same elements in the same order with as few axes as
// possible: axes of length 1 are removed, neighbours that follow one another merged.
func (l Layout) Collapse() Layout {
	out := Layout{Offset: l.Offset}
	for i, d := range l.Shape {
		if d == 1 {
			continue
		}
		if n := len(out.Shape); n > 0 && out.Strides[n-1] == l.Strides[i]*d {
			out.Shape[n-1] *= d
			out.Strides[n-1] = l.Strides[i]
			continue
		}
		out.Shape = append(out.Shape, d)
		out.Strides = append(out.Strides, l.Strides[i])
	}
	return out
}

// Transpose permutes the axes; without arguments it reverses them.
func (l Layout) Transpose(axes ...int) (Layout, error) { return l.TransposeIn(nil, axes) }

// TransposeIn is Transpose in the caller's memory, as ContiguousIn.
func (l Layout) TransposeIn(memory, axes []int) (Layout, error) {
	n := len(l.Shape)
	if len(axes) != 0 && len(axes) != n || n > MaxRank {
		return Layout{}, l.refuse("transpose", axes)
	}
	out := makeLayoutIn(memory, n)
	out.Offset = l.Offset
	seen := [MaxRank]bool{}
	for i := range n {
		from := n - 1 - i
		if len(axes) > 0 {
			from = axes[i]
		}
		a, err := l.Axis(from)
		if err != nil || seen[a] {
			return Layout{}, l.refuse("transpose", axes)
		}
		seen[a] = true
		out.Shape[i], out.Strides[i] = l.Shape[a], l.Strides[a]
	}
	return out, nil
}

// refuse is the error of an operation with integer arguments.
func (l Layout) refuse(op string, args []int) error {
	return fmt.Errorf("%w: cannot %s %v to %v", ErrLayout, op, l.Shape, slices.Clone(args))
}

// Slice keeps the elements start, start+step, … before stop of one axis.
// 0 <= start <= stop <= the axis' length, step >= 1.
func (l Layout) Slice(axis, start, stop, step int) (Layout, error) {
	a, err := l.Axis(axis)
	if err != nil {
		return Layout{}, err
	}
	if start < 0 || stop < start || stop > l.Shape[a] || step < 1 {
		return Layout{}, fmt.Errorf("%w: cannot slice axis %d of shape %v from %d to %d by %d", ErrLayout, axis, l.Shape, start, stop, step)
	}
	out := l.clone()
	out.Shape[a] = 0
	if stop > start {
		out.Shape[a] = (stop-start-1)/step + 1
		out.Offset += start * l.Strides[a]
	}
	if out.Shape[a] > 1 { // else the step may be anything, even overflow
		out.Strides[a] *= step
	}
	return out, nil
}

func (l Layout) clone() Layout {
	out := makeLayout(len(l.Shape))
	copy(out.Shape, l.Shape)
	copy(out.Strides, l.Strides)
	out.Offset = l.Offset
	return out
}

// Broadcast repeats axes of length 1 (stride 0), and adds axes in front, until
// the shape is as requested.
func (l Layout) Broadcast(shape ...int) (Layout, error) {
	pad := len(shape) - len(l.Shape)
	if pad < 0 || len(shape) > MaxRank {
		return Layout{}, l.refuse("broadcast", shape)
	}
	out := makeLayout(len(shape))
	copy(out.Shape, shape)
	out.Offset = l.Offset
	for i, d := range shape {
		switch {
		case d < 0:
			return Layout{}, l.refuse("broadcast", shape)
		case i < pad:
		case l.Shape[i-pad] == d:
			out.Strides[i] = l.Strides[i-pad]
		case l.Shape[i-pad] != 1:
			return Layout{}, l.refuse("broadcast", shape)
		}
	}
	return out, out.checkSize()
}

// ExpandDims inserts an axis of length 1 before axis (negative counts from the
// end of the result).
func (l Layout) ExpandDims(axis int) (Layout, error) {
	n := len(l.Shape) + 1
	if n > MaxRank {
		return Layout{}, fmt.Errorf("%w: rank %d exceeds %d", ErrLayout, n, MaxRank)
	}
	if axis < -n || axis >= n {
		return Layout{}, fmt.Errorf("%w: cannot insert an axis %d into shape %v", ErrLayout, axis, l.Shape)
	}
	if axis < 0 {
		axis += n
	}
	out := makeLayout(n)
	out.Offset = l.Offset
	copy(out.Shape, l.Shape[:axis])
	copy(out.Strides, l.Strides[:axis])
	out.Shape[axis] = 1
	copy(out.Shape[axis+1:], l.Shape[axis:])
	copy(out.Strides[axis+1:], l.Strides[axis:])
	return out, nil
}

// Squeeze drops an axis of length 1.
func (l Layout) Squeeze(axis int) (Layout, error) {
	a, err := l.Axis(axis)
	if err != nil {
		return Layout{}, err
	}
	if l.Shape[a] != 1 {
		return Layout{}, fmt.Errorf("%w: cannot squeeze axis %d of shape %v: its length is not 1", ErrLayout, axis, l.Shape)
	}
	out := makeLayout(len(l.Shape) - 1)
	out.Offset = l.Offset
	copy(out.Shape, l.Shape[:a])
	copy(out.Strides, l.Strides[:a])
	copy(out.Shape[a:], l.Shape[a+1:])
	copy(out.Strides[a:], l.Strides[a+1:])
	return out, nil
}

// BroadcastShapes returns the common shape of NumPy broadcasting. It may have
// more elements than an int counts: Layout.Broadcast refuses that.
func BroadcastShapes(a, b []int) ([]int, error) {
	out := make([]int, max(len(a), len(b)))
	for i := range out {
		da, db := 1, 1
		if k := i - len(out) + len(a); k >= 0 {
			da = a[k]
		}
		if k := i - len(out) + len(b); k >= 0 {
			db = b[k]
		}
		switch {
		case da == db || db == 1:
			out[i] = da
		case da == 1:
			out[i] = db
		default:
			return nil, fmt.Errorf("%w: shapes %v and %v do not broadcast", ErrLayout, a, b)
		}
	}
	return out, nil
}
