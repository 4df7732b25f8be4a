package fallback

import (
	"runtime"

	"github.com/kompute-go/kompute-go/fallback/internal/simd"
	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/opdef"
)

// columns reports whether neighbouring results are sums of neighbouring columns,
// so that whole rows can be added instead of gathering each column.
func (r *reduction) columns() bool {
	return r.inner.rank == 1 && r.outer.rank == 1 && r.outer.strides[0][0] == 1 && r.inner.strides[0][0] != 1 && r.inner.size > 0
}

// Columns are added in blocks of wideBlock or, where those are too few for the threads,
// of narrowBlock.
const (
	narrowBlock = 256
	wideBlock   = 512
)

// sumColumns adds up columns in the same order as foldFloats and joinPairs, so that
// a transposed matrix and its copy have the same sums.
func sumColumns(r *reduction, x, out *array.Array, mean bool) {
	rows, stride := r.inner.size, r.inner.strides[0][0]
	columnBlock := narrowBlock
	if r.outer.size >= 2*wideBlock*runtime.GOMAXPROCS(0) {
		columnBlock = wideBlock
	}
	blocks := (r.outer.size + columnBlock - 1) / columnBlock
	parallel(blocks, 0.2*float64(rows*columnBlock), func(lo, hi int) {
		parts := (rows + sumBlock - 1) / sumBlock
		scratch := borrow((9 + parts) * columnBlock)
		defer scratch.release()
		for block := lo; block < hi; block++ {
			first := block * columnBlock
			n := min(columnBlock, r.outer.size-first)
			space := scratch.f
			lanes, row := cut(&space, 8*n), cut(&space, n)
			blocks := make([][]float32, parts)
			for i := range blocks {
				base := r.outer.start[0] + first + i*sumBlock*stride
				blocks[i] = cut(&space, n)
				sumRows(blocks[i], x, base, stride, min(sumBlock, rows-i*sumBlock), lanes, row)
			}
			sums := joinPairs(blocks, func(a, b []float32) []float32 {
				binaryFloatRow(opdef.BinaryAdd, a, a, b)
				return a
			})
			if mean {
				binaryFloatRow(opdef.BinaryDiv, sums, sums, []float32{float32(rows)})
			}
			storeFloats(out, r.outer.start[1]+first*r.outer.strides[0][1], r.outer.strides[0][1], sums)
		}
	})
}

// sumRows adds rows of columns, every eighth row to a lane, and then the lanes.
func sumRows(sums []float32, x *array.Array, base, stride, rows int, lanes, buf []float32) {
	n := len(sums)
	lane := func(i int) []float32 { return lanes[i*n : (i+1)*n] }
	for i := range rows {
		at := base + i*stride
		if i < 8 { // the sum with 0, as sumLanes begins
			binaryFloatRow(opdef.BinaryAdd, lane(i), floats(x, at, 1, n, buf), []float32{0})
			continue
		}
		addRow(lane(i%8), x, at)
	}
	for _, pair := range [][2]int{{0, 1}, {2, 3}, {4, 5}, {6, 7}, {0, 2}, {4, 6}, {0, 4}} {
		if pair[1] >= rows {
			continue // it is 0
		}
		binaryFloatRow(opdef.BinaryAdd, lane(pair[0]), lane(pair[0]), lane(pair[1]))
	}
	copy(sums, lane(0))
}

// addRow adds neighbouring elements of x, from at on, to sums.
func addRow(sums []float32, x *array.Array, at int) {
	switch x.DType {
	case array.BFloat16:
		simd.AddBF16(sums, storage[uint16](x)[at:at+len(sums)])
	case array.Float16:
		simd.AddF16(sums, storage[uint16](x)[at:at+len(sums)])
	default:
		row := storage[float32](x)[at : at+len(sums)]
		for j := simd.BinaryRow(simd.Add, sums, sums, row); j < len(row); j++ {
			sums[j] += row[j]
		}
	}
}
