package fallback

import (
	"math"

	"github.com/kompute-go/kompute-go/fallback/internal/simd"
	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/opdef"
)

// floatPart is a partial result: of LogSumExp the largest element and the sum
// of exponentials relative to it, else one number.
type floatPart struct{ v, sum float32 }

// reduceFloats computes every kind except the indexed ones.
func reduceFloats(kind opdef.ReduceKind, x, out *array.Array) {
	r := newReduction(x, out)
	if (kind == opdef.ReduceSum || kind == opdef.ReduceMean) && r.columns() {
		sumColumns(&r, x, out, kind == opdef.ReduceMean)
		return
	}
	one := func(base, piece int) floatPart {
		scratch := borrow(reducePiece)
		defer scratch.release()
		var row []float32
		r.runs(base, piece, func(off, stride, n, done int) {
			if n == min(reducePiece, r.inner.size-piece*reducePiece) {
				row = floats(x, off, stride, n, scratch.f)
				return
			}
			loadFloats(scratch.f[done:done+n], x, off, stride)
			row = scratch.f[:done+n]
		})
		return foldFloats(kind, row)
	}
	count := float32(r.inner.size)
	reducePieces(&r, 1, one, func(a, b floatPart) floatPart { return joinFloats(kind, a, b) }, emptyFloat(kind),
		func(off int, p floatPart) {
			switch kind {
			case opdef.ReduceAll, opdef.ReduceAny:
				storage[uint8](out)[off] = toByte(p.v != 0)
				return
			case opdef.ReduceMean:
				p.v /= count
			case opdef.ReduceLogSumExp:
				p.v = p.logSum()
			}
			storeFloats(out, off, 1, []float32{p.v})
		})
}

func emptyFloat(kind opdef.ReduceKind) floatPart {
	if kind == opdef.ReduceProd || kind == opdef.ReduceAll {
		return floatPart{v: 1}
	}
	return floatPart{}
}

// foldFloats reduces a row that is not empty.
func foldFloats(kind opdef.ReduceKind, row []float32) floatPart {
	switch kind {
	case opdef.ReduceSum, opdef.ReduceMean:
		return floatPart{v: sumFloats(row)}
	case opdef.ReduceProd:
		return floatPart{v: multiplyFloats(row)}
	case opdef.ReduceAMax:
		return floatPart{v: simd.Max(row)}
	case opdef.ReduceAMin:
		m := row[0]
		for _, v := range row {
			m = min(m, v)
		}
		return floatPart{v: m}
	case opdef.ReduceLogSumExp:
		return foldExps(row)
	}
	for _, v := range row {
		if (v != 0) == (kind == opdef.ReduceAny) {
			return floatPart{v: float32(toByte(v != 0))}
		}
	}
	return floatPart{v: float32(toByte(kind == opdef.ReduceAll))}
}

// sumBlock is how many elements are added one after another, in eight lanes: with
// more, roundings in the same direction would add up.
const sumBlock = 256

// sumFloats adds the elements of a piece, or of a part of one: in blocks, and the blocks in
// pairs.
func sumFloats(row []float32) float32 {
	var sums [reducePiece / sumBlock]float32
	n := 0
	for ; len(row) > sumBlock; row = row[sumBlock:] {
		sums[n] = sumLanes(row[:sumBlock])
		n++
	}
	sums[n] = sumLanes(row)
	return joinPairs(sums[:n+1], func(a, b float32) float32 { return a + b })
}

// sumLanes adds in eight lanes, and the lanes in pairs.
func sumLanes(row []float32) float32 {
	var a [8]float32
	row = row[simd.SumLanes(&a, row):]
	for ; len(row) >= 8; row = row[8:] {
		for i := range a {
			a[i] += row[i]
		}
	}
	for i, v := range row {
		a[i] += v
	}
	return ((a[0] + a[1]) + (a[2] + a[3])) + ((a[4] + a[5]) + (a[6] + a[7]))
}

func multiplyFloats(row []float32) float32 {
	a := [4]float32{1, 1, 1, 1}
	for i, v := range row {
		a[i%4] *= v
	}
	return (a[0] * a[1]) * (a[2] * a[3])
}

func foldExps(row []float32) floatPart {
	top := simd.Max(row)
	if math.IsInf(float64(top), 0) || top != top {
		return floatPart{v: top, sum: 1}
	}
	var exps [reducePiece]float32
	return floatPart{v: top, sum: simd.ExpSum(exps[:len(row)], row, top)}
}

// logSum is the result of LogSumExp.
func (p floatPart) logSum() float32 {
	if math.IsInf(float64(p.v), 0) || p.v != p.v {
		return p.v
	}
	return p.v + float32(math.Log(float64(p.sum)))
}

func joinFloats(kind opdef.ReduceKind, a, b floatPart) floatPart {
	switch kind {
	case opdef.ReduceSum, opdef.ReduceMean:
		return floatPart{v: a.v + b.v}
	case opdef.ReduceProd, opdef.ReduceAll:
		return floatPart{v: a.v * b.v}
	case opdef.ReduceAMin:
		return floatPart{v: min(a.v, b.v)}
	case opdef.ReduceAMax, opdef.ReduceAny:
		return floatPart{v: max(a.v, b.v)}
	}
	top := max(a.v, b.v)
	if math.IsInf(float64(top), 0) || top != top {
		return floatPart{v: top, sum: 1}
	}
	return floatPart{v: top, sum: a.sum*simd.Exp32(a.v-top) + b.sum*simd.Exp32(b.v-top)}
}

// reduceInts computes every kind that exists for integers, except the indexed
// ones. 64 bits hold every partial result, or at least its lowest 32 bits.
func reduceInts[T integer](kind opdef.ReduceKind, x, out *array.Array) {
	r := newReduction(x, out)
	s := storage[T](x)
	one := func(base, piece int) int64 {
		var p int64
		r.runs(base, piece, func(off, stride, n, done int) {
			for i := range n {
				v := int64(s[off+i*stride])
				if kind == opdef.ReduceAll || kind == opdef.ReduceAny {
					v = int64(toByte(v != 0))
				}
				if done+i == 0 {
					p = v
					continue
				}
				p = joinInts(kind, p, v)
			}
		})
		return p
	}
	empty := int64(toByte(kind == opdef.ReduceProd || kind == opdef.ReduceAll))
	reducePieces(&r, 2, one, func(a, b int64) int64 { return joinInts(kind, a, b) }, empty, func(off int, p int64) {
		switch out.DType {
		case array.Float32:
			storage[float32](out)[off] = float32(float64(p) / float64(r.inner.size))
		case array.Bool, array.Uint8:
			storage[uint8](out)[off] = uint8(p)
		default:
			storage[uint32](out)[off] = uint32(p)
		}
	})
}

func joinInts(kind opdef.ReduceKind, a, b int64) int64 {
	switch kind {
	case opdef.ReduceProd, opdef.ReduceAll:
		return a * b
	case opdef.ReduceAMax, opdef.ReduceAny:
		return max(a, b)
	case opdef.ReduceAMin:
		return min(a, b)
	}
	return a + b
}
