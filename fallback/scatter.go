package fallback

import (
	"slices"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/opdef"
)

// Scatter copies x to out and puts updates along axis: x and out [pre…, V, post…],
// indices [i…], int32 or uint32, and updates [pre…, i…, post…], of x's type. Updates
// of one place are combined in the order of their indices, in float32 for floats,
// and rounded once; bools are combined as 0 and 1, and any nonzero result is true. A
// negative index counts from the end; one outside the axis has no effect.
//
// Errors: ErrInvalid for other shapes or types, an axis that x lacks, or an
// unknown mode.
func Scatter(x, indices, updates, out array.Array, axis int, mode opdef.ScatterMode) error {
	return putUpdates(&x, &indices, &updates, &out, axis, mode, false)
}

// PutAlongAxis is Scatter where each column of x along the axis has its own indices,
// which have the shape of updates, [pre…, n, post…]. Errors are those of Scatter.
func PutAlongAxis(x, indices, updates, out array.Array, axis int, mode opdef.ScatterMode) error {
	return putUpdates(&x, &indices, &updates, &out, axis, mode, true)
}

func putUpdates(x, indices, updates, out *array.Array, axis int, mode opdef.ScatterMode, along bool) error {
	c := checker{op: "scatter"}
	c.array("x", x)
	c.index("indices", indices)
	c.array("updates", updates)
	c.array("out", out)
	c.dtype("updates", updates, x.DType)
	c.dtype("out", out, x.DType)
	c.shape("out", out, x.Shape)
	if c.err == nil && (axis < 0 || axis >= len(x.Shape) || mode > opdef.ScatterMax) {
		c.fail("axis %d of %v, mode %d", axis, x.Shape, mode)
	}
	if c.err != nil {
		return c.err
	}
	picks := indices.Shape
	if along {
		c.rank("updates", updates, len(x.Shape))
		if c.shape("indices", indices, updates.Shape); c.err != nil {
			return c.err
		}
		picks = updates.Shape[axis : axis+1]
	}
	c.shape("updates", updates, slices.Concat(x.Shape[:axis], picks, x.Shape[axis+1:]))
	if c.err != nil {
		return c.err
	}
	copyArray(x, out)
	if updates.Size() > 0 {
		newScattering(indices, updates, out, axis, len(picks), along).run(mode)
	}
	return nil
}

// scattering is the work of one call: columns along the axis, each of which takes
// its updates one after another. Indices and updates may be broadcast, so nothing here
// is as long as their axes.
type scattering struct {
	updates, out *array.Array
	columns      loop // of out, updates and indices, without the axis
	picks        loop // of updates and indices, from the start of a column
	place        func(off int) (int, bool)
	places       int
	stride       int // of out's axis
}

func newScattering(indices, updates, out *array.Array, axis, picks int, along bool) *scattering {
	cut := func(a *array.Array) *array.Array {
		return &array.Array{Layout: array.Layout{
			Shape:   slices.Concat(out.Shape[:axis], out.Shape[axis+1:]),
			Strides: slices.Concat(a.Strides[:axis], a.Strides[len(a.Strides)-len(out.Shape)+axis+1:]), Offset: a.Offset,
		}}
	}
	index := &array.Array{Layout: array.Layout{Strides: make([]int, len(out.Shape)-1), Offset: indices.Offset}}
	numbers := indices.Strides
	if along {
		index, numbers = cut(indices), indices.Strides[axis:axis+1]
	}
	shape := updates.Shape[axis : axis+picks]
	return &scattering{
		updates: updates, out: out, columns: newLoop(len(out.Shape)-1, cut(out), cut(updates), index),
		places: out.Shape[axis], stride: out.Strides[axis], place: indexReader(indices, out.Shape[axis]),
		picks: newLoop(picks,
			&array.Array{Layout: array.Layout{Shape: shape, Strides: updates.Strides[axis : axis+picks]}},
			&array.Array{Layout: array.Layout{Shape: shape, Strides: numbers}}),
	}
}

func (s *scattering) run(mode opdef.ScatterMode) {
	switch s.out.DType {
	case array.Float32:
		scatterInPlace(s, storage[float32](s.out), storage[float32](s.updates), combineFloats(mode))
	case array.Float16:
		scatterHalves(s, mode, array.F16.Float32, array.F16FromFloat32)
	case array.BFloat16:
		scatterHalves(s, mode, array.BF16.Float32, array.BF16FromFloat32)
	case array.Int32:
		scatterInPlace(s, storage[int32](s.out), storage[int32](s.updates), combineInts[int32](mode))
	case array.Uint32:
		scatterInPlace(s, storage[uint32](s.out), storage[uint32](s.updates), combineInts[uint32](mode))
	case array.Uint8:
		scatterInPlace(s, storage[uint8](s.out), storage[uint8](s.updates), combineInts[uint8](mode))
	default:
		combine := combineInts[uint8](mode)
		scatterInPlace(s, storage[uint8](s.out), storage[uint8](s.updates), func(a, b uint8) uint8 { return toByte(combine(a, b) != 0) })
	}
}

// column calls put with the place and the element of each update of a column, in order.
func (s *scattering) column(c *cursor, put func(place, update int)) {
	last := s.picks.rank - 1
	n, inner := s.picks.shape[last], s.picks.strides[last]
	row := s.picks.seek(last, 0)
	for range s.picks.size / n {
		update, index := c.off[1]+row.off[0], c.off[2]+row.off[1]
		for range n {
			if i, ok := s.place(index); ok {
				put(i, update)
			}
			update += inner[0]
			index += inner[1]
		}
		row.next()
	}
}

// cost is that of a column.
func (s *scattering) cost() float64 { return 10 * float64(s.picks.size) }

// scatterInPlace combines each update with what is in its place: for types in which
// that rounds nothing that the sum of all updates would not.
func scatterInPlace[T any](s *scattering, out, updates []T, combine func(there, update T) T) {
	s.columns.each(s.cost(), func(c cursor, lo, hi int) {
		for range hi - lo {
			s.column(&c, func(place, update int) {
				at := c.off[0] + place*s.stride
				out[at] = combine(out[at], updates[update])
			})
			c.next()
		}
	})
}

func combineFloats(mode opdef.ScatterMode) func(a, b float32) float32 {
	switch mode {
	case opdef.ScatterAdd:
		return func(a, b float32) float32 { return a + b }
	case opdef.ScatterMul:
		return func(a, b float32) float32 { return a * b }
	case opdef.ScatterMin, opdef.ScatterMax:
		return func(a, b float32) float32 {
			switch {
			case a != a:
				return a
			case b != b, (mode == opdef.ScatterMin) == (b < a) && a != b:
				return b
			}
			return a
		}
	}
	return func(_, b float32) float32 { return b }
}

func combineInts[T int32 | uint32 | uint8](mode opdef.ScatterMode) func(a, b T) T {
	switch mode {
	case opdef.ScatterAdd:
		return func(a, b T) T { return a + b }
	case opdef.ScatterMul:
		return func(a, b T) T { return a * b }
	case opdef.ScatterMin:
		return func(a, b T) T { return min(a, b) }
	case opdef.ScatterMax:
		return func(a, b T) T { return max(a, b) }
	}
	return func(_, b T) T { return b }
}
