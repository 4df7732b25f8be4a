package simd

import "math"

// FromBF16 widens bfloat16 bits; dst and src have one length.
func FromBF16(dst []float32, src []uint16) {
	done := fromBF16Vector(dst, src)
	for i, b := range src[done:] {
		dst[done+i] = math.Float32frombits(uint32(b) << 16)
	}
}

// AddBF16 adds bfloat16 bits to dst; dst and src have one length.
func AddBF16(dst []float32, src []uint16) {
	done := addBF16Vector(dst, src)
	for i, b := range src[done:] {
		dst[done+i] += math.Float32frombits(uint32(b) << 16)
	}
}

// AddF16 adds binary16 bits to dst; dst and src have one length.
func AddF16(dst []float32, src []uint16) {
	done := addF16Vector(dst, src)
	for i, h := range src[done:] {
		dst[done+i] += halfToFloat(uint32(h))
	}
}

// ToBF16 rounds to the nearest bfloat16, ties to even; NaNs become quiet.
func ToBF16(dst []uint16, src []float32) {
	done := toBF16Vector(dst, src)
	for i, f := range src[done:] {
		bits := math.Float32bits(f)
		if f != f {
			dst[done+i] = uint16(bits>>16) | 0x40
			continue
		}
		dst[done+i] = uint16((bits + 0x7fff + bits>>16&1) >> 16)
	}
}

// FromF16 widens binary16 bits.
func FromF16(dst []float32, src []uint16) {
	done := fromF16Vector(dst, src)
	for i, h := range src[done:] {
		dst[done+i] = halfToFloat(uint32(h))
	}
}

// ToF16 rounds to the nearest binary16, ties to even.
func ToF16(dst []uint16, src []float32) {
	done := toF16Vector(dst, src)
	for i, f := range src[done:] {
		dst[done+i] = floatToHalf(math.Float32bits(f))
	}
}

// halfToFloat widens the bits of one binary16 number.
func halfToFloat(h uint32) float32 {
	sign, a := h&0x8000<<16, h&0x7fff
	switch {
	case a < 0x400: // zero or subnormal
		return math.Float32frombits(math.Float32bits(float32(a)*0x1p-24) | sign)
	case a > 0x7c00: // NaN, made quiet
		return math.Float32frombits(sign | a<<13 + 0x70000000 | 0x400000)
	case a == 0x7c00:
		return math.Float32frombits(sign | 0x7f800000)
	}
	return math.Float32frombits(sign | a<<13 + 0x38000000)
}

// floatToHalf rounds the bits of one float32 number to binary16.
func floatToHalf(u uint32) uint16 {
	sign, a := uint16(u>>16&0x8000), u&0x7fffffff
	switch {
	case a > 0x7f800000: // NaN: keep the upper payload, quiet
		return sign | 0x7e00 | uint16(a>>13&0x1ff)
	case a >= 0x477ff000: // rounds to infinity
		return sign | 0x7c00
	case a < 0x33000001: // rounds to zero
		return sign
	case a < 0x38800000: // subnormal: shift the mantissa with its hidden bit
		shift := 126 - a>>23
		mantissa := a&0x7fffff | 0x800000
		kept, rest, tie := mantissa>>shift, mantissa&(1<<shift-1), uint32(1)<<(shift-1)
		if rest > tie || rest == tie && kept&1 == 1 {
			kept++
		}
		return sign | uint16(kept)
	}
	return sign | uint16((a-0x38000000+0xfff+a>>13&1)>>13)
}
