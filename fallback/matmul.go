package fallback

import (
	"slices"

	"github.com/kompute-go/kompute-go/internal/array"
)

// MatMul computes out [..., M, N] = a [..., M, K] · b [..., K, N]. All have the
// same leading axes and one float type; products are summed in float32.
//
// Errors: ErrInvalid for other shapes or types.
func MatMul(a, b, out array.Array) error {
	c := checker{op: "matmul"}
	c.float("a", &a)
	c.float("b", &b)
	c.float("out", &out)
	c.dtype("b", &b, a.DType)
	c.dtype("out", &out, a.DType)
	if c.err == nil && len(a.Shape) < 2 {
		c.fail("a has shape %v, less than 2 axes", a.Shape)
	}
	c.rank("b", &b, len(a.Shape))
	if c.err != nil {
		return c.err
	}
	r := len(a.Shape)
	batch, n := a.Shape[:r-2], b.Shape[r-1]
	c.shape("b", &b, slices.Concat(batch, []int{a.Shape[r-1], n}))
	c.shape("out", &out, slices.Concat(batch, []int{a.Shape[r-2], n}))
	if c.err != nil {
		return c.err
	}
	matMul(&a, &b, &out)
	return nil
}

func matMul(a, b, out *array.Array) {
	r := len(a.Shape)
	outLoop, bLoop := newLoop(r-2, out), newLoop(r-2, b)
	g := gemm{
		batches: outLoop.size, m: a.Shape[r-2], n: b.Shape[r-1], k: a.Shape[r-1],
		out: out, outLoop: &outLoop, tileCost: 0.5,
	}
	if out.Size() == 0 {
		return
	}
	if g.k == 0 {
		g.a = func(int) rowMatrix { return rowMatrix{} }
	} else {
		var release func()
		g.a, release = floatMatrices(a)
		defer release()
	}
	kStride, nStride := b.Strides[r-2], b.Strides[r-1]
	// Where the columns of b are contiguous, elements are dot products; otherwise
	// rows of b are added up.
	g.dots = kStride == 1 && nStride != 1
	uses := g.m
	if g.m > directRows {
		uses = 1 // panels are copies
	}
	g.tile = func(batch, k0, kn, n0, nn int, buf []float32) rowMatrix {
		at := bLoop.seek(bLoop.rank, batch)
		off := at.off[0] + k0*kStride + n0*nStride
		if g.dots {
			return tileRows(b, off, nStride, nn, kStride, kn, uses, buf)
		}
		return tileRows(b, off, kStride, kn, nStride, nn, uses, buf)
	}
	if g.dots && b.DType != array.Float32 {
		words := storage[uint16](b)
		g.narrow = func(batch, k0, n0 int) narrowMatrix {
			at := bLoop.seek(bLoop.rank, batch)
			return narrowMatrix{words[at.off[0]+k0+n0*nStride:], nStride, b.DType}
		}
	}
	g.run()
}

// tileRows returns rows of a matrix that are used that many times: the storage
// itself, or a copy in buf if elements must be converted, or if rows are so far
// apart that using them repeatedly costs more than the copy.
func tileRows(b *array.Array, off, rowStride, rows, stride, n, uses int, buf []float32) rowMatrix {
	if b.DType == array.Float32 && stride == 1 && uses <= 8 {
		return rowMatrix{storage[float32](b)[off:], rowStride}
	}
	if stride != 1 && rowStride == 1 && b.DType == array.Float32 {
		transposeRows(storage[float32](b), off, rows, stride, n, buf)
		return rowMatrix{buf, n}
	}
	if stride == 1 && rowStride == n {
		loadFloats(buf[:rows*n], b, off, 1)
		return rowMatrix{buf, n}
	}
	for i := range rows {
		loadFloats(buf[i*n:(i+1)*n], b, off+i*rowStride, stride)
	}
	return rowMatrix{buf, n}
}

// transposeRows copies rows whose elements are stride apart and that start next
// to each other.
func transposeRows(s []float32, off, rows, stride, n int, buf []float32) {
	for j := range n {
		for i, v := range s[off+j*stride : off+j*stride+rows] {
			buf[i*n+j] = v
		}
	}
}
