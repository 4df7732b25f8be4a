package optest

import (
	"math"

	"pgregory.net/rapid"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/ops"
)

func runPadOf[T kompute.Element](c *call) *kompute.View {
	if c.Params.Kind == "edge" {
		return ops.PadEdge(c.s, tensor[T](c, "x"), c.Params.Widths...).View()
	}
	return ops.Pad(c.s, tensor[T](c, "x"), valueOf[T](c.Params.Value), c.Params.Widths...).View()
}

func runPad(c *call) *kompute.View {
	return byElement(c.dtype("x"), runPadOf[float32], runPadOf[array.F16], runPadOf[array.BF16],
		runPadOf[int32], runPadOf[uint32], runPadOf[bool], runPadOf[uint8])(c)
}

func referencePad(c *Case) []float64 {
	x := c.In["x"]
	shape, widths := make([]int, x.Rank()), make([][2]int, x.Rank())
	for i, n := range x.Shape {
		widths[i] = c.Params.Widths[min(i, len(c.Params.Widths)-1)]
		shape[i] = widths[i][0] + n + widths[i][1]
	}
	value, get := floats(dense(x.DType, []float64{c.Params.Value}))[0], elements(x)
	return build(shape, func(at []int) float64 {
		from := make([]int, len(at))
		for i, n := range x.Shape {
			from[i] = at[i] - widths[i][0]
			if c.Params.Kind == "edge" {
				from[i] = min(max(from[i], 0), n-1)
			} else if from[i] < 0 || from[i] >= n {
				return value
			}
		}
		return get(from)
	})
}

func padCases() []Case {
	var cases []Case
	for _, dtype := range elementTypes {
		for _, kind := range []string{"constant", "edge"} {
			r := newSource(35)
			add := func(label string, x array.Array, widths ...[2]int) {
				cases = append(cases, Case{Name: kind + "/" + name(dtype, label, x.Shape), In: map[string]array.Array{"x": x}, Params: Params{Kind: kind, Value: 1, Widths: widths}})
			}
			add("one for all", r.numbers(dtype, 3, 4), [2]int{1, 2})
			add("rank 0", r.numbers(dtype), [2]int{3, 3})
			add("none", r.numbers(dtype, 3, 4), [2]int{})
			add("after", r.numbers(dtype, 5, 33), [2]int{0, 0}, [2]int{0, 31})
			add("before", r.numbers(dtype, 5, 3, 7), [2]int{4, 0}, [2]int{0, 0}, [2]int{0, 0})
			add("middle", r.numbers(dtype, 2, 3, 7, 3), [2]int{}, [2]int{2, 1}, [2]int{}, [2]int{})
			add("nothing", r.numbers(dtype, 0, 4), [2]int{}, [2]int{1, 1})
			add("rank 8", r.numbers(dtype, 2, 1, 2, 1, 2, 1, 2, 1), [2]int{1, 0}, [2]int{0, 1}, [2]int{1, 1}, [2]int{2, 0}, [2]int{0, 1}, [2]int{1, 0}, [2]int{0, 1}, [2]int{1, 1})
			for _, how := range layouts {
				add(how, place(r.numbers(dtype, 3, 5, 4), how), [2]int{1, 0}, [2]int{0, 0}, [2]int{2, 3})
			}
		}
		cases = append(cases, Case{Name: name(dtype, "empty", nil), In: map[string]array.Array{"x": newSource(1).numbers(dtype, 0, 2)}, Params: Params{Kind: "constant", Value: 1, Widths: [][2]int{{1, 2}}}})
	}
	infinite := Params{Kind: "constant", Value: math.Inf(-1), Widths: [][2]int{{0, 0}, {0, 5}}}
	return append(cases, Case{Name: "infinity", In: map[string]array.Array{"x": newSource(1).normal(array.BFloat16, 1, 3, 2)}, Params: infinite})
}

func randomPad(t *rapid.T) Case {
	shape := drawShape(t, "x", 0, 8, 300)
	c := Case{Params: Params{Kind: rapid.SampledFrom([]string{"constant", "edge"}).Draw(t, "kind"), Value: 1, Widths: [][2]int{}}}
	n := size(shape)
	for i := range shape {
		var w [2]int
		if shape[i] > 0 && n < 20000 && rapid.Bool().Draw(t, "padded") {
			w = [2]int{rapid.IntRange(0, 3).Draw(t, "before"), rapid.IntRange(0, 3).Draw(t, "after")}
			n = n / shape[i] * (shape[i] + w[0] + w[1])
		}
		c.Params.Widths = append(c.Params.Widths, w)
	}
	if len(shape) == 0 {
		c.Params.Widths = [][2]int{{1, 1}}
	}
	c.In = map[string]array.Array{"x": drawLayout(t, "x", drawSource(t).numbers(drawType(t, "type", elementTypes), shape...))}
	return c
}

// padAlong: axes without padding are independent.
func padAlong(c *Case, axis int) map[string]int {
	if axis >= c.In["x"].Rank() || c.Params.Widths[min(axis, len(c.Params.Widths)-1)] != [2]int{} {
		return nil
	}
	return map[string]int{"x": axis}
}

func padSuite() suite {
	pad := func(shape []int, widths ...[2]int) func(e *env) error {
		return func(e *env) error { return ops.Pad(e.s, e.f32(shape...), 0, widths...).Err() }
	}
	return suite{
		op: "pad", run: runPad, reference: referencePad, cases: padCases, draw: randomPad, thin: 4,
		exact: func(*Case) bool { return true }, along: padAlong,
		large: func(dtype array.DType, _ string, size int) Case {
			return Case{Params: Params{Widths: [][2]int{{0, 0}, {32, 32}}}, In: map[string]array.Array{"x": blank(dtype, size/4096, 4096-64)}}
		},
		valid: func() Case {
			return Case{Params: Params{Widths: [][2]int{{1, 1}}}, In: map[string]array.Array{"x": newSource(1).normal(array.Float32, 1, 2, 3)}}
		},
		rejects: []reject{
			{"no widths", kompute.ErrShape, pad([]int{2, 3})},
			{"widths", kompute.ErrShape, pad([]int{2, 3, 4}, [2]int{1, 1}, [2]int{1, 1})},
			{"negative", kompute.ErrInvalid, pad([]int{2, 3}, [2]int{1, -1})},
			{"wide", kompute.ErrTooLarge, pad([]int{2, 3}, [2]int{math.MaxInt, math.MaxInt})},
			{"too many elements", kompute.ErrTooLarge, pad([]int{2, 3}, [2]int{1 << 20, 1 << 20})},
			{"no edge", kompute.ErrShape, func(e *env) error { return ops.PadEdge(e.s, e.f32(0, 3), [2]int{1, 0}).Err() }},
		},
	}
}
