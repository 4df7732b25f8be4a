package simd

const takesHeads = true

// Of heads of 64 numbers and of 128. They are called where they stand: calls through a variable would move the
// callers' arrays to the heap.
func headDots(c *float32, ldc int, a *float32, d int, b *byte, stride, fours int, form HeadForm) {
	switch {
	case form == HeadsBF16 && d == 64:
		headDots2x64BF16AVX512(c, ldc, a, d, b, stride, fours)
	case form == HeadsBF16:
		headDots2x128BF16AVX512(c, ldc, a, d, b, stride, fours)
	case form == HeadsF16 && d == 64:
		headDots2x64F16AVX512(c, ldc, a, d, b, stride, fours)
	case form == HeadsF16:
		headDots2x128F16AVX512(c, ldc, a, d, b, stride, fours)
	case d == 64:
		headDots2x64CodesAVX512(c, ldc, a, d, b, stride, fours)
	default:
		headDots2x128CodesAVX512(c, ldc, a, d, b, stride, fours)
	}
}

func headMulAdd(c *float32, d int, a *float32, lda int, b *byte, stride, n int, form HeadForm) {
	switch {
	case form == HeadsBF16 && d == 64:
		headMulAdd2x64BF16AVX512(c, d, a, lda, b, stride, n)
	case form == HeadsBF16:
		headMulAdd2x128BF16AVX512(c, d, a, lda, b, stride, n)
	case form == HeadsF16 && d == 64:
		headMulAdd2x64F16AVX512(c, d, a, lda, b, stride, n)
	case form == HeadsF16:
		headMulAdd2x128F16AVX512(c, d, a, lda, b, stride, n)
	case d == 64:
		headMulAdd2x64CodesAVX512(c, d, a, lda, b, stride, n)
	default:
		headMulAdd2x128CodesAVX512(c, d, a, lda, b, stride, n)
	}
}
