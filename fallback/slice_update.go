package fallback

import (
	"github.com/kompute-go/kompute-go/internal/array"
)

// SliceUpdate writes update into dst at start, in place. Both have one type and
// rank, and update is no larger than dst along any axis. start is int32 [rank];
// if it is absent, at is used instead. A start is clamped so that the update fits,
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
	c.start(&start, at, rank)
	if c.err != nil {
		return c.err
	}
	part := c.part("the update", &dst, update.Shape, &start, at)
	if c.err != nil {
		return c.err
	}
	copyArray(&update, &part)
	return nil
}
