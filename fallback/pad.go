package fallback

import (
	"slices"

	"github.com/kompute-go/kompute-go/internal/array"
)

// Pad copies x into out, of x's type and rank, where it begins at low. Around it,
// out has the element with the given bits (see Fill) or, if edge is set, the
// element of x that is nearest.
//
// Errors: ErrInvalid if x does not fit there, or an axis of x has no edge.
func Pad(x, out array.Array, low []int, edge bool, bits uint32) error {
	c := checker{op: "pad"}
	c.array("x", &x)
	c.array("out", &out)
	c.dtype("out", &out, x.DType)
	c.rank("out", &out, len(x.Shape))
	if c.err == nil && len(low) < len(x.Shape) {
		c.fail("%d widths for %d axes", len(low), len(x.Shape))
	}
	if c.err != nil {
		return c.err
	}
	for i, d := range x.Shape {
		if low[i] < 0 || low[i]+d > out.Shape[i] || edge && d == 0 && out.Size() > 0 {
			c.fail("%v at %v in %v", x.Shape, low, out.Shape)
			return c.err
		}
	}
	if !edge {
		fillArray(&out, bits)
	}
	middle := array.Array{DType: out.DType, Data: out.Data, Layout: array.Layout{
		Shape: slices.Clone(x.Shape), Strides: out.Strides, Offset: out.Offset,
	}}
	for i := range x.Shape {
		middle.Offset += low[i] * out.Strides[i]
	}
	copyArray(&x, &middle)
	if edge {
		for axis := range x.Shape {
			extend(&middle, axis, low[axis], out.Shape[axis])
		}
	}
	return nil
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
