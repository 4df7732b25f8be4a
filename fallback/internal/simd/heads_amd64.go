package simd

const takesHeads = true

type headKernel func(c *float32, ldc int, a *float32, lda int, b *byte, stride, n int)

// Kernels for heads of 64 and of 128 numbers.
var (
	headDotKernels = [headForms][2]headKernel{
		HeadsBF16:  {headDots2x64BF16AVX512, headDots2x128BF16AVX512},
		HeadsF16:   {headDots2x64F16AVX512, headDots2x128F16AVX512},
		HeadsCodes: {headDots2x64CodesAVX512, headDots2x128CodesAVX512},
	}
	headMulAddKernels = [headForms][2]headKernel{
		HeadsBF16:  {headMulAdd2x64BF16AVX512, headMulAdd2x128BF16AVX512},
		HeadsF16:   {headMulAdd2x64F16AVX512, headMulAdd2x128F16AVX512},
		HeadsCodes: {headMulAdd2x64CodesAVX512, headMulAdd2x128CodesAVX512},
	}
)

func headDots(c *float32, ldc int, a *float32, d int, b *byte, stride, fours int, form HeadForm) {
	headDotKernels[form][d/128](c, ldc, a, d, b, stride, fours)
}

func headMulAdd(c *float32, d int, a *float32, lda int, b *byte, stride, n int, form HeadForm) {
	headMulAddKernels[form][d/128](c, d, a, lda, b, stride, n)
}
