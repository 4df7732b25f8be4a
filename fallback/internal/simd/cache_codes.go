package simd

// DecodeHeads sets dst to heads of d elements, (code - zero)·scale. In src they lie stride
// bytes apart, each a byte for each element and then a float32 scale for each 32 of them. It
// returns false, and does nothing, if d is no multiple of 32, stride is negative or there is
// no vector form.
func DecodeHeads(dst []float32, src []byte, stride, heads, d int, zero byte) bool {
	if d%32 != 0 || stride < 0 || active == Generic {
		return false
	}
	if heads <= 0 || d == 0 {
		return true
	}
	_, _ = dst[heads*d-1], src[(heads-1)*stride+d+d/8-1]
	return decodeHeadsVector(dst, src, stride, heads, d/32, int(zero))
}
