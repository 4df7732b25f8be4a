package fallback

import (
	"slices"

	"github.com/kompute-go/kompute-go/fallback/internal/simd"
	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/opdef"
)

// QuantizedMatMul multiplies x [..., M, K] with a quantized matrix to out
// [..., M, N]. With transpose, w is [N, K*bits/32] uint32 with scales and biases
// [N, K/group], and out = x·wᵀ; without, w is [K, N*bits/32] with scales and
// biases [K, N/group], and out = x·w. x and out have one float type, independent
// of that of scales and biases. Sums run in float32. In the modes without biases
// scales are uint8, and biases absent.
//
// Errors: ErrInvalid for other shapes or types, or a format that does not exist.
func QuantizedMatMul(x, w, scales, biases, out array.Array, q Quantization, transpose bool) error {
	c := checker{op: "quantized_matmul"}
	a := c.packed(&w, &scales, &biases, q)
	c.rank("w", &w, 2)
	c.float("x", &x)
	c.float("out", &out)
	c.dtype("out", &out, x.DType)
	if c.err == nil && len(x.Shape) < 2 {
		c.fail("x has shape %v, less than 2 axes", x.Shape)
	}
	if c.err != nil {
		return c.err
	}
	k, n := w.Shape[0], a.cols
	if transpose {
		k, n = n, k
	}
	last := len(x.Shape) - 1
	if x.Shape[last] != k {
		c.fail("rows of x have %d elements, w takes %d", x.Shape[last], k)
	}
	c.shape("out", &out, append(slices.Clone(x.Shape[:last]), n))
	if c.err != nil || out.Size() == 0 {
		return c.err
	}
	rows := out.Size() / n
	if a.Mode == opdef.ModeAffine && transpose && rows <= maxVectorRows && k > 0 {
		a.vectors(&x, &out, rows)
		return nil
	}
	// One matrix of all rows: a tile of w serves every one of them.
	flatX, flatOut := flatten(&x, rows), flatten(&out, rows)
	if flatX != nil && flatOut != nil {
		a.product(flatX, flatOut, transpose)
		return nil
	}
	a.product(&x, &out, transpose)
	return nil
}

// flatten views an array as a matrix of rows, or returns nil where that needs a
// copy.
func flatten(x *array.Array, rows int) *array.Array {
	l, err := x.Reshape(rows, x.Dim(-1))
	if err != nil {
		return nil
	}
	return &array.Array{DType: x.DType, Layout: l, Data: x.Data}
}

// maxVectorRows is up to how many rows of x are multiplied by the codes
// themselves; for more, dequantized tiles are faster.
const maxVectorRows = 4

// vectorBlock is how many rows of w are multiplied at a time.
const vectorBlock = 64

// vectors multiplies each row of x with the codes of w [N, K].
func (a *packed) vectors(x, out *array.Array, rows int) {
	n := a.w.Shape[0]
	last := len(x.Shape) - 1
	space := simd.RowSpace(a.cols, a.GroupSize)
	scratch := borrow(rows*space + a.cols)
	defer scratch.release()
	rest := scratch.f
	l := newLoop(last, x, out)
	at := l.seek(l.rank, 0)
	var prepared [maxVectorRows]simd.Row
	var start [maxVectorRows]int
	for i := range rows {
		row := floats(x, at.off[0], x.Strides[last], a.cols, scratch.f[rows*space:])
		prepared[i] = simd.PrepareRow(cut(&rest, space), row, a.GroupSize, a.Bits)
		start[i] = at.off[1]
		at.next()
	}
	stride := out.Strides[last]
	cost := 0.06 * float64(a.cols*rows)
	if simd.Active() == simd.Generic {
		cost *= 16
	}
	f := a.factors()
	defer f.release()
	parallel(n, cost, func(lo, hi int) {
		sums := borrow(vectorBlock)
		defer sums.release()
		for ; lo < hi; lo += vectorBlock {
			count := min(vectorBlock, hi-lo)
			w := a.rows(&f, lo, lo+count, 0, a.groups)
			for i := range rows {
				res := place(out, start[i]+lo*stride, stride, count, sums.f)
				simd.QuantDots(res, &w, prepared[i], count)
				storeFloats(out, start[i]+lo*stride, stride, res)
			}
		}
	})
}

// product multiplies with tiles of w that are dequantized once for many rows.
func (a *packed) product(x, out *array.Array, transpose bool) {
	r := len(x.Shape)
	outLoop := newLoop(r-2, out)
	g := gemm{
		batches: outLoop.size, m: x.Shape[r-2], n: out.Shape[r-1], k: x.Shape[r-1],
		out: out, outLoop: &outLoop, dots: transpose, tileCost: 1,
	}
	if g.k == 0 {
		g.a = func(int) rowMatrix { return rowMatrix{} }
	} else {
		var release func()
		g.a, release = floatMatrices(x)
		defer release()
	}
	var f factors
	if a.Mode == opdef.ModeAffine {
		f = a.factors()
		defer f.release()
	}
	// Tiles are 64 KiB and hold whole groups.
	g.tileK, g.tileN = 128, 128
	if transpose {
		g.tileK, g.tileN = 512, 32
	}
	g.tile = func(_, k0, kn, n0, nn int, buf []float32) rowMatrix {
		row, rows, col, cols := k0, kn, n0, nn
		if transpose {
			row, rows, col, cols = n0, nn, k0, kn
		}
		g0, g1 := col/a.GroupSize, (col+cols)/a.GroupSize
		if a.Mode != opdef.ModeAffine {
			for i := range rows {
				at := row + i
				a.values(buf[i*cols:], a.w.Offset+at*a.w.Strides[0], a.scales.Offset+at*a.scales.Strides[0], g0, g1)
			}
			return rowMatrix{buf, cols}
		}
		w := a.rows(&f, row, row+rows, g0, g1)
		simd.Dequantize(buf, cols, &w, rows)
		return rowMatrix{buf, cols}
	}
	g.run()
}
