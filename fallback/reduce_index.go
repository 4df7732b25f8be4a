package fallback

import (
	"github.com/kompute-go/kompute-go/fallback/internal/simd"
	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/opdef"
)

// found is the extreme element of a piece: a key for comparing pieces, and its
// index among the result's elements.
type found[K int64 | float32] struct {
	key   K
	place int
}

// reduceIndexed computes the kinds whose results are indexes.
func reduceIndexed(kind opdef.ReduceKind, x, out *array.Array) {
	least := kind == opdef.ReduceArgMin
	switch x.DType {
	case array.Int32:
		findPieces(x, out, least, findInts[int32], placeOf)
	case array.Uint32:
		findPieces(x, out, least, findInts[uint32], placeOf)
	case array.Bool, array.Uint8:
		findPieces(x, out, least, findInts[uint8], placeOf)
	default:
		result := placeOf[float32]
		if kind == opdef.ReduceGreedy {
			result = func(f found[float32]) uint32 { return greedyToken(f.key, uint32(f.place)) }
		}
		findPieces(x, out, least, findFloats, result)
	}
}

func placeOf[K int64 | float32](f found[K]) uint32 { return uint32(f.place) }

// greedyToken returns the place of the largest logit of a row, or NoToken where the row holds a
// NaN, +Inf or nothing finite: there is no logit that can be the largest then.
func greedyToken(largest float32, place uint32) uint32 {
	if largest-largest != 0 {
		return NoToken
	}
	return place
}

// findPieces searches all pieces. find returns what it found among n elements, result what becomes of it.
func findPieces[K int64 | float32](x, out *array.Array, least bool,
	find func(x *array.Array, least bool, off, stride, n int) found[K], result func(found[K]) uint32) {
	r := newReduction(x, out)
	stride := x.Strides[len(x.Strides)-1]
	one := func(base, piece int) found[K] {
		first := piece * reducePiece
		f := find(x, least, base+first*stride, stride, min(reducePiece, r.inner.size-first))
		f.place += first
		return f
	}
	join := func(a, b found[K]) found[K] {
		if beyond(least, b.key, a.key) {
			return b
		}
		return a
	}
	reducePieces(&r, 1, one, join, found[K]{}, func(off int, f found[K]) { storage[uint32](out)[off] = result(f) })
}

// beyond reports whether a is more extreme than b; a NaN is the most extreme.
func beyond[K int64 | float32](least bool, a, b K) bool {
	if a != a || b != b {
		return a != a && b == b
	}
	if least {
		return a < b
	}
	return a > b
}

func findInts[T integer](x *array.Array, least bool, off, stride, n int) found[int64] {
	s := storage[T](x)
	best, place := s[off], 0
	for i := range n {
		if v := s[off+i*stride]; v != best && (v < best) == least {
			best, place = v, i
		}
	}
	return found[int64]{int64(best), place}
}

func findFloats(x *array.Array, least bool, off, stride, n int) found[float32] {
	scratch := borrow(n)
	defer scratch.release()
	row := floats(x, off, stride, n, scratch.f)
	if !least {
		at := firstLargest(row)
		return found[float32]{row[at], at}
	}
	m := foldFloats(opdef.ReduceAMin, row).v // NaN if there is one
	for i, v := range row {
		if sameNumber(v, m) {
			return found[float32]{m, i}
		}
	}
	return found[float32]{m, 0}
}

// firstLargest returns the place of the first NaN or, if there is none, of the first of
// the largest numbers.
func firstLargest(x []float32) int {
	const block = 64       // in which it is looked for one by one
	largest := simd.Max(x) // NaN if there is one
	at := 0
	for at+block < len(x) && !sameNumber(simd.Max(x[at:at+block]), largest) {
		at += block
	}
	for !sameNumber(x[at], largest) {
		at++
	}
	return at
}

// sameNumber reports whether two numbers are equal, as NaNs are here.
func sameNumber(a, b float32) bool { return a == b || a != a && b != b }
