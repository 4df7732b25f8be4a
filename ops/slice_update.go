package ops

import (
	"math"

	"github.com/kompute-go/kompute-go/fallback"
	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/kompute"
)

// SliceUpdate writes update into dst, in place, from the position start on, and
// returns dst. It is the one op that changes an operand: every view of dst's
// storage sees it, in the order of the stream. dst may itself be a view, and
// only its elements are written.
//
// update has dst's rank and fits into it. start is one of
//
//   - nothing: the first element,
//   - one At per axis,
//   - one AtDevice of an int32 tensor [rank]. As nobody can check that in time,
//     each number of it is clamped so that the update fits, as in XLA.
//
// To append step t to a cache [B, H, capacity, D]:
//
//	ops.SliceUpdate(s, cache, keys, ops.At(0), ops.At(0), ops.At(t), ops.At(0))
//
// # Errors
//
// ErrShape if ranks differ, update is larger than dst, or there are neither 0,
// 1 nor rank starts; ErrInvalid if At puts a part of update outside dst, dst
// repeats elements (a broadcast view), or update shares elements with the part
// of dst that is written.
func SliceUpdate[T kompute.Element](s *kompute.Stream, dst, update *kompute.Tensor[T], start ...Position) *kompute.Tensor[T] {
	c := newCall(s, "slice_update")
	dl := operand(&c, "dst", dst, kompute.InOut)
	ul := input(&c, "update", update)
	c.fits(dl, ul)
	params := sliceUpdateOp{Start: c.starts(dl, ul, start)}
	if c.err == nil {
		c.disjoint(dl, ul, params)
	}
	if c.err != nil {
		return kompute.Failed[T](s, c.err)
	}
	if ul.Size() == 0 {
		return dst
	}
	c.stream.Enqueue(kompute.Op{
		Name: c.op, Args: c.args, Params: kompute.ParamBytes(&params),
		CPU: func(a []array.Array) error { return fallback.SliceUpdate(a[0], a[1], a[2], ints(params.Start)) },
	})
	return dst
}

// fits checks the shape of an update, and that dst has each element once.
func (c *call) fits(dst, update array.Layout) {
	if c.err != nil || !c.rank("update", update, dst.Rank()) {
		return
	}
	for i, n := range dst.Shape {
		if update.Shape[i] > n {
			c.fail(kompute.ErrShape, "the update has %d elements along axis %d, dst %d", update.Shape[i], i, n)
		}
	}
	if repeats(dst) {
		c.fail(kompute.ErrInvalid, "dst repeats elements: its strides are %v", dst.Strides)
	}
}

// starts appends the device start, if any, of a part of an array, and returns
// the host's.
func (c *call) starts(whole, part array.Layout, start []Position) (at [array.MaxRank]int32) {
	if c.err != nil {
		return at
	}
	if len(start) == 1 && start[0].set {
		c.shape("the start", input(c, "the start", start[0].device), whole.Rank())
		return at
	}
	c.args = append(c.args, kompute.Arg{})
	if len(start) != 0 && len(start) != whole.Rank() {
		c.fail(kompute.ErrShape, "%d starts for rank %d", len(start), whole.Rank())
		return at
	}
	for i, p := range start {
		switch limit := whole.Shape[i] - part.Shape[i]; {
		case p.set:
			c.fail(kompute.ErrInvalid, "a start from the device is one tensor for all axes")
		case p.host < 0 || p.host > limit || p.host > math.MaxInt32:
			c.fail(kompute.ErrInvalid, "start %d along axis %d is outside 0 to %d", p.host, i, limit)
		default:
			at[i] = int32(p.host)
		}
	}
	return at
}

// ints returns starts as the CPU takes them.
func ints(at [array.MaxRank]int32) []int {
	out := make([]int, len(at))
	for i, n := range at {
		out[i] = int(n)
	}
	return out
}

// disjoint checks that the update shares no element with what is written.
func (c *call) disjoint(dst, update array.Layout, params sliceUpdateOp) {
	if update.Size() == 0 {
		return
	}
	region := dst // from the device, it may start anywhere
	if c.args[2].View == nil {
		region = array.Layout{Shape: update.Shape, Strides: dst.Strides, Offset: dst.Offset}
		for i := range dst.Shape {
			region.Offset += int(params.Start[i]) * dst.Strides[i]
		}
	}
	if c.args[0].View.SameStorage(c.args[1].View) && overlap(region, update) {
		c.fail(kompute.ErrInvalid, "update shares elements with dst")
	}
	if c.args[2].View != nil && c.args[0].View.SameStorage(c.args[2].View) && overlap(region, c.args[2].View.Layout()) {
		c.fail(kompute.ErrInvalid, "the start shares elements with dst")
	}
}
