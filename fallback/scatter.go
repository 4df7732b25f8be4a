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
// its updates one after another.
type scattering struct {
	updates, out *array.Array
	columns      loop // of out, updates and indices, without the axis
	updateAt     []int
	indexAt      []int // of each update, from the start of the column
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
	s := &scattering{
		updates: updates, out: out, columns: newLoop(len(out.Shape)-1, cut(out), cut(updates), index),
		places: out.Shape[axis], stride: out.Strides[axis], place: indexReader(indices, out.Shape[axis]),
	}
	shape := updates.Shape[axis : axis+picks]
	l := newLoop(picks,
		&array.Array{Layout: array.Layout{Shape: shape, Strides: updates.Strides[axis : axis+picks]}},
		&array.Array{Layout: array.Layout{Shape: shape, Strides: numbers}})
	for c := l.seek(l.rank, 0); len(s.updateAt) < l.size; c.next() {
		s.updateAt, s.indexAt = append(s.updateAt, c.off[0]), append(s.indexAt, c.off[1])
	}
	return s
}

func (s *scattering) run(mode opdef.ScatterMode) {
	switch s.out.DType {
	case array.Float32:
		scatterColumns(s, storage[float32](s.out), storage[float32](s.updates), same[float32], same[float32], combineFloats(mode))
	case array.Float16:
		scatterColumns(s, array.Storage[array.F16](*s.out), array.Storage[array.F16](*s.updates), array.F16.Float32,
			array.F16FromFloat32, combineFloats(mode))
	case array.BFloat16:
		scatterColumns(s, array.Storage[array.BF16](*s.out), array.Storage[array.BF16](*s.updates), array.BF16.Float32,
			array.BF16FromFloat32, combineFloats(mode))
	case array.Int32:
		scatterColumns(s, storage[int32](s.out), storage[int32](s.updates), same[int32], same[int32], combineInts[int32](mode))
	case array.Uint32:
		scatterColumns(s, storage[uint32](s.out), storage[uint32](s.updates), same[uint32], same[uint32], combineInts[uint32](mode))
	case array.Uint8:
		scatterColumns(s, storage[uint8](s.out), storage[uint8](s.updates), same[uint8], same[uint8], combineInts[uint8](mode))
	default:
		widen := func(v uint8) uint32 { return uint32(v) }
		scatterColumns(s, storage[uint8](s.out), storage[uint8](s.updates), widen, func(v uint32) uint8 { return toByte(v != 0) },
			combineInts[uint32](mode))
	}
}

func same[T any](v T) T { return v }

// scatterColumns combines elements, as values of a wider type, in each column.
func scatterColumns[T, V any](s *scattering, out, updates []T, widen func(T) V, narrow func(V) T, combine func(a, b V) V) {
	s.columns.each(10*float64(len(s.updateAt)), func(c cursor, lo, hi int) {
		sums, touched := make([]V, s.places), make([]bool, s.places)
		for range hi - lo {
			to, from, index := c.off[0], c.off[1], c.off[2]
			for n, at := range s.indexAt {
				i, ok := s.place(index + at)
				if !ok {
					continue
				}
				if !touched[i] {
					sums[i], touched[i] = widen(out[to+i*s.stride]), true
				}
				sums[i] = combine(sums[i], widen(updates[from+s.updateAt[n]]))
			}
			for _, at := range s.indexAt {
				if i, ok := s.place(index + at); ok && touched[i] {
					out[to+i*s.stride], touched[i] = narrow(sums[i]), false
				}
			}
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
