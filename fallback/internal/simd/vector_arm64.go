package simd

import (
	"math"

	"golang.org/x/sys/cpu"
)

// vectorLevels returns the levels of this processor above Generic.
func vectorLevels() []Level {
	if !cpu.ARM64.HasASIMDDP {
		return nil
	}
	return []Level{NEON}
}

// expSumVector also does the tail in a vector; see its form for amd64.
func expSumVector(dst, x []float32, shift float32) (int, float32) {
	if active == Generic {
		return 0, 0
	}
	var sums [4]float32
	n, sum := eights(len(x)), float32(0)
	if n > 0 {
		expSumNEON(&dst[:n][0], &x[0], n, &shift, &sums[0])
		sum = (sums[0] + sums[1]) + (sums[2] + sums[3])
	}
	if n < len(x) {
		var tail [8]float32
		for i := copy(tail[:], x[n:]); i < 8; i++ {
			tail[i] = float32(math.Inf(-1)) // e^-Inf adds nothing
		}
		expSumNEON(&tail[0], &tail[0], 8, &shift, &sums[0])
		sum += (sums[0] + sums[1]) + (sums[2] + sums[3])
		copy(dst[n:], tail[:len(x)-n])
	}
	return len(x), sum
}

func dotsVector(c []float32, ldc int, a []float32, lda, m int, b []float32, ldb, n, k int, add bool) bool {
	if active == Generic {
		return false
	}
	_, _, _ = c[(m-1)*ldc+n-1], a[(m-1)*lda+k-1], b[(n-1)*ldb+k-1]
	more := toInt(add)
	for i := range m {
		j := 0
		for ; j+4 <= n; j += 4 {
			dots1x4NEON(&c[i*ldc+j], &a[i*lda], &b[j*ldb], ldb, k, more)
		}
		for ; j < n; j++ {
			dots1x1NEON(&c[i*ldc+j], &a[i*lda], &b[j*ldb], ldb, k, more)
		}
	}
	return true
}

func narrowDotsVector([]float32, int, []float32, int, int, []uint16, int, int, int, bool, narrow) int {
	return 0
}

func mulAddVector(c []float32, ldc int, a []float32, lda, m int, b []float32, ldb, n, k int, add bool) bool {
	if active == Generic {
		return false
	}
	_, _, _ = c[(m-1)*ldc+n-1], a[(m-1)*lda+k-1], b[(k-1)*ldb+n-1]
	more := toInt(add)
	for j := 0; j < n; {
		width, kernel := 1, mulAdd1x1NEON
		switch {
		case n-j >= 32:
			width, kernel = 32, mulAdd1x32NEON
		case n-j >= 4:
			width, kernel = 4, mulAdd1x4NEON
		}
		for i := range m {
			kernel(&c[i*ldc+j], &a[i*lda], &b[j], ldb, k, more)
		}
		j += width
	}
	return true
}
