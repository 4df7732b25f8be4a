package fallback

import (
	"encoding/binary"
	"math"

	"github.com/kompute-go/kompute-go/fallback/internal/simd"
	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/opdef"
)

// CacheRow returns how many elements long the last axis of pages of a type is for
// heads of d elements: d, or for codes (uint8) d + 4·⌈d/32⌉, and -1 if d is no
// multiple of 4.
func CacheRow(dtype array.DType, d int) int {
	switch {
	case dtype != array.Uint8:
		return d
	case d%4 != 0:
		return -1
	}
	return d + 4*((d+opdef.CacheGroup-1)/opdef.CacheGroup)
}

// CacheHead returns how many elements the heads of pages with such a last axis
// have; -1 if there are none for which it would be that long.
func CacheHead(dtype array.DType, row int) int {
	if dtype != array.Uint8 {
		return row
	}
	d := row/(opdef.CacheGroup+4)*opdef.CacheGroup + max(0, row%(opdef.CacheGroup+4)-4)
	if CacheRow(dtype, d) != row {
		return -1
	}
	return d
}

// pages checks type and layout of an operand that is pages of keys or values.
func (c *checker) pages(name string, a *array.Array) {
	if c.rank(name, a, 4); c.err != nil {
		return
	}
	switch {
	case a.DType.IsFloat():
	case a.DType != array.Uint8:
		c.fail("%s has type %v, neither a float nor uint8", name, a.DType)
	case CacheHead(a.DType, a.Shape[3]) < 0 || a.Shape[3] > 1 && a.Strides[3] != 1:
		c.fail("%s of %v with rows of %d, %d apart, are not heads of codes", name, a.DType, a.Shape[3], a.Strides[3])
	}
}

// storeHead writes a head to its place in pages, rounded to their type.
func storeHead(pages *array.Array, page, head, token int, values []float32) {
	at := elementAt(pages, []int{page, head, token, 0})
	if pages.DType == array.Uint8 {
		encodeHead(storage[uint8](pages)[at:at+pages.Shape[3]], values)
		return
	}
	storeFloats(pages, at, pages.Strides[3], values)
}

// leastCoded is the smallest magnitude that a group of codes must reach: below it, all
// are zeros.
const leastCoded = 0x1p-100

// encodeHead makes codes of a head, and the scales that follow them.
func encodeHead(to []uint8, values []float32) {
	codes, scales := to[:len(values)], to[len(values):]
	for len(values) > 0 {
		n := min(opdef.CacheGroup, len(values))
		scale, factor := groupScale(values[:n])
		for i, v := range values[:n] {
			scaled := float32(v * factor)
			if factor == 0 {
				scaled = 0 // v may be infinite
			}
			// In the sum the last bits of the mantissa are the number, rounded to the nearest even.
			codes[i] = uint8(math.Float32bits(scaled+codeShift) + opdef.CacheZero)
		}
		binary.LittleEndian.PutUint32(scales, math.Float32bits(scale))
		codes, scales, values = codes[n:], scales[4:], values[n:]
	}
}

// codeShift is 1.5·2²³, whose last bits are zeros.
const codeShift = 0x1.8p23

// groupScale returns the scale of a group and the factor that makes codes of its
// elements. With an infinity or NaN the scale is NaN.
func groupScale(values []float32) (scale, factor float32) {
	most := uint32(0) // bits of magnitudes, which order as numbers, with NaNs at the end
	for _, v := range values {
		most = max(most, math.Float32bits(v)&0x7fffffff)
	}
	switch largest := math.Float32frombits(most); {
	case most >= 0x7f800000:
		return math.Float32frombits(0x7fc00000), 0
	case largest < leastCoded:
		return 0, 0
	default:
		return largest / (opdef.CacheZero - 1), (opdef.CacheZero - 1) / largest
	}
}

// loadHeads reads n heads of d elements, which lie stride apart in pages of codes.
func loadHeads(to []float32, from []uint8, stride, n, d int) {
	if simd.DecodeHeads(to, from, stride, n, d, opdef.CacheZero) {
		return
	}
	for i := range n {
		decodeHead(to[i*d:(i+1)*d], from[i*stride:][:CacheRow(array.Uint8, d)])
	}
}

func decodeHead(to []float32, row []uint8) {
	codes, scales := row[:len(to)], row[len(to):]
	for len(to) > 0 {
		n := min(opdef.CacheGroup, len(to))
		scale := math.Float32frombits(binary.LittleEndian.Uint32(scales))
		for i, c := range codes[:n] {
			to[i] = float32(int32(c)-opdef.CacheZero) * scale
		}
		to, codes, scales = to[n:], codes[n:], scales[4:]
	}
}
