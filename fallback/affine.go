package fallback

import (
	"encoding/binary"
	"slices"

	"github.com/kompute-go/kompute-go/array"
	"github.com/kompute-go/kompute-go/fallback/internal/simd"
)

// Affine describes MLX's affine quantization: each group of GroupSize (32, 64 or
// 128) neighbours in a row has a scale and a bias, and an element is
// scale·code + bias. The codes of a row, of Bits (2, 3, 4, 5, 6 or 8) each, are
// one little-endian bit stream, lowest bits first, in uint32 words.
type Affine struct{ GroupSize, Bits int }

// check complains about parameters that do not exist.
func (q Affine) check(c *checker) {
	if !slices.Contains([]int{32, 64, 128}, q.GroupSize) {
		c.fail("group size %d, not 32, 64 or 128", q.GroupSize)
	}
	if !slices.Contains([]int{2, 3, 4, 5, 6, 8}, q.Bits) {
		c.fail("%d bits, not 2, 3, 4, 5, 6 or 8", q.Bits)
	}
}

// affine is a quantized array [..., cols].
type affine struct {
	Affine
	w, scales, biases *array.Array
	cols              int // elements of a row
	groups            int // of a row
}

// affine checks w [..., cols*bits/32] and scales and biases [..., cols/group].
func (c *checker) affine(w, scales, biases *array.Array, q Affine) affine {
	q.check(c)
	c.array("w", w)
	c.dtype("w", w, array.Uint32)
	c.lastAxis("w", w)
	c.float("scales", scales)
	c.float("biases", biases)
	if c.err != nil {
		return affine{}
	}
	last := len(w.Shape) - 1
	c.rank("scales", scales, last+1)
	if c.err != nil {
		return affine{}
	}
	groups := scales.Shape[last]
	if w.Shape[last]*32 != groups*q.GroupSize*q.Bits {
		c.fail("rows of %d words and %d scales do not fit %d bits in groups of %d", w.Shape[last], groups, q.Bits, q.GroupSize)
	}
	c.shape("scales", scales, slices.Concat(w.Shape[:last], []int{groups}))
	c.shape("biases", biases, scales.Shape)
	return affine{Affine: q, w: w, scales: scales, biases: biases, cols: groups * q.GroupSize, groups: groups}
}

// rowSpace returns how many float32 numbers row and rows need per row.
func (a *affine) rowSpace() int { return 2*a.groups + a.w.Shape[len(a.w.Shape)-1] }

// row returns the row that starts at the given elements of w, scales and biases.
// space, of rowSpace numbers, holds what must be converted.
func (a *affine) row(w, scales, biases int, space []float32) simd.Weights {
	last := len(a.w.Shape) - 1
	words := a.w.Shape[last]
	return simd.Weights{
		Codes:    a.codes(w, words, a.w.Strides[last]),
		RowBytes: words * 4,
		Scales:   floats(a.scales, scales, a.scales.Strides[last], a.groups, space[:a.groups]),
		Biases:   floats(a.biases, biases, a.biases.Strides[last], a.groups, space[a.groups:]),
		Groups:   a.groups, GroupSize: a.GroupSize, Bits: a.Bits,
	}
}

// rows returns rows [lo, hi) of groups [g0, g1) of a matrix. space, of rowSpace
// numbers per row, holds what must be converted.
func (a *affine) rows(lo, hi, g0, g1 int, space []float32) simd.Weights {
	n, groups := hi-lo, g1-g0
	words := groups * a.GroupSize / 32 * a.Bits
	first := g0 * a.GroupSize / 32 * a.Bits
	out := simd.Weights{
		RowBytes: a.w.Strides[0] * 4,
		Scales:   matrixFloats(a.scales, lo, n, g0, groups, space[:n*groups]),
		Biases:   matrixFloats(a.biases, lo, n, g0, groups, space[n*groups:2*n*groups]),
		Groups:   groups, GroupSize: a.GroupSize, Bits: a.Bits,
	}
	stride := a.w.Strides[1]
	if n == 0 || groups == 0 {
		return out
	}
	if stride == 1 || words == 1 {
		out.Codes = a.w.Data[(a.w.Offset+lo*a.w.Strides[0]+first*stride)*4:]
		return out
	}
	out.RowBytes = words * 4
	out.Codes = make([]byte, 0, n*words*4)
	for i := lo; i < hi; i++ {
		out.Codes = append(out.Codes, a.codes(a.w.Offset+i*a.w.Strides[0]+first*stride, words, stride)[:words*4]...)
	}
	return out
}

// codes returns n words of w from off on, stride apart, as bytes; there may be
// more.
func (a *affine) codes(off, n, stride int) []byte {
	if stride == 1 || n <= 1 {
		return a.w.Data[off*4:]
	}
	out := make([]byte, n*4)
	words := storage[uint32](a.w)
	for i := range n {
		binary.LittleEndian.PutUint32(out[i*4:], words[off+i*stride])
	}
	return out
}

// matrixFloats returns a block of a matrix as contiguous float32: the storage
// itself where that is possible, else a copy in buf.
func matrixFloats(a *array.Array, row, rows, col, cols int, buf []float32) []float32 {
	off := a.Offset + row*a.Strides[0] + col*a.Strides[1]
	if a.Strides[1] == 1 && (a.Strides[0] == cols || rows == 1) {
		return floats(a, off, 1, rows*cols, buf)
	}
	for i := range rows {
		loadFloats(buf[i*cols:(i+1)*cols], a, off+i*a.Strides[0], a.Strides[1])
	}
	return buf
}
