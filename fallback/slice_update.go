package fallback

import (
	"github.com/kompute-go/kompute-go/array"
)

// SliceUpdate writes update into dst at start, in place. Both have one type and
// rank, and update is no larger than dst along any axis. start is int32 [rank];
// if it is absent, at holds instead. A start is clamped so that the update fits,
// as in XLA.
//
// Errors: ErrInvalid for other shapes or types.
func SliceUpdate(dst, update, start array.Array, at []int) error {
	c := checker{op: "slice_update"}
	c.array("dst", &dst)
	c.array("update", &update)
	c.dtype("update", &update, dst.DType)
	rank := len(dst.Shape)
	c.rank("update", &update, rank)
	if start.Present() {
		c.array("start", &start)
		c.dtype("start", &start, array.Int32)
		c.shape("start", &start, []int{rank})
	} else if len(at) < rank {
		c.fail("%d starts for %d axes", len(at), rank)
	}
	if c.err != nil {
		return c.err
	}
	part := array.Array{DType: dst.DType, Data: dst.Data, Layout: array.Layout{
		Shape: update.Shape, Strides: dst.Strides, Offset: dst.Offset,
	}}
	for i, d := range update.Shape {
		if d > dst.Shape[i] {
			c.fail("the update %v is larger than %v", update.Shape, dst.Shape)
			return c.err
		}
		first := 0
		if start.Present() {
			first = int(storage[int32](&start)[start.Offset+i*start.Strides[0]])
		} else {
			first = at[i]
		}
		part.Offset += min(max(first, 0), dst.Shape[i]-d) * dst.Strides[i]
	}
	copyArray(&update, &part)
	return nil
}
