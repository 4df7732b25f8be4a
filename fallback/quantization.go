package fallback

import (
	"encoding/binary"
	"slices"

	"github.com/kompute-go/kompute-go/fallback/internal/simd"
	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/opdef"
)

// Quantization describes how MLX packs a matrix. In the affine mode each group of
// GroupSize (32, 64 or 128) neighbours in a row has a scale and a bias, and an
// element is scale·code + bias. The codes of a row, of Bits (2, 3, 4, 5, 6 or 8)
// each, are one little-endian bit stream, lowest bits first, in uint32 words.
type Quantization struct {
	GroupSize, Bits int
	Mode            opdef.Mode
}

// small are the formats of the modes without biases.
var small = map[opdef.Mode]Quantization{
	opdef.ModeMXFP4: {32, 4, opdef.ModeMXFP4}, opdef.ModeNVFP4: {16, 4, opdef.ModeNVFP4}, opdef.ModeMXFP8: {32, 8, opdef.ModeMXFP8},
}

// check complains about parameters that do not exist.
func (q Quantization) check(c *checker) {
	if q.Mode != opdef.ModeAffine {
		if fixed, known := small[q.Mode]; !known || fixed != q {
			c.fail("mode %d has no groups of %d with %d bits", q.Mode, q.GroupSize, q.Bits)
		}
		return
	}
	if !slices.Contains([]int{32, 64, 128}, q.GroupSize) {
		c.fail("group size %d, not 32, 64 or 128", q.GroupSize)
	}
	if !slices.Contains([]int{2, 3, 4, 5, 6, 8}, q.Bits) {
		c.fail("%d bits, not 2, 3, 4, 5, 6 or 8", q.Bits)
	}
}

// packed is a quantized array [..., cols].
type packed struct {
	Quantization
	w, scales, biases *array.Array // without biases, it is the scales
	cols              int          // elements of a row
	groups            int          // of a row
}

// packed checks w [..., cols*bits/32] and scales and biases [..., cols/group].
func (c *checker) packed(w, scales, biases *array.Array, q Quantization) packed {
	q.check(c)
	c.array("w", w)
	c.dtype("w", w, array.Uint32)
	c.lastAxis("w", w)
	if q.Mode == opdef.ModeAffine {
		c.float("scales", scales)
		c.float("biases", biases)
	} else {
		c.array("scales", scales)
		c.dtype("scales", scales, array.Uint8)
		if biases.Present() {
			c.fail("mode %d has no biases", q.Mode)
		}
		biases = scales
	}
	if c.err != nil {
		return packed{}
	}
	last := len(w.Shape) - 1
	c.rank("scales", scales, last+1)
	if c.err != nil {
		return packed{}
	}
	groups := scales.Shape[last]
	if w.Shape[last]*32 != groups*q.GroupSize*q.Bits {
		c.fail("rows of %d words and %d scales do not fit %d bits in groups of %d", w.Shape[last], groups, q.Bits, q.GroupSize)
	}
	c.shape("scales", scales, slices.Concat(w.Shape[:last], []int{groups}))
	c.shape("biases", biases, scales.Shape)
	return packed{Quantization: q, w: w, scales: scales, biases: biases, cols: groups * q.GroupSize, groups: groups}
}

// values writes groups [g0, g1) of a row in a mode without biases, whose words and
// scales start at the given elements.
func (a *packed) values(dst []float32, w, scales, g0, g1 int) {
	last := len(a.w.Shape) - 1
	stride, step := a.w.Strides[last], a.scales.Strides[last]
	words := a.GroupSize * a.Bits / 32
	codes := a.codes(w+g0*words*stride, (g1-g0)*words, stride)
	all := storage[uint8](a.scales)
	if a.Mode == opdef.ModeMXFP8 && step == 1 && simd.DecodeE4M3(dst, codes, all[scales+g0:scales+g1]) {
		return
	}
	for g := g0; g < g1; g++ {
		code := all[scales+g*step]
		scale := e8m0Values[code]
		if a.Mode == opdef.ModeNVFP4 {
			scale = e4m3Values[code]
		}
		if a.Bits == 8 {
			for i, c := range codes[:a.GroupSize] {
				dst[i] = scale * e4m3Values[c]
			}
		} else {
			for i, c := range codes[:a.GroupSize/2] {
				pair := &e2m1Pairs[c]
				dst[2*i], dst[2*i+1] = scale*pair[0], scale*pair[1]
			}
		}
		codes, dst = codes[4*words:], dst[a.GroupSize:]
	}
}

// rowSpace returns how many float32 numbers row needs.
func (a *packed) rowSpace() int { return 2 * a.groups }

// row returns the row that starts at the given elements of w, scales and biases.
// space, of rowSpace numbers, holds what must be converted.
func (a *packed) row(w, scales, biases int, space []float32) simd.Weights {
	last := len(a.w.Shape) - 1
	return simd.Weights{
		Codes:  a.codes(w, a.w.Shape[last], a.w.Strides[last]),
		Scales: floats(a.scales, scales, a.scales.Strides[last], a.groups, space[:a.groups]),
		Biases: floats(a.biases, biases, a.biases.Strides[last], a.groups, space[a.groups:]),
		Groups: a.groups, GroupSize: a.GroupSize, Bits: a.Bits,
	}
}

// codes returns n words of w from off on, stride apart, as bytes, perhaps
// followed by more.
func (a *packed) codes(off, n, stride int) []byte {
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

// narrowFactors returns the type of scales and biases of 16 bits whose rows follow one another, which simd.GroupDots
// and simd.FactorPanel take as they lie in memory, or Float32Factors for any others.
func (a *packed) narrowFactors() simd.FactorType {
	inRows := func(f *array.Array) bool { return f.Strides[1] == 1 && f.Strides[0] == a.groups }
	if a.Mode != opdef.ModeAffine || a.groups == 0 || a.scales.DType != a.biases.DType || !inRows(a.scales) || !inRows(a.biases) {
		return simd.Float32Factors
	}
	switch a.scales.DType {
	case array.BFloat16:
		return simd.BFloat16Factors
	case array.Float16:
		return simd.Float16Factors
	}
	return simd.Float32Factors
}

// factors are the scales and biases of a matrix as float32, rows stride apart.
type factors struct {
	scales, biases rowMatrix
	release        func()
}

// factors converts the scales and biases of a matrix, if necessary.
func (a *packed) factors() factors {
	if a.groups == 0 || a.scales.Shape[0] == 0 {
		return factors{release: func() {}}
	}
	scales, done := floatMatrices(a.scales)
	biases, alsoDone := floatMatrices(a.biases)
	f := factors{scales(0), biases(0), func() { done(); alsoDone() }}
	if f.scales.ld != f.biases.ld { // views with different strides
		done()
		alsoDone()
		scales, done := floatCopy(a.scales)
		biases, alsoDone := floatCopy(a.biases)
		f = factors{scales(0), biases(0), func() { done(); alsoDone() }}
	}
	return f
}

// rows returns groups [g0, g1) of rows [lo, hi) of a matrix.
func (a *packed) rows(f *factors, lo, hi, g0, g1 int) simd.Weights {
	groups := g1 - g0
	words := groups * a.GroupSize / 32 * a.Bits
	out := simd.Weights{Groups: groups, GroupSize: a.GroupSize, Bits: a.Bits, Stride: f.scales.ld}
	if lo == hi || groups == 0 {
		return out
	}
	at := lo*f.scales.ld + g0
	out.Scales, out.Biases = f.scales.data[at:], f.biases.data[at:]
	rowStride, stride := a.w.Strides[0], a.w.Strides[1]
	off := a.w.Offset + lo*rowStride + g0*a.GroupSize/32*a.Bits*stride
	if stride == 1 || words == 1 {
		out.Codes, out.RowBytes = a.w.Data[off*4:], rowStride*4
		return out
	}
	out.RowBytes = words * 4
	out.Codes = make([]byte, 0, (hi-lo)*words*4)
	for i := range hi - lo {
		out.Codes = append(out.Codes, a.codes(off+i*rowStride, words, stride)[:words*4]...)
	}
	return out
}
