//go:build amd64 || arm64

package simd

import "math"

// eights returns the part of a length that the vector forms, which take 8 numbers
// at a time, can do; the caller does the rest.
func eights(n int) int {
	if active == Generic {
		return 0
	}
	return n &^ 7
}

func fromBF16Vector(dst []float32, src []uint16) int {
	n := eights(len(src))
	if n > 0 {
		fromBF16Rows(&dst[:n][0], &src[0], n)
	}
	return n
}

func toBF16Vector(dst []uint16, src []float32) int {
	n := eights(len(src))
	if n > 0 {
		toBF16Rows(&dst[:n][0], &src[0], n)
	}
	return n
}

func fromF16Vector(dst []float32, src []uint16) int {
	n := eights(len(src))
	if n > 0 {
		fromF16Rows(&dst[:n][0], &src[0], n)
	}
	return n
}

func toF16Vector(dst []uint16, src []float32) int {
	n := eights(len(src))
	if n > 0 {
		toF16Rows(&dst[:n][0], &src[0], n)
	}
	return n
}

func siluMulVector(dst, gate, up []float32) int {
	if active == Generic {
		return 0
	}
	n := eights(len(gate))
	if n > 0 {
		siluMulRows(&dst[:n][0], &gate[0], &up[:n][0], n)
	}
	if n < len(gate) {
		var g, u [8]float32
		copy(g[:], gate[n:])
		copy(u[:], up[n:])
		siluMulRows(&g[0], &g[0], &u[0], 8)
		copy(dst[n:len(gate)], g[:])
	}
	return len(gate)
}

func maxVector(x []float32) (int, float32) {
	n := eights(len(x))
	if n == 0 {
		return 0, float32(math.Inf(-1))
	}
	return n, maxRows(&x[0], n)
}

func scaleVector(y []float32, f float32) int {
	n := eights(len(y))
	if n > 0 {
		scaleRows(&y[0], n, f)
	}
	return n
}
