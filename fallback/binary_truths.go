package fallback

import (
	"github.com/kompute-go/kompute-go/fallback/internal/simd"
	"github.com/kompute-go/kompute-go/internal/opdef"
)

// compareRow compares the first elements by vectors, and returns how many.
func compareRow(kind opdef.BinaryKind, z []uint8, x, y []float32) int {
	switch kind {
	case opdef.BinaryEqual:
		return simd.CompareRow(simd.Equal, z, x, y)
	case opdef.BinaryNotEqual:
		return simd.CompareRow(simd.NotEqual, z, x, y)
	case opdef.BinaryLess:
		return simd.CompareRow(simd.Less, z, x, y)
	case opdef.BinaryLessEqual:
		return simd.CompareRow(simd.LessEqual, z, x, y)
	case opdef.BinaryGreater:
		return simd.CompareRow(simd.Less, z, y, x)
	case opdef.BinaryGreaterEqual:
		return simd.CompareRow(simd.LessEqual, z, y, x)
	}
	return 0
}

// truths writes x (kind) y as bools to out, from off on, stride apart.
func truths[T float32 | integer](kind opdef.BinaryKind, out []uint8, off, stride int, x, y []T) {
	y = y[:len(x)]
	for i := range x {
		var t bool
		switch kind {
		case opdef.BinaryEqual:
			t = x[i] == y[i]
		case opdef.BinaryNotEqual:
			t = x[i] != y[i]
		case opdef.BinaryLess:
			t = x[i] < y[i]
		case opdef.BinaryLessEqual:
			t = x[i] <= y[i]
		case opdef.BinaryGreater:
			t = x[i] > y[i]
		case opdef.BinaryGreaterEqual:
			t = x[i] >= y[i]
		case opdef.BinaryAnd:
			t = x[i] != 0 && y[i] != 0
		default:
			t = x[i] != 0 || y[i] != 0
		}
		out[off+i*stride] = toByte(t)
	}
}

func toByte(t bool) uint8 {
	if t {
		return 1
	}
	return 0
}
