package optest

import (
	"math"
	"slices"

	"pgregory.net/rapid"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/ops"
)

// runRepeatOf runs Tile or, with the number of times as the only one, Repeat.
func runRepeatOf[T kompute.Element](c *call) *kompute.View {
	if c.Params.Kind == "tile" {
		return ops.Tile(c.s, tensor[T](c, "x"), c.Params.Reps...).View()
	}
	return ops.Repeat(c.s, tensor[T](c, "x"), c.Params.Reps[0], c.Params.Axis).View()
}

func runRepeat(c *call) *kompute.View {
	return byElement(c.dtype("x"), runRepeatOf[float32], runRepeatOf[array.F16], runRepeatOf[array.BF16],
		runRepeatOf[int32], runRepeatOf[uint32], runRepeatOf[bool], runRepeatOf[uint8])(c)
}

func referenceRepeat(c *Case) []float64 {
	x := c.In["x"]
	if c.Params.Kind != "tile" {
		axis, err := x.Axis(c.Params.Axis)
		if err != nil {
			panic(err)
		}
		shape, get := slices.Clone(x.Shape), elements(x)
		shape[axis] *= c.Params.Reps[0]
		return build(shape, func(at []int) float64 {
			from := slices.Clone(at)
			from[axis] /= c.Params.Reps[0]
			return get(from)
		})
	}
	reps := c.Params.Reps
	for x.Rank() < len(reps) {
		x.Layout = must(x.ExpandDims(0))
	}
	reps = slices.Concat(slices.Repeat([]int{1}, x.Rank()-len(reps)), reps)
	shape, get := slices.Clone(x.Shape), elements(x)
	for i, n := range reps {
		shape[i] *= n
	}
	return build(shape, func(at []int) float64 {
		from := slices.Clone(at)
		for i, n := range x.Shape {
			from[i] %= n
		}
		return get(from)
	})
}

func repeatCases() []Case {
	var cases []Case
	for _, dtype := range elementTypes {
		r := newSource(40)
		repeat := func(label string, x array.Array, n, axis int) {
			cases = append(cases, Case{Name: name(dtype, label, x.Shape), In: map[string]array.Array{"x": x}, Params: Params{Kind: "repeat", Axis: axis, Reps: []int{n}}})
		}
		tile := func(label string, x array.Array, reps ...int) {
			cases = append(cases, Case{Name: name(dtype, "tile "+label, x.Shape), In: map[string]array.Array{"x": x}, Params: Params{Kind: "tile", Reps: reps}})
		}
		for axis := range 3 {
			repeat("axis", r.numbers(dtype, 3, 4, 5), 3, axis)
			repeat("negative", r.numbers(dtype, 3, 4, 5), 1+axis, axis-3)
		}
		repeat("never", r.numbers(dtype, 3, 4), 0, 1)
		repeat("empty", r.numbers(dtype, 3, 0), 2, 1)
		repeat("rank 8", place(r.numbers(dtype, 2, 1, 2, 3, 1, 2, 2, 3), "transposed"), 3, 3)
		tile("last", r.numbers(dtype, 3, 4), 3)
		tile("all", r.numbers(dtype, 3, 4), 2, 3)
		tile("more", r.numbers(dtype, 3), 2, 1, 3)
		tile("rank 0", r.numbers(dtype), 4)
		tile("nothing", r.numbers(dtype, 3, 2))
		tile("never", r.numbers(dtype, 3, 2), 0, 2)
		tile("rank 8", place(r.numbers(dtype, 2, 1, 2, 3, 1, 2, 1, 3), "transposed"), 2, 1, 2, 2, 3, 1, 2, 1)
		for _, how := range layouts {
			repeat(how, place(r.numbers(dtype, 4, 3, 5), how), 2, 1)
			tile(how, place(r.numbers(dtype, 4, 3, 5), how), 2, 1, 3)
		}
	}
	return cases
}

func randomRepeat(t *rapid.T) Case {
	shape := drawShape(t, "x", 1, 8, 300)
	c := Case{Params: Params{Kind: rapid.SampledFrom([]string{"repeat", "tile"}).Draw(t, "kind")}}
	c.Params.Reps, c.Params.Axis = []int{rapid.IntRange(0, 4).Draw(t, "times")}, rapid.IntRange(0, len(shape)-1).Draw(t, "axis")
	if c.Params.Kind == "tile" {
		c.Params.Reps = rapid.SliceOfN(rapid.SampledFrom([]int{1, 1, 2, 3, 0}), 0, 5).Draw(t, "reps")
	}
	c.In = map[string]array.Array{"x": drawLayout(t, "x", drawSource(t).numbers(drawType(t, "type", elementTypes), shape...))}
	return c
}

// repeatAlong: axes that are not repeated are independent.
func repeatAlong(c *Case, axis int) map[string]int {
	x := c.In["x"]
	if c.Params.Kind != "tile" {
		if repeated, err := x.Axis(c.Params.Axis); err != nil || axis == repeated {
			return nil
		}
		return map[string]int{"x": axis}
	}
	rank := max(x.Rank(), len(c.Params.Reps))
	own, rep := axis-rank+x.Rank(), axis-rank+len(c.Params.Reps)
	if own < 0 || rep >= 0 && c.Params.Reps[rep] != 1 {
		return nil
	}
	return map[string]int{"x": own}
}

func repeatSuite() suite {
	repeat := func(n, axis int, shape ...int) func(e *env) error {
		return func(e *env) error { return ops.Repeat(e.s, e.f32(shape...), n, axis).Err() }
	}
	tile := func(shape []int, reps ...int) func(e *env) error {
		return func(e *env) error { return ops.Tile(e.s, e.f32(shape...), reps...).Err() }
	}
	return suite{
		op: "repeat", run: runRepeat, reference: referenceRepeat, cases: repeatCases, draw: randomRepeat,
		exact: func(*Case) bool { return true }, along: repeatAlong,
		large: func(dtype array.DType, _ string, size int) Case {
			return Case{Params: Params{Axis: 1, Reps: []int{4}}, In: map[string]array.Array{"x": blank(dtype, size/4096, 1024)}}
		},
		valid: func() Case {
			return Case{Params: Params{Kind: "tile", Reps: []int{2, 2}}, In: map[string]array.Array{"x": newSource(1).normal(array.Float32, 1, 2, 3)}}
		},
		rejects: []reject{
			{"axis", kompute.ErrShape, repeat(2, 2, 2, 3)},
			{"rank 0", kompute.ErrShape, repeat(2, 0)},
			{"negative", kompute.ErrInvalid, repeat(-1, 0, 2, 3)},
			{"too many elements", kompute.ErrTooLarge, repeat(min(1<<31, math.MaxInt), 0, 2, 3)},
			{"too large an axis", kompute.ErrTooLarge, repeat(min(1<<62, math.MaxInt), 0, 4)},
			{"tile rank", kompute.ErrShape, tile([]int{2}, 1, 1, 1, 1, 1, 1, 1, 1, 2)},
			{"tile negative", kompute.ErrInvalid, tile([]int{2, 3}, 2, -1)},
			{"tile size", kompute.ErrTooLarge, tile([]int{2, 3}, 1<<16, 1<<16)},
		},
	}
}
