package optest

import (
	"pgregory.net/rapid"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/ops"
)

func runSliceOf[T kompute.Element](c *call) *kompute.View {
	return ops.Slice(c.s, tensor[T](c, "x"), c.Params.Shape, c.starts()...).View()
}

// starts returns where a part begins, from the host or the device.
func (c *call) starts() []ops.Position {
	var start []ops.Position
	for _, n := range c.Params.Start {
		start = append(start, ops.At(n))
	}
	if _, onDevice := c.In["start"]; onDevice {
		start = []ops.Position{ops.AtDevice(tensor[int32](c, "start"))}
	}
	return start
}

func runSlice(c *call) *kompute.View {
	return byElement(c.dtype("x"), runSliceOf[float32], runSliceOf[array.F16], runSliceOf[array.BF16],
		runSliceOf[int32], runSliceOf[uint32], runSliceOf[bool], runSliceOf[uint8])(c)
}

func referenceSlice(c *Case) []float64 {
	part := c.In["x"]
	for axis, n := range c.Params.Shape {
		start := 0
		if a, given := c.In["start"]; given {
			start = min(max(int(floats(a)[axis]), 0), part.Shape[axis]-n)
		} else if len(c.Params.Start) > 0 {
			start = c.Params.Start[axis]
		}
		part.Layout = must(part.Slice(axis, start, start+n, 1))
	}
	return floats(part)
}

func sliceCases() []Case {
	var cases []Case
	for _, dtype := range elementTypes {
		r := newSource(31)
		add := func(label string, x array.Array, shape []int, start ...float64) {
			at := make([]int, len(start))
			for i, v := range start {
				at[i] = min(max(int(v), 0), x.Shape[i]-shape[i])
			}
			cases = append(cases,
				Case{Name: name(dtype, label+" host", shape), Params: Params{Shape: shape, Start: at}, In: map[string]array.Array{"x": x}},
				Case{Name: name(dtype, label+" device", shape), Params: Params{Shape: shape}, In: map[string]array.Array{
					"x": x, "start": place(dense(array.Int32, start, len(start)), "strided"),
				}})
		}
		add("row", r.numbers(dtype, 9, 33), []int{1, 33}, 4, 0)
		add("inner", r.numbers(dtype, 5, 7, 6), []int{2, 3, 5}, 1, 4, 1)
		add("clamped", r.numbers(dtype, 5, 7), []int{2, 3}, -3, 100)
		add("all", r.numbers(dtype, 5, 7), []int{5, 7}, 3, -2147483648)
		add("nothing", r.numbers(dtype, 5, 7), []int{0, 7}, 1, 0)
		add("rank 0", r.numbers(dtype), []int{})
		add("rank 6", r.numbers(dtype, 3, 4, 3, 5, 3, 4), []int{2, 3, 2, 4, 2, 3}, 1, 1, 0, 1, 1, 1)
		add("rank 8", r.numbers(dtype, 2, 3, 2, 3, 2, 3, 2, 3), []int{1, 2, 1, 2, 1, 2, 1, 2}, 1, 0, 1, 1, 0, 1, 1, 0)
		for _, how := range layouts {
			add(how, place(r.numbers(dtype, 4, 6, 7), how), []int{2, 6, 3}, 1, 0, 4)
		}
		cases = append(cases, Case{Name: name(dtype, "from 0", nil), Params: Params{Shape: []int{2, 2}}, In: map[string]array.Array{"x": r.numbers(dtype, 4, 5)}})
	}
	return cases
}

func randomSlice(t *rapid.T) Case {
	r, shape := drawSource(t), drawShape(t, "x", 0, 8, 3000)
	c := Case{In: map[string]array.Array{"x": drawLayout(t, "x", r.numbers(drawType(t, "type", elementTypes), shape...))}}
	c.Params.Shape = make([]int, len(shape))
	start := make([]int, len(shape))
	for i, n := range shape {
		c.Params.Shape[i] = rapid.IntRange(0, n).Draw(t, "part")
		start[i] = rapid.IntRange(0, n-c.Params.Shape[i]).Draw(t, "start")
	}
	if rapid.Bool().Draw(t, "on device") {
		c.In["start"] = drawLayout(t, "start", r.integers(array.Int32, -5, 70, len(shape)))
	} else {
		c.Params.Start = start
	}
	return c
}

// sliceAlong: axes that the part has whole are independent.
func sliceAlong(c *Case, axis int) map[string]int {
	if c.Params.Shape[axis] != c.In["x"].Shape[axis] {
		return nil
	}
	return map[string]int{"x": axis}
}

func sliceSuite() suite {
	slice := func(x, shape []int, start ...ops.Position) func(e *env) error {
		return func(e *env) error { return ops.Slice(e.s, e.f32(x...), shape, start...).Err() }
	}
	return suite{
		op: "slice", run: runSlice, reference: referenceSlice, cases: sliceCases, draw: randomSlice,
		exact:    func(*Case) bool { return true },
		optional: []string{"start"}, along: sliceAlong,
		large: func(dtype array.DType, _ string, size int) Case {
			return Case{Params: Params{Shape: []int{size / 4096, 2048}, Start: []int{0, 1024}}, In: map[string]array.Array{"x": blank(dtype, size/4096, 4096)}}
		},
		valid: func() Case {
			return Case{Params: Params{Shape: []int{2, 2}}, In: map[string]array.Array{
				"x": newSource(1).normal(array.Float32, 1, 4, 5), "start": dense(array.Int32, []float64{1, 1}, 2),
			}}
		},
		rejects: []reject{
			{"rank", kompute.ErrShape, slice([]int{4, 5}, []int{5})},
			{"larger", kompute.ErrShape, slice([]int{4, 5}, []int{2, 6})},
			{"negative", kompute.ErrShape, slice([]int{4, 5}, []int{2, -1})},
			{"starts", kompute.ErrShape, slice([]int{4, 5}, []int{2, 2}, ops.At(0))},
			{"negative start", kompute.ErrInvalid, slice([]int{4, 5}, []int{2, 2}, ops.At(-1), ops.At(0))},
			{"start beyond", kompute.ErrInvalid, slice([]int{4, 5}, []int{2, 2}, ops.At(0), ops.At(4))},
			{"nil start", kompute.ErrInvalid, slice([]int{4, 5}, []int{2, 2}, ops.AtDevice(nil))},
			{"mixed starts", kompute.ErrInvalid, func(e *env) error {
				return ops.Slice(e.s, e.f32(4, 5), []int{2, 2}, ops.At(0), ops.AtDevice(e.i32(1))).Err()
			}},
			{"device start", kompute.ErrShape, func(e *env) error {
				return ops.Slice(e.s, e.f32(4, 5), []int{2, 2}, ops.AtDevice(e.i32(3))).Err()
			}},
		},
	}
}
