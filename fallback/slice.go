package fallback

import "github.com/kompute-go/kompute-go/internal/array"

// Slice copies to out the part of x that has out's shape and begins at start.
// Both have one type and rank, and out is no longer than x along any axis. start
// is int32 [rank]; if it is absent, at is used instead. A start is clamped so that
// the part fits, as in SliceUpdate.
//
// Errors: ErrInvalid for other shapes or types.
func Slice(x, start, out array.Array, at []int) error {
	c := checker{op: "slice"}
	c.array("x", &x)
	c.array("out", &out)
	c.dtype("out", &out, x.DType)
	c.rank("out", &out, len(x.Shape))
	c.start(&start, at, len(x.Shape))
	if c.err != nil {
		return c.err
	}
	part := c.part("out", &x, out.Shape, &start, at)
	if c.err != nil {
		return c.err
	}
	copyArray(&part, &out)
	return nil
}

// start checks where a part begins: int32 [rank] or, where that is absent, at.
func (c *checker) start(start *array.Array, at []int, rank int) {
	if start.Present() {
		c.array("start", start)
		c.dtype("start", start, array.Int32)
		c.shape("start", start, []int{rank})
	} else if len(at) < rank {
		c.fail("%d starts for %d axes", len(at), rank)
	}
}

// part returns the part of x that has a shape and begins at start, or at at,
// clamped so that it fits. name is what has the shape.
func (c *checker) part(name string, x *array.Array, shape []int, start *array.Array, at []int) array.Array {
	part := array.Array{DType: x.DType, Data: x.Data, Layout: array.Layout{
		Shape: shape, Strides: x.Strides, Offset: x.Offset,
	}}
	for i, d := range shape {
		if d > x.Shape[i] {
			c.fail("%s %v is larger than %v", name, shape, x.Shape)
			return part
		}
		first := 0
		if start.Present() {
			first = int(storage[int32](start)[start.Offset+i*start.Strides[0]])
		} else {
			first = at[i]
		}
		part.Offset += min(max(first, 0), x.Shape[i]-d) * x.Strides[i]
	}
	return part
}
