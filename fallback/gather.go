package fallback

import (
	"slices"

	"github.com/kompute-go/kompute-go/internal/array"
)

// Gather picks slices of x along axis: x [pre…, V, post…] and indices [i…], int32
// or uint32, give out [pre…, i…, post…], of x's type. axis is the one of length V,
// and may count from the end. For example, x [10, 4], indices [3] and axis 0 give
// [3, 4]. A negative index counts from the end; an index outside the axis gives
// zeros.
//
// Errors: ErrInvalid for other shapes or types, or an axis that x lacks.
func Gather(x, indices, out array.Array, axis int) error {
	c := checker{op: "gather"}
	c.array("x", &x)
	c.index("indices", &indices)
	c.array("out", &out)
	c.dtype("out", &out, x.DType)
	if c.err == nil {
		var err error
		if axis, err = x.Axis(axis); err != nil {
			c.fail("%v", err)
		} else {
			c.shape("out", &out, slices.Concat(x.Shape[:axis], indices.Shape, x.Shape[axis+1:]))
		}
	}
	if c.err != nil {
		return c.err
	}
	switch x.DType.Size() {
	case 4:
		gather[uint32](&x, &indices, &out, axis)
	case 2:
		gather[uint16](&x, &indices, &out, axis)
	default:
		gather[uint8](&x, &indices, &out, axis)
	}
	return nil
}

func gather[T uint32 | uint16 | uint8](x, indices, out *array.Array, axis int) {
	// Both operands as seen from out's axes, x at index 0.
	rank, picked := len(out.Shape), axis+len(indices.Shape)
	from := array.Array{Layout: array.Layout{Shape: out.Shape, Offset: x.Offset}}
	from.Strides = slices.Concat(x.Strides[:axis], make([]int, len(indices.Shape)), x.Strides[axis+1:])
	index := array.Array{Layout: array.Layout{Shape: out.Shape, Offset: indices.Offset}}
	index.Strides = slices.Concat(make([]int, axis), indices.Strides, make([]int, rank-picked))

	tail := func(a *array.Array) *array.Array {
		return &array.Array{Layout: array.Layout{Shape: out.Shape[picked:], Strides: a.Strides[picked:]}}
	}
	post := newLoop(rank-picked, tail(&from), tail(out))
	if post.size == 0 {
		return
	}
	src, dst := storage[T](x), storage[T](out)
	at := indexReader(indices, x.Shape[axis])
	l := newLoop(picked, &from, &index, out)
	l.each(10+float64(post.size)/2, func(c cursor, lo, hi int) {
		for range hi - lo {
			if i, ok := at(c.off[1]); ok {
				copyTail(dst, c.off[2], src, c.off[0]+i*x.Strides[axis], &post)
			} else {
				copyTail(dst, c.off[2], nil, 0, &post)
			}
			c.next()
		}
	})
}

// copyTail copies the axes after the gathered one; without src it writes zeros.
func copyTail[T uint32 | uint16 | uint8](dst []T, to int, src []T, from int, post *loop) {
	inner, n := post.inner(), post.shape[post.rank-1]
	c := post.seek(post.rank-1, 0)
	for range post.size / n {
		if src != nil {
			copyRow(dst, to+c.off[1], inner[1], src, from+c.off[0], inner[0], n)
		} else {
			for i := range n {
				dst[to+c.off[1]+i*inner[1]] = 0
			}
		}
		c.next()
	}
}

// indexReader returns a function that reads the index at an element of indices,
// and reports whether it is one of n.
func indexReader(indices *array.Array, n int) func(off int) (int, bool) {
	if indices.DType == array.Uint32 {
		s := storage[uint32](indices)
		return func(off int) (int, bool) {
			i := uint64(s[off])
			return int(i), i < uint64(n)
		}
	}
	s := storage[int32](indices)
	return func(off int) (int, bool) {
		i := int(s[off])
		if i < 0 {
			i += n
		}
		return i, i >= 0 && i < n
	}
}
