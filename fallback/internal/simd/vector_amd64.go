package simd

import (
	"math"
	"sync"

	"golang.org/x/sys/cpu"
)

// tilesAllowed is whether the system allows AMX, asked once.
var tilesAllowed = sync.OnceValue(allowTiles)

// vectorLevels returns the levels of this processor above Generic.
func vectorLevels() []Level {
	x := &cpu.X86
	if !x.HasAVX2 || !x.HasFMA || !x.HasF16C || !x.HasBMI2 {
		return nil
	}
	levels := []Level{AVX2}
	if x.HasAVXVNNI {
		levels = append(levels, AVXVNNI)
	}
	for _, next := range []struct {
		level Level
		has   bool
	}{
		{AVX512, x.HasAVX512F && x.HasAVX512BW && x.HasAVX512DQ && x.HasAVX512VL},
		{VNNI512, x.HasAVX512VNNI}, {VBMI, x.HasAVX512VBMI}, {AMX, x.HasAMXTile && x.HasAMXInt8 && tilesAllowed()},
	} {
		if !next.has {
			break
		}
		levels = append(levels, next.level)
	}
	return levels
}

// expSumVector and siluMulVector also do the tail in a vector, so that a result
// does not depend on its position in the row: views and their copies, which may
// be divided into other rows, give the same bits.
func expSumVector(dst, x []float32, shift float32) (int, float32) {
	if active == Generic {
		return 0, 0
	}
	wide, n, sum := 0, eights(len(x)), float32(0)
	if active >= AVX512 {
		if wide = len(x) &^ 15; wide > 0 {
			sum = expSumAVX512(&dst[:wide][0], &x[0], wide, shift)
		}
	}
	if n > wide {
		sum += expSumAVX2(&dst[wide:n][0], &x[wide], n-wide, shift)
	}
	if n < len(x) {
		var tail [8]float32
		for i := copy(tail[:], x[n:]); i < 8; i++ {
			tail[i] = float32(math.Inf(-1)) // e^-Inf adds nothing
		}
		sum += expSumAVX2(&tail[0], &tail[0], 8, shift)
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
	i := 0
	for ; i+4 <= m; i += 4 {
		dotsRows4(c[i*ldc:], ldc, a[i*lda:], lda, b, ldb, n, k, more)
	}
	for ; i+2 <= m; i += 2 {
		dotsRows2(c[i*ldc:], ldc, a[i*lda:], lda, b, ldb, n, k, more)
	}
	for ; i < m; i++ {
		dotsRow(c[i*ldc:], a[i*lda:], b, ldb, n, k, more)
	}
	return true
}

func dotsRows4(c []float32, ldc int, a []float32, lda int, b []float32, ldb, n, k, add int) {
	j := 0
	if active >= AVX512 {
		for ; j+4 <= n; j += 4 {
			dots4x4AVX512(&c[j], ldc, &a[0], lda, &b[j*ldb], ldb, k, add)
		}
		for ; j < n; j++ {
			dots4x1AVX512(&c[j], ldc, &a[0], lda, &b[j*ldb], ldb, k, add)
		}
		return
	}
	for ; j+2 <= n; j += 2 {
		dots4x2AVX2(&c[j], ldc, &a[0], lda, &b[j*ldb], ldb, k, add)
	}
	for ; j < n; j++ {
		dots4x1AVX2(&c[j], ldc, &a[0], lda, &b[j*ldb], ldb, k, add)
	}
}

func dotsRows2(c []float32, ldc int, a []float32, lda int, b []float32, ldb, n, k, add int) {
	fours, j := n&^3, 0
	if k == 128 && add == 0 && fours > 0 && active >= AVX512 {
		headDots2x128AVX512(&c[0], ldc, &a[0], lda, &b[0], ldb, fours/4)
		j = fours
	}
	for ; j < fours; j += 4 { // calls through a variable would move the caller's arrays to the heap
		if active >= AVX512 {
			dots2x4AVX512(&c[j], ldc, &a[0], lda, &b[j*ldb], ldb, k, add)
		} else {
			dots2x4AVX2(&c[j], ldc, &a[0], lda, &b[j*ldb], ldb, k, add)
		}
	}
	if fours < n {
		dotsRow(c[fours:], a, b[fours*ldb:], ldb, n-fours, k, add)
		dotsRow(c[ldc+fours:], a[lda:], b[fours*ldb:], ldb, n-fours, k, add)
	}
}

func dotsRow(c, a, b []float32, ldb, n, k, add int) {
	j := 0
	if active >= AVX512 {
		for ; j+4 <= n; j += 4 {
			dots1x4AVX512(&c[j], 0, &a[0], 0, &b[j*ldb], ldb, k, add)
		}
		for ; j < n; j++ {
			dots1x1AVX512(&c[j], 0, &a[0], 0, &b[j*ldb], ldb, k, add)
		}
		return
	}
	for ; j+4 <= n; j += 4 {
		dots1x4AVX2(&c[j], 0, &a[0], 0, &b[j*ldb], ldb, k, add)
	}
	for ; j < n; j++ {
		dots1x1AVX2(&c[j], 0, &a[0], 0, &b[j*ldb], ldb, k, add)
	}
}

// narrowDotsVector handles n rows of B, a multiple of 4, by two and then one row of A at a time.
func narrowDotsVector(c []float32, ldc int, a []float32, lda, m int, b []uint16, ldb, n, k int, add bool, of narrow) int {
	if active == Generic {
		return 0
	}
	more, wide := toInt(add), active >= AVX512
	for j := 0; j < n; j += 4 { // calls through a variable would move the caller's arrays to the heap
		i := 0
		for ; i+2 <= m; i += 2 {
			to, row, from := &c[i*ldc+j], &a[i*lda], &b[j*ldb]
			switch {
			case wide && of == narrowBF16:
				dots2x4BF16AVX512(to, ldc, row, lda, from, ldb, k, more)
			case wide:
				dots2x4F16AVX512(to, ldc, row, lda, from, ldb, k, more)
			case of == narrowBF16:
				dots2x4BF16AVX2(to, ldc, row, lda, from, ldb, k, more)
			default:
				dots2x4F16AVX2(to, ldc, row, lda, from, ldb, k, more)
			}
		}
		if i == m {
			continue
		}
		to, row, from := &c[i*ldc+j], &a[i*lda], &b[j*ldb]
		switch {
		case wide && of == narrowBF16:
			dots1x4BF16AVX512(to, 0, row, 0, from, ldb, k, more)
		case wide:
			dots1x4F16AVX512(to, 0, row, 0, from, ldb, k, more)
		case of == narrowBF16:
			dots1x4BF16AVX2(to, 0, row, 0, from, ldb, k, more)
		default:
			dots1x4F16AVX2(to, 0, row, 0, from, ldb, k, more)
		}
	}
	return n
}

func mulAddVector(c []float32, ldc int, a []float32, lda, m int, b []float32, ldb, n, k int, add bool) bool {
	if active == Generic {
		return false
	}
	_, _, _ = c[(m-1)*ldc+n-1], a[(m-1)*lda+k-1], b[(k-1)*ldb+n-1]
	more, lanes := toInt(add), 8
	if active >= AVX512 {
		lanes = 16
	}
	i, fours := 0, m&^3
	for j := 0; j < n && fours > 0; {
		width := min(2*lanes, n-j)
		if width < 2*lanes {
			width = min(lanes, width)
		}
		for i = 0; i < fours; i += 4 {
			mulAddStrip4(&c[i*ldc+j], ldc, &a[i*lda], lda, &b[j], ldb, k, more, width, lanes)
		}
		j += width
	}
	i = fours
	for ; i+2 <= m && active >= AVX512; i += 2 {
		for j := 0; j < n; {
			if n-j >= 128 {
				mulAdd2x8AVX512(&c[i*ldc+j], ldc, &a[i*lda], lda, &b[j], ldb, k, more)
				j += 128
				continue
			}
			width := min(lanes, n-j)
			mulAdd2xtailAVX512(&c[i*ldc+j], ldc, &a[i*lda], lda, &b[j], ldb, k, more, width)
			j += width
		}
	}
	for ; i < m; i++ {
		for j := 0; j < n; {
			width := min(8*lanes, n-j)
			if width < 8*lanes {
				width = min(lanes, width)
			}
			mulAddStrip1(&c[i*ldc+j], &a[i*lda], &b[j], ldb, k, more, width, lanes)
			j += width
		}
	}
	return true
}

func mulAddStrip4(c *float32, ldc int, a *float32, lda int, b *float32, ldb, k, add, width, lanes int) {
	switch {
	case lanes == 16 && width == 32:
		mulAdd4x2AVX512(c, ldc, a, lda, b, ldb, k, add)
	case lanes == 16:
		mulAdd4xtailAVX512(c, ldc, a, lda, b, ldb, k, add, width)
	case width == 16:
		mulAdd4x2AVX2(c, ldc, a, lda, b, ldb, k, add)
	default:
		mulAdd4xtailAVX2(c, ldc, a, lda, b, ldb, k, add, width)
	}
}

func mulAddStrip1(c, a, b *float32, ldb, k, add, width, lanes int) {
	switch {
	case lanes == 16 && width == 128:
		mulAdd1x8AVX512(c, 0, a, 0, b, ldb, k, add)
	case lanes == 16:
		mulAdd1xtailAVX512(c, 0, a, 0, b, ldb, k, add, width)
	case width == 64:
		mulAdd1x8AVX2(c, 0, a, 0, b, ldb, k, add)
	default:
		mulAdd1xtailAVX2(c, 0, a, 0, b, ldb, k, add, width)
	}
}
