package simd

// HeadForm is how heads are stored that HeadDots and HeadMulAdd read without a copy of them.
type HeadForm int

const (
	HeadsBF16  HeadForm = iota // bfloat16
	HeadsF16                   // binary16
	HeadsCodes                 // as DecodeHeads reads them, with a zero of 128
	headForms
)

// headBytes returns how many bytes a head of d numbers has.
func (f HeadForm) headBytes(d int) int {
	if f == HeadsCodes {
		return d + d/32*4
	}
	return 2 * d
}

// TakesHeads reports whether HeadDots and HeadMulAdd take m rows of A and heads of d numbers.
func TakesHeads(m, d int) bool {
	return takesHeads && active >= AVX512 && m%2 == 0 && (d == 64 || d == 128)
}

// HeadDots sets c[i·ldc+j] to the product of row i of A, of d numbers, with head j of b, for i < m and j < n. Heads lie
// stride bytes apart. It returns how many of the n heads it has done, a multiple of 4. The sums are those of Dots with
// the heads as float32. It may be called only if TakesHeads returns true.
func HeadDots(c []float32, ldc int, a []float32, m, d int, b []byte, stride, n int, form HeadForm) int {
	fours := n &^ 3
	if m <= 0 || fours == 0 {
		return 0
	}
	_, _, _ = c[(m-1)*ldc+fours-1], a[m*d-1], b[(fours-1)*stride+form.headBytes(d)-1]
	for i := 0; i < m; i += 2 {
		headDots(&c[i*ldc], ldc, &a[i*d], d, &b[0], stride, fours/4, form)
	}
	return fours
}

// HeadMulAdd increases row i of C, of d numbers, by Σ a[i·lda+j]·head j of b over j < n, for i < m. Heads lie stride
// bytes apart. The sums are those of MulAdd with the heads as float32. It may be called only if TakesHeads returns true.
func HeadMulAdd(c, a []float32, lda, m, d int, b []byte, stride, n int, form HeadForm) {
	if m <= 0 || n <= 0 {
		return
	}
	_, _, _ = c[m*d-1], a[(m-1)*lda+n-1], b[(n-1)*stride+form.headBytes(d)-1]
	for i := 0; i < m; i += 2 {
		headMulAdd(&c[i*d], d, &a[i*lda], lda, &b[0], stride, n, form)
	}
}
