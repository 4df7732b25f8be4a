package kompute

import "github.com/kompute-go/kompute-go/internal/array"

// overlaps reports whether elements share memory, along a broadcast axis.
func overlaps(l array.Layout) bool {
	if l.Size() == 0 {
		return false
	}
	for i, d := range l.Shape {
		if d > 1 && l.Strides[i] == 0 {
			return true
		}
	}
	return false
}

// gather copies the elements of a view to dst in row-major order, and makes them Go bools if
// that is their type.
func gather[T Element](dst, storage []T, l array.Layout) {
	walk(l, func(i, at, n, stride int) {
		if stride == 1 {
			copy(dst[i:i+n], storage[at:at+n])
			return
		}
		for k := range n {
			dst[i+k] = storage[at+k*stride]
		}
	})
	makeBools(dst)
}

// makeBools makes Go bools of elements if that is their type: undefined content, and what a
// caller's kernel or Op.CPU has written, may have other bytes, which become true.
func makeBools[T Element](elements []T) {
	if bools, is := any(elements).([]bool); is {
		for i, b := range array.Bytes(bools) {
			bools[i] = b != 0
		}
	}
}

// walk calls f for each run along the innermost axis, with the row-major index
// i of its first element and that element's position at in the storage.
func walk(l array.Layout, f func(i, at, n, stride int)) {
	size := l.Size()
	if size == 0 {
		return
	}
	l = l.Collapse()
	k := len(l.Shape) - 1
	if k < 0 {
		f(0, l.Offset, 1, 1)
		return
	}
	n, stride := l.Shape[k], l.Strides[k]
	var index [array.MaxRank]int
	at := l.Offset
	for i := 0; i < size; i += n {
		f(i, at, n, stride)
		for a := k - 1; a >= 0; a-- {
			at += l.Strides[a]
			if index[a]++; index[a] < l.Shape[a] {
				break
			}
			at -= index[a] * l.Strides[a]
			index[a] = 0
		}
	}
}

// gatherBytes is gather for elements of size bytes whose type is not known.
func gatherBytes(dst, storage []byte, size int, l array.Layout) {
	walk(l, func(i, at, n, stride int) {
		if stride == 1 {
			copy(dst[i*size:(i+n)*size], storage[at*size:(at+n)*size])
			return
		}
		for k := range n {
			copy(dst[(i+k)*size:(i+k+1)*size], storage[(at+k*stride)*size:])
		}
	})
}

// scatterBytes copies src, in row-major order, to the elements of a view.
func scatterBytes(storage, src []byte, size int, l array.Layout) {
	walk(l, func(i, at, n, stride int) {
		if stride == 1 {
			copy(storage[at*size:(at+n)*size], src[i*size:(i+n)*size])
			return
		}
		for k := range n {
			copy(storage[(at+k*stride)*size:(at+k*stride+1)*size], src[(i+k)*size:])
		}
	})
}
