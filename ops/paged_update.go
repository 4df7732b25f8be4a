package ops

import (
	"github.com/kompute-go/kompute-go/fallback"
	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/opdef"
	"github.com/kompute-go/kompute-go/kompute"
)

var pagedUpdateCPU = onCPU(func(a []array.Array, _ *opdef.PagedUpdateParams) error {
	return fallback.PagedUpdate(at(a, opdef.PagedUpdate.Pages), at(a, opdef.PagedUpdate.Rows), at(a, opdef.PagedUpdate.Slots))
})

// PagedUpdate writes rows [R, H, D] into a paged cache, in place, and returns
// pages. pages [P, H, L, D] are P pages of L tokens each, usually of the keys or
// the values of a layer with H key-value heads; slots [R] gives the place of each
// row:
//
//	pages[slots[r]/L, h, slots[r]%L, d] = rows[r, h, d]
//
// A row whose slot is negative, or lies past the last page, is not written; a batch
// of fixed size uses this for unused rows. The other slots must all be different: if
// two rows have one slot, it is undefined which of them it gets. pages may be of a
// narrower type than rows, which are rounded to it.
//
// # Errors
//
// ErrShape if pages do not have four axes, or rows and slots do not match;
// ErrInvalid if pages repeat elements (a broadcast view), or share elements with
// rows or slots.
func PagedUpdate[C, T kompute.Float](s *kompute.Stream, pages *kompute.Tensor[C], rows *kompute.Tensor[T], slots *kompute.Tensor[int32]) *kompute.Tensor[C] {
	c := newCall(s, opdef.PagedUpdate.Op)
	pl := input(c, opdef.PagedUpdate.Pages, pages)
	rl := input(c, opdef.PagedUpdate.Rows, rows)
	sl := input(c, opdef.PagedUpdate.Slots, slots)
	if c.rank("pages", pl, 4) && c.rank("slots", sl, 1) {
		c.shape("rows", rl, sl.Dim(0), pl.Dim(1), pl.Dim(3))
	}
	if c.err == nil && repeats(pl) {
		c.fail(kompute.ErrInvalid, "pages repeat elements: their strides are %v", pl.Strides)
	}
	c.apart(opdef.PagedUpdate.Pages, opdef.PagedUpdate.Rows, opdef.PagedUpdate.Slots)
	if c.err != nil {
		return kompute.Failed[C](s, c.err)
	}
	if rl.Size() == 0 || pl.Size() == 0 {
		return pages
	}
	var params opdef.PagedUpdateParams
	enqueue(c, &params, pagedUpdateCPU)
	return pages
}

// apart checks that an operand that is written shares no element with others.
func (c *call) apart(written opdef.Operand, others ...opdef.Operand) {
	if c.err != nil {
		return
	}
	w := c.args[written.Index].View
	for _, o := range others {
		v := c.args[o.Index].View
		if w.SameStorage(v) && overlap(w.Layout(), v.Layout()) {
			c.fail(kompute.ErrInvalid, "%s share elements with %s", written.Name, o.Name)
		}
	}
}
