package fallback

import "github.com/kompute-go/kompute-go/internal/array"

// Copy copies x to out, of one shape and type, whatever their layouts.
//
// Errors: ErrInvalid for other shapes or types.
func Copy(x, out array.Array) error {
	c := checker{op: "copy"}
	c.array("x", &x)
	c.array("out", &out)
	c.shape("out", &out, x.Shape)
	c.dtype("out", &out, x.DType)
	if c.err != nil {
		return c.err
	}
	copyArray(&x, &out)
	return nil
}

// copyArray copies sound arrays of one shape and of types of one size.
func copyArray(x, out *array.Array) {
	if n := x.Size(); n <= blockSize && x.IsContiguous() && out.IsContiguous() {
		copy(elements(out, 0, n), elements(x, 0, n))
		return
	}
	l := newLoop(len(x.Shape), x, out)
	switch x.DType.Size() {
	case 4:
		copyElements[uint32](&l, x, out)
	case 2:
		copyElements[uint16](&l, x, out)
	default:
		copyElements[uint8](&l, x, out)
	}
}

func copyElements[T uint32 | uint16 | uint8](l *loop, x, out *array.Array) {
	src, dst := storage[T](x), storage[T](out)
	inner := l.inner()
	if l.size > 0 && l.rank > 1 && inner[1] == 1 && inner[0] != 1 && l.strides[l.rank-2][0] == 1 {
		transposeElements(l, dst, src)
		return
	}
	l.blocks(0.5, func(off offsets, n int) {
		copyRow(dst, off[1], inner[1], src, off[0], inner[0], n)
	})
}

// copyRow copies n elements between strided rows.
func copyRow[T uint32 | uint16 | uint8](dst []T, to, toStride int, src []T, from, fromStride, n int) {
	if fromStride == 1 || n == 1 {
		scatter(dst, to, toStride, src[from:from+n])
		return
	}
	if toStride == 1 {
		row := dst[to : to+n]
		for i := range row {
			row[i] = src[from]
			from += fromStride
		}
		return
	}
	for range n {
		dst[to] = src[from]
		to += toStride
		from += fromStride
	}
}

// copyTile is the side of the squares that transposeElements copies: so small
// that their rows and columns stay in the cache.
const copyTile = 32

// transposeElements copies arrays if rows of the result are columns of the
// source.
func transposeElements[T uint32 | uint16 | uint8](l *loop, dst, src []T) {
	rows, cols := l.shape[l.rank-2], l.shape[l.rank-1]
	rowStride, colStride := l.strides[l.rank-2][1], l.inner()[0]
	strips := (rows + copyTile - 1) / copyTile
	matrices := l.size / (rows * cols)
	parallel(matrices*strips, float64(cols*copyTile), func(lo, hi int) {
		for unit := lo; unit < hi; unit++ {
			off := l.seek(l.rank-2, unit/strips).off
			first := unit % strips * copyTile
			n := min(copyTile, rows-first)
			for col := 0; col < cols; col += copyTile {
				width := min(copyTile, cols-col)
				for i := first; i < first+n; i++ {
					to := dst[off[1]+i*rowStride+col:][:width]
					from := off[0] + i + col*colStride
					for j := range to {
						to[j] = src[from]
						from += colStride
					}
				}
			}
		}
	})
}
