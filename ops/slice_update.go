package ops

import (
	"math"

	"github.com/kompute-go/kompute-go/fallback"
	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/opdef"
	"github.com/kompute-go/kompute-go/kompute"
)

var sliceUpdateCPU = onCPU(func(a []array.Array, p *opdef.SliceUpdateParams) error {
	return fallback.SliceUpdate(at(a, opdef.SliceUpdate.Dst), at(a, opdef.SliceUpdate.Update), at(a, opdef.SliceUpdate.Start), ints(p.Start))
})

// SliceUpdate writes update into dst, in place, from the position start on, and
// returns dst. It, [PagedUpdate], [Tally], [Penalize] and [Mask] are the only ops that
// change an operand: every view of dst's storage sees the change, in the order of the
// stream. dst may itself be a view; only its elements are written.
//
// update has dst's rank and fits into it. start is one of
//
//   - nothing: the first element,
//   - one At per axis,
//   - one AtDevice of an int32 tensor [rank]. It is known only when the op runs,
//     so each number of it is clamped so that the update fits, as in XLA.
//
// To append step t to a cache [B, H, capacity, D]:
//
//	ops.SliceUpdate(s, cache, keys, ops.At(0), ops.At(0), ops.At(t), ops.At(0))
//
// # Errors
//
// ErrShape if ranks differ, update is larger than dst, or the number of starts
// is neither 0, 1 nor rank; ErrInvalid if At places a part of update outside
// dst, dst repeats elements (a broadcast view) or is wrapped memory ([kompute.Wrap]),
// or update shares elements with the part of dst that is written.
func SliceUpdate[T kompute.Element](s *kompute.Stream, dst, update *kompute.Tensor[T], start ...Position) *kompute.Tensor[T] {
	c := newCall(s, opdef.SliceUpdate.Op)
	dl := input(c, opdef.SliceUpdate.Dst, dst)
	ul := input(c, opdef.SliceUpdate.Update, update)
	c.fits(dl, ul)
	params := opdef.SliceUpdateParams{Start: c.starts(opdef.SliceUpdate.Start, dl, ul, start)}
	if c.err == nil {
		c.disjoint(dl, ul, params)
	}
	if c.err != nil {
		return kompute.Failed[T](s, c.err)
	}
	if ul.Size() == 0 {
		return dst
	}
	enqueue(c, &params, sliceUpdateCPU)
	return dst
}

// fits checks the shape of an update, and that no two elements of dst share
// memory.
func (c *call) fits(dst, update array.Layout) {
	if c.err != nil || !c.rank("update", update, dst.Rank()) {
		return
	}
	for i, n := range dst.Shape {
		if update.Shape[i] > n {
			c.fail(kompute.ErrShape, "the update has %d elements along axis %d, dst %d", update.Shape[i], i, n)
		}
	}
	if dst.Repeats() {
		c.fail(kompute.ErrInvalid, "dst repeats elements: its strides are %v", dst.Strides)
	}
}

// starts sets the device start of a part of an array, if any, as operand o, and returns the host's.
func (c *call) starts(o opdef.Operand, whole, part array.Layout, start []Position) (at [array.MaxRank]int32) {
	if c.err != nil {
		return at
	}
	if len(start) == 1 && start[0].set {
		c.shape("the start", input(c, o.Called("the start"), start[0].device), whole.Rank())
		return at
	}
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

// ints returns one number for each axis in the form of the CPU implementation.
func ints[N int32 | uint32](at [array.MaxRank]N) []int {
	out := make([]int, len(at))
	for i, n := range at {
		out[i] = int(n)
	}
	return out
}

// disjoint checks that the update shares no element with the written part.
func (c *call) disjoint(dst, update array.Layout, params opdef.SliceUpdateParams) {
	if update.Size() == 0 {
		return
	}
	view := func(o opdef.Operand) *kompute.View { return c.args[o.Index].View }
	whole, part, start := view(opdef.SliceUpdate.Dst), view(opdef.SliceUpdate.Update), view(opdef.SliceUpdate.Start)
	region := dst // from the device, it may start anywhere
	if start == nil {
		region = array.Layout{Shape: update.Shape, Strides: dst.Strides, Offset: dst.Offset}
		for i := range dst.Shape {
			region.Offset += int(params.Start[i]) * dst.Strides[i]
		}
	}
	if whole.SameStorage(part) && array.Overlap(region, update) {
		c.fail(kompute.ErrInvalid, "update shares elements with dst")
	}
	if start != nil && whole.SameStorage(start) && array.Overlap(region, start.Layout()) {
		c.fail(kompute.ErrInvalid, "the start shares elements with dst")
	}
}
