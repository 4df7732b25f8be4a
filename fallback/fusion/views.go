package fusion

import (
	"slices"

	"github.com/kompute-go/kompute-go/internal/array"
)

// sameView reports whether these are the same elements in the same order and
// shape; strides of axes of length 1 do not count.
func sameView(a, b Array) bool {
	if a.Storage != b.Storage || a.DType != b.DType || a.Offset != b.Offset || !slices.Equal(a.Shape, b.Shape) {
		return false
	}
	for i, n := range a.Shape {
		if n > 1 && a.Strides[i] != b.Strides[i] {
			return false
		}
	}
	return true
}

// sameData reports whether both are contiguous and have the same elements: one
// is a reshape of the other.
func sameData(a, b Array) bool {
	return a.Storage == b.Storage && a.DType == b.DType && a.Offset == b.Offset && a.Size() == b.Size() &&
		a.IsContiguous() && b.IsContiguous()
}

// sameOptional is sameView, also where both are absent.
func sameOptional(a, b Array) bool {
	return a.Present() == b.Present() && (!a.Present() || sameView(a, b))
}

// bytesOf returns the range of the elements in the storage, gaps included.
func bytesOf(a Array) (lo, hi int) {
	if !a.Present() {
		return 0, 0
	}
	lo, hi = a.Extent()
	return lo * a.DType.Size(), hi * a.DType.Size()
}

// overlaps reports whether any byte between the first and the last element of one
// is between those of the other.
func overlaps(a, b Array) bool {
	if !a.Present() || a.Storage != b.Storage {
		return false
	}
	from, to := bytesOf(a)
	lo, hi := bytesOf(b)
	return from < hi && lo < to
}

// coversStorage reports whether every byte of the storage belongs to exactly one
// element.
func coversStorage(a Array) bool {
	return a.Size()*a.DType.Size() == a.Bytes && array.Covers(a.Layout, a.Size())
}

// rowsOfHeads views x as rows [H, D], where H is the one axis before the last that
// is longer than 1; ok is false if there are several.
func rowsOfHeads(x Array) (rows Array, ok bool) {
	rank := len(x.Shape)
	if !x.Present() || rank < 2 {
		return Array{}, false
	}
	d := x.Shape[rank-1]
	rows = x
	rows.Layout = array.Layout{Shape: []int{1, d}, Strides: []int{d, x.Strides[rank-1]}, Offset: x.Offset}
	for i, n := range x.Shape[:rank-1] {
		if n == 1 {
			continue
		}
		if rows.Shape[0] != 1 {
			return Array{}, false
		}
		rows.Shape[0], rows.Strides[0] = n, x.Strides[i]
	}
	return rows, true
}

func sameRows(a, b Array) bool {
	x, okX := rowsOfHeads(a)
	y, okY := rowsOfHeads(b)
	return okX && okY && sameView(x, y)
}
