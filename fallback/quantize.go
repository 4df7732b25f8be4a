package fallback

import (
	"math"
	"slices"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/opdef"
)

// Quantize packs x [..., K] of a float type to w [..., K*bits/32] uint32 with
// scales [..., K/group], and biases of the same shape in the affine mode, where
// both have float types; in the others scales are uint8 and biases absent. See
// Quantization. The results are those of MLX, to the bit.
//
// Errors: ErrInvalid for other shapes or types, or a format that does not exist.
func Quantize(x, w, scales, biases array.Array, q Quantization) error {
	c := checker{op: "quantize"}
	a := c.packed(&w, &scales, &biases, q)
	c.float("x", &x)
	if c.err == nil {
		c.shape("x", &x, slices.Concat(w.Shape[:len(w.Shape)-1], []int{a.cols}))
	}
	if c.err != nil || x.Size() == 0 {
		return c.err
	}
	last := len(x.Shape) - 1
	l := newLoop(last, &x, &w, &scales, a.biases)
	l.each(6*float64(a.cols), func(at cursor, lo, hi int) {
		scratch := borrow(a.cols + 2*a.groups)
		defer scratch.release()
		codes := make([]uint8, q.GroupSize)
		words := make([]uint32, w.Shape[last])
		for range hi - lo {
			space := scratch.f
			row := floats(&x, at.off[0], x.Strides[last], a.cols, cut(&space, a.cols))
			if clear(words); q.Mode == opdef.ModeAffine {
				a.encodeAffine(row, words, codes, space)
				storeFloats(&scales, at.off[2], scales.Strides[last], space[:a.groups])
				storeFloats(&biases, at.off[3], biases.Strides[last], space[a.groups:2*a.groups])
			} else {
				a.encodeSmall(row, words, codes, roundTo(x.DType), storage[uint8](&scales), at.off[2], scales.Strides[last])
			}
			scatter(storage[uint32](&w), at.off[1], w.Strides[last], words)
			at.next()
		}
	})
	return nil
}

// encodeAffine fills the words of a row; factors gets its scales, then its biases.
func (a *packed) encodeAffine(row []float32, words []uint32, codes []uint8, factors []float32) {
	for g := range a.groups {
		group := row[g*a.GroupSize : (g+1)*a.GroupSize]
		scale, bias := affineFactors(group, a.Bits)
		top := float64(int(1)<<a.Bits - 1)
		for i, v := range group {
			q := math.RoundToEven(float64((v - bias) / scale))
			if !(q > 0) { // NaN too
				q = 0
			}
			codes[i] = uint8(min(q, top))
		}
		pack(words, g*a.GroupSize, codes, a.Bits)
		factors[g], factors[a.groups+g] = scale, bias
	}
}

// affineFactors returns the scale and bias of a group. The end of its range
// that is farther from zero becomes the bias, and zero becomes a code if the
// range contains it; NaNs are ignored.
func affineFactors(group []float32, bits int) (scale, bias float32) {
	lo, hi := float32(math.Inf(1)), float32(math.Inf(-1))
	for _, v := range group {
		if v < lo {
			lo = v
		}
		if v > hi {
			hi = v
		}
	}
	scale = (hi - lo) / float32(int(1)<<bits-1)
	if scale < 1e-7 {
		scale = 1e-7
	}
	edge := lo
	if abs32(lo) <= abs32(hi) {
		edge, scale = hi, -scale
	}
	steps := float32(math.RoundToEven(float64(edge / scale)))
	if steps == 0 {
		return scale, 0
	}
	return edge / steps, edge
}

// encodeSmall fills the words of a row and its scales, in storage from at on,
// stride apart. MLX rounds scales and quotients to the type of x, as round does.
func (a *packed) encodeSmall(row []float32, words []uint32, codes []uint8, round func(float32) float32, scales []uint8, at, stride int) {
	top := float32(6)
	if a.Bits == 8 {
		top = 448
	}
	for g := range a.groups {
		group := row[g*a.GroupSize : (g+1)*a.GroupSize]
		var most uint32 // of the magnitudes' bits, by which NaN comes after infinity
		for _, v := range group {
			most = max(most, math.Float32bits(v)&^(1<<31))
		}
		scale := round(math.Float32frombits(most) / top)
		code := toE8M0(scale)
		value := e8m0Values[code]
		if a.Mode == opdef.ModeNVFP4 {
			code = toE4M3(scale)
			value = e4m3Values[code]
		}
		for i, v := range group {
			switch q := round(v / value); {
			case a.Mode != opdef.ModeNVFP4 && code == 255:
				codes[i] = 0 // the group cannot be represented
			case a.Bits == 8:
				codes[i] = toE4M3(q)
			default:
				codes[i] = toE2M1(q)
			}
		}
		pack(words, g*a.GroupSize, codes, a.Bits)
		scales[at+g*stride] = code
	}
}

// pack puts codes into a stream of cleared words, from the code numbered first on.
func pack(words []uint32, first int, codes []uint8, bits int) {
	at := first * bits
	for _, c := range codes {
		word, shift := at/32, at%32
		words[word] |= uint32(c) << shift
		if shift+bits > 32 {
			words[word+1] |= uint32(c) >> (32 - shift)
		}
		at += bits
	}
}

// roundTo returns the rounding to a float type.
func roundTo(dtype array.DType) func(float32) float32 {
	switch dtype {
	case array.Float16:
		return func(v float32) float32 { return array.F16FromFloat32(v).Float32() }
	case array.BFloat16:
		return func(v float32) float32 { return array.BF16FromFloat32(v).Float32() }
	}
	return func(v float32) float32 { return v }
}
