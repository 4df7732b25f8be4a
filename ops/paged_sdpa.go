package ops

import (
	"github.com/kompute-go/kompute-go/fallback"
	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/opdef"
	"github.com/kompute-go/kompute-go/kompute"
)

var pagedSDPACPU = onCPU(func(a []array.Array, p *opdef.PagedSDPAParams) error {
	return fallback.PagedSDPA(at(a, opdef.PagedSDPA.Q), at(a, opdef.PagedSDPA.Keys), at(a, opdef.PagedSDPA.Values),
		at(a, opdef.PagedSDPA.Table), at(a, opdef.PagedSDPA.Sequences), at(a, opdef.PagedSDPA.Lengths), at(a, opdef.PagedSDPA.Out), p.Scale)
})

// PagedSDPAParams are the operands of [PagedSDPA] that say where the keys of a
// row are.
type PagedSDPAParams struct {
	// Table [S, M] lists the pages of each of S sequences, in the order of their
	// tokens: token t of sequence s is token t%L of page Table[s, t/L].
	Table *kompute.Tensor[int32]
	// Sequences [R] is the sequence of each row.
	Sequences *kompute.Tensor[int32]
	// Lengths [R] is how many tokens of its sequence each row sees, itself
	// included: its position plus one. It is clamped to 0…M·L.
	Lengths *kompute.Tensor[int32]
	// Scale multiplies q·k; 0 means 1/sqrt(D).
	Scale float32
	// Apart promises that no row sees a key that the [PagedUpdate] before it has
	// written for another row: each row is of a sequence of its own, and nobody
	// else's table has the page that its token is in. Then tokens may be prepared
	// and attend in one step. Where the promise is broken, results are undefined;
	// rows of one sequence may give NaNs.
	Apart bool
}

// PagedSDPA is scaled dot-product attention of R tokens, of any number of
// sequences, over keys and values that lie in pages (Kwon et al., 2023):
//
//	softmax(q·kᵀ * Scale) · v
//
// with q [R, Hq, D], keys [P, Hkv, L, D] and values [P, Hkv, L, Dv] of P pages of
// L tokens ([PageElement] has the form of pages of codes), to [R, Hq, Dv]. Hq is a multiple of Hkv, and query head h reads key
// head h / (Hq/Hkv). Generated tokens and tokens of a prompt are treated alike: once
// [PagedUpdate] has put all tokens of a prompt into the pages, each row's length
// determines which of them it sees.
//
// A page number outside 0 ≤ page < P has no keys, nor does a sequence outside 0 ≤
// sequence < S. A row that sees no key gives zeros; a batch of fixed size uses this
// for unused rows.
//
// Scores and sums are float32 for every T and C. Magnitudes of q·k·Scale must stay below
// 2.3e38, beyond which results differ from device to device. The result of a row depends, to
// the last bit, on its query, its keys, and the shapes of Table and keys, not on
// the other rows, nor on which pages its keys lie in. But where Table has one column, a
// row alone may have other last bits than one of several. Where there are more than 64
// rows, and at least two for each row of Table, its last bits may be others than with
// fewer rows, and they may also depend on values of keys that it does not see, if those
// are among the 32 keys next to the last one that it sees and reach 2⁹, or differ from
// the others by many powers of two.
//
// # Errors
//
// ErrShape if shapes do not match; ErrInvalid if a tensor is nil, Scale is not
// finite, or pages are of codes and not in words.
func PagedSDPA[T kompute.Float, C PageElement](s *kompute.Stream, q *kompute.Tensor[T], keys, values *kompute.Tensor[C], p PagedSDPAParams) *kompute.Tensor[T] {
	c := newCall(s, opdef.PagedSDPA.Op)
	ql, kl, vl := input(c, opdef.PagedSDPA.Q, q), input(c, opdef.PagedSDPA.Keys, keys), input(c, opdef.PagedSDPA.Values, values)
	tl := input(c, opdef.PagedSDPA.Table.Called("Table"), p.Table)
	sl := input(c, opdef.PagedSDPA.Sequences.Called("Sequences"), p.Sequences)
	ll := input(c, opdef.PagedSDPA.Lengths.Called("Lengths"), p.Lengths)
	var dv int
	if c.rank("q", ql, 3) && c.rank("keys", kl, 4) && c.rank("values", vl, 4) && c.rank("Table", tl, 2) {
		c.shape("Sequences", sl, ql.Dim(0))
		c.shape("Lengths", ll, ql.Dim(0))
		d := c.pageHead("keys", kl, array.DTypeOf[C]())
		dv = c.pageHead("values", vl, array.DTypeOf[C]())
		c.pages(ql, kl, vl, d)
	}
	if c.err != nil {
		return kompute.Failed[T](s, c.err)
	}
	params := opdef.PagedSDPAParams{Scale: c.attentionScale(p.Scale, ql.Dim(2)), Apart: toUint32(p.Apart)}
	return result[T](c, []int{ql.Dim(0), ql.Dim(1), dv}, params, pagedSDPACPU)
}

// pages checks the shapes of q, keys, with heads of d elements, and values against
// each other.
func (c *call) pages(q, k, v array.Layout, d int) {
	hq, hkv := q.Dim(1), k.Dim(1)
	switch {
	case k.Dim(0) != v.Dim(0) || hkv != v.Dim(1) || k.Dim(2) != v.Dim(2):
		c.fail(kompute.ErrShape, "keys are %d pages of %d heads and %d tokens, values %d of %d and %d", k.Dim(0), hkv, k.Dim(2), v.Dim(0), v.Dim(1), v.Dim(2))
	case q.Dim(2) != d:
		c.fail(kompute.ErrShape, "q has heads of %d elements, keys of %d", q.Dim(2), d)
	case hkv == 0 && hq != 0, hkv != 0 && hq%hkv != 0:
		c.fail(kompute.ErrShape, "%d query heads are not a multiple of %d key heads", hq, hkv)
	}
}
