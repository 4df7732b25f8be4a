package optest

import (
	"pgregory.net/rapid"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/ops"
)

func runGatherOf[T kompute.Element](c *call) *kompute.View {
	if c.dtype("indices") == array.Uint32 {
		return ops.Gather(c.s, tensor[T](c, "x"), tensor[uint32](c, "indices"), c.Params.Axis).View()
	}
	return ops.Gather(c.s, tensor[T](c, "x"), tensor[int32](c, "indices"), c.Params.Axis).View()
}

func runGather(c *call) *kompute.View {
	return byElement(c.dtype("x"), runGatherOf[float32], runGatherOf[array.F16], runGatherOf[array.BF16],
		runGatherOf[int32], runGatherOf[uint32], runGatherOf[bool], runGatherOf[uint8])(c)
}

// referenceGather runs over [pre, V, post].
func referenceGather(c *Case) []float64 {
	x := c.In["x"]
	axis, err := x.Axis(c.Params.Axis)
	if err != nil {
		panic(err)
	}
	pre, n, post := size(x.Shape[:axis]), x.Shape[axis], size(x.Shape[axis+1:])
	data, indices := floats(x), floats(c.In["indices"])
	out := make([]float64, 0, pre*len(indices)*post)
	for p := range pre {
		for _, index := range indices {
			row := make([]float64, post)
			if i, ok := resolveIndex(index, n); ok {
				copy(row, data[(p*n+i)*post:])
			}
			out = append(out, row...)
		}
	}
	return out
}

// resolveIndex counts a negative index from the end; ok: it exists.
func resolveIndex(index float64, n int) (i int, ok bool) {
	i = int(index)
	if i < 0 {
		i += n
	}
	return i, i >= 0 && i < n
}

func gatherCases() []Case {
	var cases []Case
	outside := dense(array.Int32, []float64{0, -1, 6, -7, 7, -8, 2147483647, -2147483648, 3}, 3, 3)
	unsigned := dense(array.Uint32, []float64{0, 6, 7, 4294967295, 2147483648, 5}, 6)
	for _, dtype := range elementTypes {
		for axis, shape := range [][]int{{7, 33}, {3, 7, 5}, {2, 3, 7}} {
			x := newSource(18).numbers(dtype, shape...)
			cases = append(cases,
				Case{Name: name(dtype, "outside", shape), Params: Params{Axis: axis}, In: map[string]array.Array{"x": x, "indices": outside}},
				Case{Name: name(dtype, "unsigned", shape), Params: Params{Axis: axis}, In: map[string]array.Array{"x": x, "indices": unsigned}})
		}
	}
	table := newSource(19).normal(array.BFloat16, 1, 2048, 256)
	return append(cases,
		Case{Name: "embedding", In: map[string]array.Array{"x": table, "indices": newSource(20).integers(array.Int32, 0, 2047, 1, 65)}},
		Case{Name: "no entries", In: map[string]array.Array{"x": newSource(1).normal(array.Float32, 1, 0, 5), "indices": outside}},
		Case{Name: "rank 8", Params: Params{Axis: 3}, In: map[string]array.Array{
			"x": place(newSource(21).normal(array.Float32, 1, 2, 2, 3, 7, 2, 2), "transposed"), "indices": dense(array.Int32, []float64{1, -1, 6}, 1, 3, 1),
		}})
}

func randomGather(t *rapid.T) Case {
	r, shape := drawSource(t), drawShape(t, "x", 1, 5, 2000)
	axis := rapid.IntRange(0, len(shape)-1).Draw(t, "axis")
	n := shape[axis]
	indices := drawShape(t, "indices", 0, 3, 20)
	kind := drawType(t, "index type", []array.DType{array.Int32, array.Uint32})
	lo := 0
	if kind == array.Int32 {
		lo = -n - 1
	}
	return Case{Params: Params{Axis: axis}, In: map[string]array.Array{
		"x":       drawLayout(t, "x", r.numbers(drawType(t, "type", elementTypes), shape...)),
		"indices": drawLayout(t, "indices", r.integers(kind, lo, n, indices...)),
	}}
}

// gatherAlong: the axes of the indices stand in the result where x had the one
// that they point into.
func gatherAlong(c *Case, axis int) map[string]int {
	into, err := c.In["x"].Axis(c.Params.Axis)
	picks := c.In["indices"].Rank()
	switch {
	case err != nil:
		return nil
	case axis < into:
		return map[string]int{"x": axis}
	case axis < into+picks:
		return map[string]int{"indices": axis - into}
	}
	return map[string]int{"x": axis - picks + 1}
}

func gatherSuite() suite {
	return suite{
		op: "gather", run: runGather, reference: referenceGather, cases: gatherCases, draw: randomGather,
		exact: func(*Case) bool { return true }, along: gatherAlong,
		large: func(dtype array.DType, _ string, size int) Case {
			return Case{In: map[string]array.Array{"x": blank(dtype, size/1024, 1024), "indices": blank(array.Int32, size/1024)}}
		},
		valid: func() Case {
			return Case{In: map[string]array.Array{"x": newSource(1).normal(array.Float32, 1, 4, 3), "indices": dense(array.Int32, []float64{1, 2}, 2)}}
		},
		rejects: []reject{
			{"axis", kompute.ErrShape, func(e *env) error { return ops.Gather(e.s, e.f32(2, 3), e.i32(1), 2).Err() }},
			{"rank 0", kompute.ErrShape, func(e *env) error { return ops.Gather(e.s, e.f32(), e.i32(1), 0).Err() }},
			{"result rank", kompute.ErrShape, func(e *env) error {
				return ops.Gather(e.s, e.f32(1, 1, 1, 1, 1), e.i32(1, 1, 1, 1, 1), 0).Err()
			}},
			{"result size", kompute.ErrTooLarge, func(e *env) error {
				return ops.Gather(e.s, e.repeated(2, 1<<17), own(e.t, e.i32(1).Broadcast(1<<17)), 0).Err()
			}},
		},
	}
}
