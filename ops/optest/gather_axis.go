package optest

import (
	"fmt"
	"math"
	"slices"

	"pgregory.net/rapid"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/ops"
)

func runGatherAxisOf[T kompute.Element](c *call) *kompute.View {
	if c.dtype("indices") == array.Uint32 {
		return ops.TakeAlongAxis(c.s, tensor[T](c, "x"), tensor[uint32](c, "indices"), c.Params.Axis).View()
	}
	return ops.TakeAlongAxis(c.s, tensor[T](c, "x"), tensor[int32](c, "indices"), c.Params.Axis).View()
}

func runGatherAxis(c *call) *kompute.View {
	return byElement(c.dtype("x"), runGatherAxisOf[float32], runGatherAxisOf[array.F16], runGatherAxisOf[array.BF16],
		runGatherAxisOf[int32], runGatherAxisOf[uint32], runGatherAxisOf[bool], runGatherAxisOf[uint8])(c)
}

func referenceGatherAxis(c *Case) []float64 {
	x, indices := c.In["x"], c.In["indices"]
	axis, err := x.Axis(c.Params.Axis)
	if err != nil {
		panic(err)
	}
	n := x.Shape[axis]
	wide, picked := slices.Clone(x.Shape), slices.Clone(indices.Shape)
	for i := range wide {
		if i != axis {
			common, err := array.BroadcastShapes(x.Shape[i:i+1], indices.Shape[i:i+1])
			if err != nil {
				panic(err)
			}
			wide[i], picked[i] = common[0], common[0]
		}
	}
	x.Layout, indices.Layout = must(x.Broadcast(wide...)), must(indices.Broadcast(picked...))
	from, index := elements(x), elements(indices)
	return build(picked, func(at []int) float64 {
		i, ok := resolveIndex(index(at), n)
		if !ok {
			return 0
		}
		place := slices.Clone(at)
		place[axis] = i
		return from(place)
	})
}

func gatherAxisCases() []Case {
	var cases []Case
	for _, dtype := range elementTypes {
		r := newSource(37)
		add := func(label string, axis int, x, indices array.Array) {
			cases = append(cases, Case{Name: name(dtype, label, x.Shape), Params: Params{Axis: axis}, In: map[string]array.Array{"x": x, "indices": indices}})
		}
		for axis := range 3 {
			shape := []int{4, 5, 6}
			shape[axis] = 9
			add(fmt.Sprint("axis ", axis), axis, r.numbers(dtype, 4, 5, 6), r.integers(array.Int32, -8, 8, shape...))
			add(fmt.Sprint("unsigned ", axis), axis-3, r.numbers(dtype, 4, 5, 6), r.integers(array.Uint32, 0, 7, shape...))
			shape[axis] = 2
			for i := range shape {
				if i != axis {
					shape[i] = 1
					break
				}
			}
			add(fmt.Sprint("broadcast ", axis), axis, r.numbers(dtype, 4, 5, 6), r.integers(array.Int32, 0, 3, shape...))
		}
		add("broadcast x", 1, r.numbers(dtype, 1, 7, 3), r.integers(array.Int32, 0, 6, 4, 2, 1))
		add("outside", 0, r.numbers(dtype, 7, 2), dense(array.Int32, []float64{0, -1, 6, -7, 7, -8, 2147483647, -2147483648}, 4, 2))
		add("no entries", 1, r.numbers(dtype, 2, 0), dense(array.Int32, []float64{0, -1}, 2, 1))
		add("no indices", 1, r.numbers(dtype, 2, 3), dense(array.Int32, nil, 2, 0))
		add("rank 8", 5, place(r.numbers(dtype, 2, 1, 3, 2, 1, 4, 2, 2), "transposed"), r.integers(array.Int32, -4, 3, 2, 3, 1, 2, 2, 3, 2, 1))
		for i, how := range layouts {
			add(how, 1, place(r.numbers(dtype, 3, 5, 4), how), place(r.integers(array.Int32, -5, 4, 3, 2, 4), layouts[(i+2)%6]))
		}
	}
	return cases
}

func randomGatherAxis(t *rapid.T) Case {
	r, shape := drawSource(t), drawShape(t, "x", 1, 8, 1500)
	axis := rapid.IntRange(0, len(shape)-1).Draw(t, "axis")
	n, picks := shape[axis], slices.Clone(shape)
	picks[axis] = rapid.IntRange(0, 6).Draw(t, "picks")
	for i := range shape {
		switch {
		case i == axis:
		case rapid.IntRange(0, 5).Draw(t, "x repeats") == 0:
			shape[i] = 1
		case rapid.IntRange(0, 5).Draw(t, "indices repeat") == 0:
			picks[i] = 1
		}
	}
	kind, lo := drawType(t, "index type", []array.DType{array.Int32, array.Uint32}), 0
	if kind == array.Int32 {
		lo = -n - 1
	}
	return Case{Params: Params{Axis: axis}, In: map[string]array.Array{
		"x":       drawLayout(t, "x", r.numbers(drawType(t, "type", elementTypes), shape...)),
		"indices": drawLayout(t, "indices", r.integers(kind, lo, n, picks...)),
	}}
}

// gatherAxisAlong: a slice of the indices picks a slice, and lines are independent.
func gatherAxisAlong(c *Case, axis int) map[string]int {
	if gone, err := c.In["x"].Axis(c.Params.Axis); err != nil || axis == gone {
		return map[string]int{"indices": axis}
	}
	return map[string]int{"x": axis, "indices": axis}
}

func gatherAxisSuite() suite {
	take := func(axis int, x, indices []int) func(e *env) error {
		return func(e *env) error { return ops.TakeAlongAxis(e.s, e.f32(x...), e.i32(indices...), axis).Err() }
	}
	return suite{
		op: "gather_axis", run: runGatherAxis, reference: referenceGatherAxis, cases: gatherAxisCases, draw: randomGatherAxis,
		exact: func(*Case) bool { return true }, along: gatherAxisAlong,
		large: func(dtype array.DType, _ string, size int) Case {
			return Case{Params: Params{Axis: 1}, In: map[string]array.Array{
				"x": blank(dtype, size/4096, 4096), "indices": blank(array.Int32, size/4096, 4096),
			}}
		},
		valid: func() Case {
			return Case{In: map[string]array.Array{"x": newSource(1).normal(array.Float32, 1, 4, 3), "indices": dense(array.Int32, []float64{1, 2, 3}, 1, 3)}}
		},
		rejects: []reject{
			{"axis", kompute.ErrShape, take(2, []int{2, 3}, []int{2, 3})},
			{"rank 0", kompute.ErrShape, take(0, nil, nil)},
			{"rank", kompute.ErrShape, take(1, []int{2, 3}, []int{3})},
			{"shape", kompute.ErrShape, take(1, []int{2, 3}, []int{4, 3})},
			{"result size", kompute.ErrTooLarge, func(e *env) error {
				return ops.TakeAlongAxis(e.s, e.repeated(1<<17, 1), own(e.t, e.i32(1, 1).Broadcast(1, 1<<17)), 1).Err()
			}},
			{"uncountable result", kompute.ErrTooLarge, func(e *env) error {
				const n = min(math.MaxUint32, math.MaxInt)
				return ops.TakeAlongAxis(e.s, e.repeated(n, 1), own(e.t, e.i32(1, 1).Broadcast(1, n)), 1).Err()
			}},
		},
	}
}
