package optest

import (
	"math"

	"pgregory.net/rapid"

	"github.com/kompute-go/kompute-go/array"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/ops"
)

func runArgMaxOf[T kompute.Number](c *call) *kompute.View {
	return ops.ArgMax(c.s, tensor[T](c, "x"), c.Params.Axis).View()
}

func runArgMax(c *call) *kompute.View {
	return byNumber(c.dtype("x"), runArgMaxOf[float32], runArgMaxOf[array.F16], runArgMaxOf[array.BF16],
		runArgMaxOf[int32], runArgMaxOf[uint32])(c)
}

func referenceArgMax(c *Case) []float64 {
	x := c.In["x"]
	axis, err := x.Axis(c.Params.Axis)
	if err != nil {
		panic(err)
	}
	var out []float64
	rows(moved(x, axis), func(row []float64) {
		best := 0
		for i, v := range row {
			if v > row[best] || math.IsNaN(v) && !math.IsNaN(row[best]) {
				best = i
			}
		}
		out = append(out, float64(best))
	})
	return out
}

func argMaxCases() []Case {
	var cases []Case
	add := func(label string, axis int, x array.Array) {
		cases = append(cases, Case{Name: label, In: map[string]array.Array{"x": x}, Params: Params{Axis: axis}})
	}
	for _, dtype := range numberTypes {
		for _, shape := range rowShapes() {
			if len(shape) > 0 && shape[len(shape)-1] > 0 {
				add(name(dtype, "", shape), -1, newSource(15).numbers(dtype, shape...))
			}
		}
		x := newSource(16).numbers(dtype, 151936)
		setter(x)(151000, 100.5)
		add(name(dtype, "vocabulary", nil), -1, x)
		add(name(dtype, "axis 0", nil), 0, newSource(17).numbers(dtype, 300, 7))
		add(name(dtype, "equal", nil), -1, dense(dtype, make([]float64, 3000), 3000))
	}
	last := dense(array.Float32, make([]float64, 3000), 2, 1500)
	setter(last)(1499, 1)
	add("last", -1, last)
	set := setter(last)
	set(700, math.NaN())
	set(1501, math.Inf(1))
	add("NaN", -1, last)
	return cases
}

func randomArgMax(t *rapid.T) Case {
	shape := drawRows(t)
	x := drawSource(t).numbers(drawType(t, "type", numberTypes), shape...)
	axis := len(shape) - 1
	if k := rapid.IntRange(0, axis).Draw(t, "axis"); shape[k] > 0 {
		axis = k
	}
	return Case{In: map[string]array.Array{"x": drawLayout(t, "x", x)}, Params: Params{Axis: axis}}
}

func argMaxSuite() suite {
	return suite{
		op: "arg_max", run: runArgMax, reference: referenceArgMax, cases: argMaxCases, random: randomArgMax,
		exact: func(*Case) bool { return true },
		large: func(dtype array.DType, _ string, size int) Case {
			return Case{Params: Params{Axis: -1}, In: map[string]array.Array{"x": blank(dtype, size/4096, 4096)}}
		},
		valid: func() Case {
			return Case{Params: Params{Axis: -1}, In: map[string]array.Array{"x": newSource(1).normal(array.Float32, 1, 2, 3)}}
		},
		rejects: []reject{
			{"rank 0", kompute.ErrShape, func(e *env) error { return ops.ArgMax(e.s, e.f32(), -1).Err() }},
			{"axis", kompute.ErrShape, func(e *env) error { return ops.ArgMax(e.s, e.f32(2, 3), 2).Err() }},
			{"negative axis", kompute.ErrShape, func(e *env) error { return ops.ArgMax(e.s, e.f32(2, 3), -3).Err() }},
			{"no elements", kompute.ErrShape, func(e *env) error { return ops.ArgMax(e.s, e.f32(2, 0), -1).Err() }},
		},
	}
}
