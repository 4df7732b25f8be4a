package fallback

import (
	"github.com/kompute-go/kompute-go/array"
	"github.com/kompute-go/kompute-go/fallback/internal/simd"
)

// ArgMax finds where the largest element of each row is: out [...] is uint32, and
// x has one more axis, the last. The first of equals wins, and a NaN wins over
// everything.
//
// Errors: ErrInvalid for other shapes or types, or rows without elements.
func ArgMax(x, out array.Array) error {
	c := checker{op: "arg_max"}
	c.array("x", &x)
	c.array("out", &out)
	c.lastAxis("x", &x)
	c.dtype("out", &out, array.Uint32)
	if c.err == nil {
		c.shape("out", &out, x.Shape[:len(x.Shape)-1])
	}
	if c.err == nil && x.Dim(-1) == 0 && out.Size() > 0 {
		c.fail("rows of shape %v have no elements", x.Shape)
	}
	if c.err != nil {
		return c.err
	}
	if out.Size() == 0 {
		return nil
	}
	switch x.DType {
	case array.Int32:
		argMaxRows(&x, &out, argMaxInts[int32])
	case array.Uint32:
		argMaxRows(&x, &out, argMaxInts[uint32])
	case array.Bool, array.Uint8:
		argMaxRows(&x, &out, argMaxInts[uint8])
	default:
		argMaxRows(&x, &out, argMaxFloats)
	}
	return nil
}

// argMaxPiece is how much of a long row one goroutine searches at a time.
const argMaxPiece = 8192

// argMaxRows searches pieces of rows in parallel and then the pieces' maxima.
// find returns the place of the maximum among n elements, and a key to compare
// the maxima of pieces by.
func argMaxRows[K int64 | float32](x, out *array.Array, find func(x *array.Array, off, stride, n int) (int, K)) {
	last := len(x.Shape) - 1
	cols, stride := x.Shape[last], x.Strides[last]
	pieces := (cols + argMaxPiece - 1) / argMaxPiece
	l := newLoop(last, x, out)
	places := make([]int, l.size*pieces)
	keys := make([]K, l.size*pieces)
	parallel(len(places), float64(min(cols, argMaxPiece)), func(lo, hi int) {
		at := l.seek(l.rank, lo/pieces)
		for i := lo; i < hi; i++ {
			first := i % pieces * argMaxPiece
			n := min(argMaxPiece, cols-first)
			place, key := find(x, at.off[0]+first*stride, stride, n)
			places[i], keys[i] = first+place, key
			if (i+1)%pieces == 0 {
				at.next()
			}
		}
	})
	at := l.seek(l.rank, 0)
	res := storage[uint32](out)
	for row := range l.size {
		best := firstMax(keys[row*pieces : (row+1)*pieces])
		res[at.off[1]] = uint32(places[row*pieces+best])
		at.next()
	}
}

// firstMax returns where the largest key is, or the first NaN.
func firstMax[K int64 | float32](keys []K) int {
	best := 0
	for i, k := range keys {
		if k > keys[best] || k != k && keys[best] == keys[best] {
			best = i
		}
	}
	return best
}

func argMaxInts[T integer](x *array.Array, off, stride, n int) (int, int64) {
	s := storage[T](x)
	best, place := s[off], 0
	for i := range n {
		if v := s[off+i*stride]; v > best {
			best, place = v, i
		}
	}
	return place, int64(best)
}

func argMaxFloats(x *array.Array, off, stride, n int) (int, float32) {
	scratch := borrow(n)
	defer scratch.release()
	row := floats(x, off, stride, n, scratch.f)
	m := simd.Max(row) // NaN if there is one
	for i, v := range row {
		if v == m || m != m && v != v {
			return i, m
		}
	}
	return 0, m
}
