package optest

import (
	"encoding/binary"
	"math"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/ops"
)

// cacheTypes are the types of pages of keys and values.
var cacheTypes = append(floatTypes[:3:3], array.Uint8)

// encode returns the codes and scales of a head of a multiple of 4 elements, as ops.PageElement
// describes them.
func encode(head []float64) []byte {
	var codes, scales []byte
	for len(head) > 0 {
		n, most, special := min(32, len(head)), 0.0, false
		for _, v := range head[:n] {
			most = max(most, math.Abs(v)) // a NaN stays
			special = special || math.IsNaN(v) || math.IsInf(v, 0)
		}
		scale, factor := float32(most/127), float32(127/most)
		switch {
		case special:
			scale, factor = float32(math.NaN()), 0
		case most < 0x1p-100:
			scale, factor = 0, 0
		}
		for _, v := range head[:n] {
			if factor == 0 {
				v = 0
			}
			codes = append(codes, byte(128+math.RoundToEven(float64(float32(v*float64(factor))))))
		}
		bits := math.Float32bits(scale)
		if special {
			bits = 0x7fc00000
		}
		scales = binary.LittleEndian.AppendUint32(scales, bits)
		head = head[n:]
	}
	return append(codes, scales...)
}

// cacheFloats lists the numbers of pages, whatever their type: those of whole heads.
func cacheFloats(pages array.Array) []float64 {
	if pages.DType != array.Uint8 {
		return floats(pages)
	}
	read, codes := elements(pages), cacheHead(pages)
	return build(append(pages.Shape[:3:3], codes), func(at []int) float64 {
		bits := uint32(0)
		for i := range 4 {
			bits |= uint32(read([]int{at[0], at[1], at[2], codes + at[3]/32*4 + i})) << (8 * i)
		}
		return (read(at) - 128) * float64(math.Float32frombits(bits))
	})
}

// cacheHead returns how many elements the heads of pages have.
func cacheHead(pages array.Array) int {
	if pages.DType != array.Uint8 {
		return pages.Dim(3)
	}
	for d := 0; ; d += 4 {
		if ops.PageRow(array.Uint8, d) >= pages.Dim(3) {
			return d
		}
	}
}

// pages returns pages of normal numbers: of uint8, of codes of such.
func (r source) pages(dtype array.DType, pages, heads, page, d int) array.Array {
	if dtype != array.Uint8 {
		return r.normal(dtype, 1, pages, heads, page, d)
	}
	return encoded(r.normal(array.Float32, 1, pages, heads, page, d))
}

// encoded returns pages of codes of pages of floats.
func encoded(from array.Array) array.Array {
	var bytes []float64
	rows(from, func(head []float64) {
		for _, b := range encode(head) {
			bytes = append(bytes, float64(b))
		}
	})
	return dense(array.Uint8, bytes, from.Dim(0), from.Dim(1), from.Dim(2), ops.PageRow(array.Uint8, from.Dim(3)))
}

// byToken returns a view of the same pages whose storage has the heads of a token side by side.
func byToken(pages array.Array) array.Array {
	p, h, l, row := pages.Dim(0), pages.Dim(1), pages.Dim(2), pages.Dim(3)
	return relayout(pages, must(must(array.Contiguous(p, l, h, row)).Transpose(0, 2, 1, 3)), pages.Size())
}
