package simd

func decodeHeadsVector(dst []float32, src []byte, stride, heads, groups, zero int) bool {
	if active >= AVX512 {
		decodeHeadsAVX512(&dst[0], &src[0], stride, heads, groups, zero)
	} else {
		decodeHeadsAVX2(&dst[0], &src[0], stride, heads, groups, zero)
	}
	return true
}
