package fallback

import (
	"slices"

	"github.com/kompute-go/kompute-go/internal/array"
)

// Pad copies x into out, of x's type and rank, where it begins at low. Around it,
// out has the element with the given bits (see Fill).
//
// Errors: ErrInvalid if x does not fit there.
func Pad(x, out array.Array, low []int, bits uint32) error {
	_, err := pad(&x, &out, low, func(*checker) { fillArray(&out, bits) })
	return err
}

// PadEdge is Pad where each element around x is the nearest one of x.
//
// Errors: those of Pad, and ErrInvalid if an axis of x has no edge.
func PadEdge(x, out array.Array, low []int) error {
	middle, err := pad(&x, &out, low, func(c *checker) {
		if slices.Contains(x.Shape, 0) && out.Size() > 0 {
			c.fail("an axis of %v has no edge", x.Shape)
		}
	})
	if err != nil {
		return err
	}
	for axis := range x.Shape {
		extend(&middle, axis, low[axis], out.Shape[axis])
	}
	return nil
}

// pad checks the operands, prepares out and copies x. It returns the part of out that is x.
func pad(x, out *array.Array, low []int, prepare func(*checker)) (middle array.Array, err error) {
	c := checker{op: "pad"}

	c.array("x", x)
	c.array("out", out)
	c.dtype("out", out, x.DType)
	c.rank("out", out, len(x.Shape))
	if c.err == nil && len(low) < len(x.Shape) {
		c.fail("%d widths for %d axes", len(low), len(x.Shape))
	}
	if c.err != nil {
		return middle, c.err
	}
	for i, d := range x.Shape {
		if low[i] < 0 || low[i] > out.Shape[i]-d {
			c.fail("%v at %v in %v", x.Shape, low, out.Shape)
			return middle, c.err
		}
	}
	if prepare(&c); c.err != nil {
		return middle, c.err
	}
	middle = array.Array{DType: out.DType, Data: out.Data, Layout: array.Layout{
		Shape: slices.Clone(x.Shape), Strides: out.Strides, Offset: out.Offset,
	}}
	for i := range x.Shape {
		middle.Offset += low[i] * out.Strides[i]
	}
	copyArray(x, &middle)
	return middle, nil
}

// extend repeats the first and the last entry of a part of out along an axis of n
// entries, of which low come before the part.
func extend(part *array.Array, axis, low, n int) {
	length, stride := part.Shape[axis], part.Strides[axis]
	if length == n || part.Size() == 0 {
		part.Shape[axis], part.Offset = n, part.Offset-low*stride
		return
	}
	first := part.Offset
	repeat := func(from, to, count int) {
		if count == 0 {
			return
		}
		edge, target := *part, *part
		edge.Shape, edge.Strides = slices.Clone(part.Shape), slices.Clone(part.Strides)
		edge.Shape[axis], edge.Strides[axis], edge.Offset = count, 0, from
		target.Shape, target.Offset = edge.Shape, to
		copyArray(&edge, &target)
	}
	repeat(first, first-low*stride, low)
	repeat(first+(length-1)*stride, first+length*stride, n-low-length)
	part.Shape[axis], part.Offset = n, first-low*stride
}
