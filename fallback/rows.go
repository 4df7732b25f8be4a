package fallback

import (
	"sync"
	"unsafe"

	"github.com/kompute-go/kompute-go/fallback/internal/simd"
	"github.com/kompute-go/kompute-go/internal/array"
)

// buffer is scratch memory for float32 rows.
type buffer struct{ f []float32 }

var buffers = sync.Pool{New: func() any { return new(buffer) }}

// borrow returns a buffer of n numbers with undefined values; return it with release.
func borrow(n int) *buffer {
	b := buffers.Get().(*buffer)
	if cap(b.f) < n {
		b.f = make([]float32, max(n, 1024))
	}
	b.f = b.f[:n]
	return b
}

func (b *buffer) release() { buffers.Put(b) }

// cut removes the first n numbers from a buffer.
func cut(rest *[]float32, n int) []float32 {
	out := (*rest)[:n:n]
	*rest = (*rest)[n:]
	return out
}

// storage returns the whole storage of a as a slice of T, which has the size of
// the array's elements.
func storage[T float32 | int32 | uint32 | uint16 | uint8](a *array.Array) []T {
	var zero T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(a.Data))), len(a.Data)/int(unsafe.Sizeof(zero)))
}

// elements returns the memory of n elements of a contiguous array, and none of any other.
func elements(a *array.Array, first, n int) []byte {
	if n <= 0 || !a.Present() || !a.IsContiguous() {
		return nil
	}
	size := a.DType.Size()
	return a.Data[(a.Offset+first)*size:][:n*size]
}

// view returns n elements of s from off on, stride apart: in place if they are
// contiguous, else copied to buf.
func view[T any](s []T, off, stride, n int, buf []T) []T {
	if stride == 1 || n == 1 {
		return s[off : off+n]
	}
	buf = buf[:n]
	if stride == 0 {
		v := s[off]
		for i := range buf {
			buf[i] = v
		}
		return buf
	}
	for i := range buf {
		buf[i] = s[off]
		off += stride
	}
	return buf
}

// scatter writes src to s from off on, stride apart.
func scatter[T any](s []T, off, stride int, src []T) {
	if stride == 1 {
		copy(s[off:off+len(src)], src)
		return
	}
	for _, v := range src {
		s[off] = v
		off += stride
	}
}

// halfBlock is how many 16-bit elements are gathered at a time.
const halfBlock = 256

// loadFloats widens len(dst) elements of a float array to float32.
func loadFloats(dst []float32, a *array.Array, off, stride int) {
	n := len(dst)
	if n == 0 {
		return
	}
	if a.DType == array.Float32 {
		copy(dst, view(storage[float32](a), off, stride, n, dst))
		return
	}
	widen := simd.FromF16
	if a.DType == array.BFloat16 {
		widen = simd.FromBF16
	}
	s := storage[uint16](a)
	if stride == 1 {
		widen(dst, s[off:off+n])
		return
	}
	var buf [halfBlock]uint16
	for i := 0; i < n; i += halfBlock {
		m := min(halfBlock, n-i)
		widen(dst[i:i+m], view(s, off+i*stride, stride, m, buf[:]))
	}
}

// floats returns n elements of a float array as float32: the storage itself if
// possible, else a copy in buf.
func floats(a *array.Array, off, stride, n int, buf []float32) []float32 {
	if n == 0 {
		return buf[:0]
	}
	if a.DType == array.Float32 {
		return view(storage[float32](a), off, stride, n, buf)
	}
	loadFloats(buf[:n], a, off, stride)
	return buf[:n]
}

// storeFloats rounds src to the elements of a float array.
func storeFloats(a *array.Array, off, stride int, src []float32) {
	if len(src) == 0 {
		return
	}
	if a.DType == array.Float32 {
		s := storage[float32](a)
		if &s[off] == &src[0] {
			return // computed in place
		}
		scatter(s, off, stride, src)
		return
	}
	narrow := simd.ToF16
	if a.DType == array.BFloat16 {
		narrow = simd.ToBF16
	}
	s := storage[uint16](a)
	if stride == 1 {
		narrow(s[off:off+len(src)], src)
		return
	}
	var buf [halfBlock]uint16
	for i := 0; i < len(src); i += halfBlock {
		m := min(halfBlock, len(src)-i)
		narrow(buf[:m], src[i:i+m])
		scatter(s, off+i*stride, stride, buf[:m])
	}
}

// place returns where to compute n elements that storeFloats then stores: the
// storage itself if possible, else buf.
func place(a *array.Array, off, stride, n int, buf []float32) []float32 {
	if a.DType == array.Float32 && (stride == 1 || n == 1) {
		return storage[float32](a)[off : off+n]
	}
	return buf[:n]
}

// eachRow calls f for every row along the last axis of x, which has elements: f
// computes the row of out, of the same length. cost is that of one row, as in
// loop.each. x and out are of float types and may be the very same view.
func eachRow(cost float64, x, out *array.Array, f func(dst, row []float32)) {
	last := len(x.Shape) - 1
	cols, in, to := x.Shape[last], x.Strides[last], out.Strides[last]
	l := newLoop(last, x, out)
	l.each(cost, func(at cursor, lo, hi int) {
		scratch := borrow(2 * cols)
		defer scratch.release()
		for range hi - lo {
			buf := scratch.f
			row := floats(x, at.off[0], in, cols, cut(&buf, cols))
			dst := place(out, at.off[1], to, cols, buf)
			f(dst, row)
			storeFloats(out, at.off[1], to, dst)
			at.next()
		}
	})
}

// vector returns a one-dimensional operand as float32, nil if it is absent.
func vector(a *array.Array, buf []float32) []float32 {
	if !a.Present() {
		return nil
	}
	return floats(a, a.Offset, a.Strides[0], len(buf), buf)
}
