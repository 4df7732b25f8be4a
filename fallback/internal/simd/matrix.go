package simd

// Dot returns Σ a[i]·b[i]; a and b have one length.
func Dot(a, b []float32) float32 {
	var c [1]float32
	Dots(c[:], 1, a, len(a), 1, b, len(b), 1, len(a), false)
	return c[0]
}

// Dots sets, or with add increases, C = A·Bᵀ: c[i·ldc+j] becomes Σ
// a[i·lda+l]·b[j·ldb+l] over l < k, for i < m and j < n. The rows of A and B
// are contiguous.
func Dots(c []float32, ldc int, a []float32, lda, m int, b []float32, ldb, n, k int, add bool) {
	if m <= 0 || n <= 0 {
		return
	}
	if k > 0 && dotsVector(c, ldc, a, lda, m, b, ldb, n, k, add) {
		return
	}
	for i := range m {
		row := a[i*lda : i*lda+k]
		for j := range n {
			s := dotGo(row, b[j*ldb:j*ldb+k])
			if add {
				s += c[i*ldc+j]
			}
			c[i*ldc+j] = s
		}
	}
}

// DotsBF16 is Dots for rows of B of bfloat16 numbers, without a copy of them. It
// returns how many of the n rows it has done, perhaps none: as many as the
// processor's vectors allow. The sums are those of Dots.
func DotsBF16(c []float32, ldc int, a []float32, lda, m int, b []uint16, ldb, n, k int, add bool) int {
	return narrowDots(c, ldc, a, lda, m, b, ldb, n, k, add, narrowBF16)
}

// DotsF16 is DotsBF16 for binary16 numbers.
func DotsF16(c []float32, ldc int, a []float32, lda, m int, b []uint16, ldb, n, k int, add bool) int {
	return narrowDots(c, ldc, a, lda, m, b, ldb, n, k, add, narrowF16)
}

// narrow is a type of 16-bit numbers.
type narrow int

const (
	narrowBF16 narrow = iota
	narrowF16
)

func narrowDots(c []float32, ldc int, a []float32, lda, m int, b []uint16, ldb, n, k int, add bool, of narrow) int {
	fours := n &^ 3
	if m <= 0 || fours == 0 || k == 0 || k%16 != 0 {
		return 0
	}
	_, _, _ = c[(m-1)*ldc+fours-1], a[(m-1)*lda+k-1], b[(fours-1)*ldb+k-1]
	return narrowDotsVector(c, ldc, a, lda, m, b, ldb, fours, k, add, of)
}

func dotGo(a, b []float32) float32 {
	b = b[:len(a)]
	var s0, s1, s2, s3 float32
	for len(a) >= 4 && len(b) >= 4 {
		s0 += a[0] * b[0]
		s1 += a[1] * b[1]
		s2 += a[2] * b[2]
		s3 += a[3] * b[3]
		a, b = a[4:], b[4:]
	}
	for i, v := range a {
		s0 += v * b[i]
	}
	return (s0 + s1) + (s2 + s3)
}

// MulAdd sets, or with add increases, C = A·B: c[i·ldc+j] becomes
// Σ a[i·lda+l]·b[l·ldb+j] over l < k, for i < m and j < n.
func MulAdd(c []float32, ldc int, a []float32, lda, m int, b []float32, ldb, n, k int, add bool) {
	if m <= 0 || n <= 0 {
		return
	}
	if k > 0 && mulAddVector(c, ldc, a, lda, m, b, ldb, n, k, add) {
		return
	}
	for i := range m {
		row := c[i*ldc : i*ldc+n]
		if !add {
			clear(row)
		}
		for l, f := range a[i*lda : i*lda+k] {
			axpyGo(row, f, b[l*ldb:l*ldb+n])
		}
	}
}

// axpyGo adds f·x to y.
func axpyGo(y []float32, f float32, x []float32) {
	x = x[:len(y)]
	for i, v := range x {
		y[i] += f * v
	}
}
