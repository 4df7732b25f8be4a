package fallback

import (
	"slices"

	"github.com/kompute-go/kompute-go/internal/array"
)

// GatherAxis picks elements of x along an axis: out[…, i, …] is x[…, indices[…, i,
// …], …]. indices, int32 or uint32, have out's shape; x has the same shape except
// along the axis. A negative index counts from the end; an index outside the axis
// gives zeros.
//
// Errors: ErrInvalid for other shapes or types, or an axis that x lacks.
func GatherAxis(x, indices, out array.Array, axis int) error {
	c := checker{op: "gather_axis"}
	c.array("x", &x)
	c.index("indices", &indices)
	c.array("out", &out)
	c.dtype("out", &out, x.DType)
	c.shape("indices", &indices, out.Shape)
	c.rank("x", &x, len(out.Shape))
	if c.err == nil && (axis < 0 || axis >= len(out.Shape)) {
		c.fail("axis %d of %v", axis, x.Shape)
	}
	if c.err != nil {
		return c.err
	}
	want := slices.Clone(out.Shape)
	want[axis] = x.Shape[axis]
	if c.shape("x", &x, want); c.err != nil {
		return c.err
	}
	switch x.DType.Size() {
	case 4:
		gatherAxis[uint32](&x, &indices, &out, axis)
	case 2:
		gatherAxis[uint16](&x, &indices, &out, axis)
	default:
		gatherAxis[uint8](&x, &indices, &out, axis)
	}
	return nil
}

func gatherAxis[T uint32 | uint16 | uint8](x, indices, out *array.Array, axis int) {
	seen := array.Array{Layout: array.Layout{Shape: out.Shape, Strides: slices.Clone(x.Strides), Offset: x.Offset}}
	seen.Strides[axis] = 0
	src, dst, stride := storage[T](x), storage[T](out), x.Strides[axis]
	at := indexReader(indices, x.Shape[axis])
	l := newLoop(len(out.Shape), &seen, indices, out)
	inner := l.inner()
	l.blocks(4, func(off offsets, n int) {
		for range n {
			var v T
			if i, ok := at(off[1]); ok {
				v = src[off[0]+i*stride]
			}
			dst[off[2]] = v
			for k := range off {
				off[k] += inner[k]
			}
		}
	})
}
