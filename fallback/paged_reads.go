package fallback

import (
	"github.com/kompute-go/kompute-go/fallback/internal/simd"
	"github.com/kompute-go/kompute-go/internal/array"
)

// pagedPiece is how many keys or values are converted at a time, so that they stay in the nearest cache.
const pagedPiece = 32

// pagedReads says how keys and values are read.
type pagedReads struct {
	piece  int           // the most that are taken at a time
	copied int           // the most of them that must be copied
	narrow bool          // whether heads of 16 or 8 bits are read as they lie
	form   simd.HeadForm // with narrow, how they are stored
}

var cacheForms = [...]simd.HeadForm{array.BFloat16: simd.HeadsBF16, array.Float16: simd.HeadsF16, array.Uint8: simd.HeadsCodes}

// reads returns how keys and values are read by a number of query heads.
func (p *pagedAttention) reads(group int) pagedReads {
	l, d, dv := p.keys.Shape[2], p.q.Shape[2], p.out.Shape[2]
	contiguous := p.keys.Strides[3] == 1 && p.values.Strides[3] == 1 && p.keys.Strides[2] >= 0 && p.values.Strides[2] >= 0
	switch {
	case contiguous && p.keys.DType == array.Float32:
		return pagedReads{piece: l} // where they lie
	case contiguous && simd.TakesHeads(group, d) && simd.TakesHeads(group, dv):
		// HeadDots takes four keys at a time, and leaves the rest.
		return pagedReads{piece: l, copied: min(l, 3), narrow: true, form: cacheForms[p.keys.DType]}
	}
	piece := min(l, pagedPiece)
	return pagedReads{piece: piece, copied: piece}
}

// score computes the scores of n tokens, from one on. It returns false if their page does not exist.
func (u *pagedUnit) score(token, n int, scores []float32) bool {
	d, done := u.pagedAttention.q.Shape[2], 0
	if u.narrow {
		heads, stride, ok := u.heads(u.keys, token)
		if !ok {
			return false
		}
		done = simd.HeadDots(scores, u.block, u.q, u.group, d, heads, stride, n, u.form)
	}
	if done == n {
		return true
	}
	k, ok := u.tile(u.keys, token+done, n-done, d)
	if ok {
		simd.Dots(scores[done:], u.block, u.q, d, u.group, k.data, k.ld, n-done, d, false)
	}
	return ok
}

// addValues adds the values of n tokens, from one on, times their weights, if their page exists.
func (u *pagedUnit) addValues(token, n int, weights []float32) {
	dv := u.out.Shape[2]
	if u.narrow {
		if heads, stride, ok := u.heads(u.values, token); ok {
			simd.HeadMulAdd(u.sums, weights, u.block, u.group, dv, heads, stride, n, u.form)
		}
		return
	}
	if v, ok := u.tile(u.values, token, n, dv); ok {
		simd.MulAdd(u.sums, dv, weights, u.block, u.group, v.data, v.ld, dv, n, true)
	}
}

// heads returns the memory from a token of a page on, and how many bytes tokens are apart. It returns false if the page
// does not exist.
func (u *pagedUnit) heads(a *array.Array, token int) (heads []byte, stride int, ok bool) {
	page := u.page(token)
	if page < 0 {
		return nil, 0, false
	}
	size := a.DType.Size()
	return a.Data[size*elementAt(a, []int{page, u.keyHead, token % a.Shape[2], 0}):], size * a.Strides[2], true
}

// tile returns n tokens, from one on, of d elements each, as rows. It returns false if their page does not exist.
func (u *pagedUnit) tile(a *array.Array, token, n, d int) (rowMatrix, bool) {
	page := u.page(token)
	if page < 0 || d == 0 {
		return rowMatrix{}, page >= 0
	}
	at := elementAt(a, []int{page, u.keyHead, token % a.Shape[2], 0})
	if a.DType == array.Uint8 {
		loadHeads(u.buf[:n*d], storage[uint8](a)[at:], a.Strides[2], n, d)
		return rowMatrix{u.buf, d}, true
	}
	return tileRows(a, at, a.Strides[2], n, a.Strides[3], d, 1, u.buf), true
}
