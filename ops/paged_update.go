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

// PageElement is the type of pages of keys or values: floats, or 8-bit codes. Then the
// last axis of pages, which is D elements long for floats, is [PageRow] bytes: D codes,
// then for each group of 32 of them a float32 scale, and
//
//	element = (code - 128) * scale
//
// A group's scale is its largest magnitude divided by 127, and codes are rounded to the
// nearest, so that the error of an element is at most half a scale. A group whose
// magnitudes are all below 2⁻¹⁰⁰ becomes zeros; one with an infinity or NaN becomes NaN.
// Zeroed pages hold zeros. Codes and scales are the same on every device.
type PageElement interface {
	kompute.Float | uint8
}

// PageRow returns the length of the last axis of pages of a type for heads of d
// elements: d for floats, d + 4·⌈d/32⌉ for codes (uint8), and -1 for codes if d is no
// multiple of 4.
func PageRow(dtype kompute.DType, d int) int { return fallback.CacheRow(dtype, d) }

// pageHead checks the layout of pages, whose rank is 4, and returns how many elements
// a head has.
func (c *call) pageHead(name string, l array.Layout, dtype array.DType) int {
	d := fallback.CacheHead(dtype, l.Dim(3))
	switch {
	case d < 0:
		c.fail(kompute.ErrShape, "%s of %v have a last axis of %d, which no head has; see PageElement", name, dtype, l.Dim(3))
	case dtype == array.Uint8 && l.Size() > 0 && !inWords(l):
		c.fail(kompute.ErrInvalid, "%s of %v must have contiguous heads that begin at multiples of 4 bytes: strides %v, offset %d", name, dtype, l.Strides, l.Offset)
	}
	return max(d, 0)
}

// inWords reports whether the last axis of an array of bytes, a multiple of 4 long,
// consists of words.
func inWords(l array.Layout) bool {
	last := l.Rank() - 1
	for i, stride := range l.Strides[:last] {
		if l.Dim(i) > 1 && stride%4 != 0 {
			return false
		}
	}
	return l.Strides[last] == 1 && l.Offset%4 == 0
}

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
// narrower type than rows, which are rounded to it, or of codes ([PageElement]).
//
// # Errors
//
// ErrShape if pages do not have four axes, or rows and slots do not match;
// ErrInvalid if pages repeat elements (a broadcast view), are wrapped memory
// ([kompute.Wrap]), share elements with rows or slots, or are of codes and not in words.
func PagedUpdate[C PageElement, T kompute.Float](s *kompute.Stream, pages *kompute.Tensor[C], rows *kompute.Tensor[T], slots *kompute.Tensor[int32]) *kompute.Tensor[C] {
	c := newCall(s, opdef.PagedUpdate.Op)
	pl := input(c, opdef.PagedUpdate.Pages, pages)
	rl := input(c, opdef.PagedUpdate.Rows, rows)
	sl := input(c, opdef.PagedUpdate.Slots, slots)
	if c.rank("pages", pl, 4) && c.rank("slots", sl, 1) {
		c.shape("rows", rl, sl.Dim(0), pl.Dim(1), c.pageHead("pages", pl, array.DTypeOf[C]()))
	}
	c.updates(opdef.PagedUpdate.Pages, opdef.PagedUpdate.Rows, opdef.PagedUpdate.Slots)
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

// updates checks that no two elements of an operand that is updated in place share memory, and that it shares none with
// others.
func (c *call) updates(written opdef.Operand, others ...opdef.Operand) {
	if c.err != nil {
		return
	}
	w := c.args[written.Index].View
	if w.Layout().Repeats() {
		c.fail(kompute.ErrInvalid, "%s repeat elements: their strides are %v", written.Name, w.Layout().Strides)
	}
	for _, o := range others {
		v := c.args[o.Index].View
		if w.SameStorage(v) && array.Overlap(w.Layout(), v.Layout()) {
			c.fail(kompute.ErrInvalid, "%s share elements with %s", written.Name, o.Name)
		}
	}
}
