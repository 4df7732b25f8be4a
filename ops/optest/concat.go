package optest

import (
	"fmt"
	"slices"

	"pgregory.net/rapid"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/ops"
)

func runConcatOf[T kompute.Element](c *call) *kompute.View {
	var xs []*kompute.Tensor[T]
	for i := range len(c.In) {
		xs = append(xs, tensor[T](c, fmt.Sprint("x", i)))
	}
	if c.Params.Kind == "stack" {
		return ops.Stack(c.s, c.Params.Axis, xs...).View()
	}
	return ops.Concat(c.s, c.Params.Axis, xs...).View()
}

func runConcat(c *call) *kompute.View {
	return byElement(c.dtype("x0"), runConcatOf[float32], runConcatOf[array.F16], runConcatOf[array.BF16],
		runConcatOf[int32], runConcatOf[uint32], runConcatOf[bool], runConcatOf[uint8])(c)
}

// referenceConcat takes rows of each part in turn.
func referenceConcat(c *Case) []float64 {
	var rows [][]float64
	pre := 0
	for i := range len(c.In) {
		x := c.In[fmt.Sprint("x", i)]
		if c.Params.Kind == "stack" {
			x.Layout = must(x.ExpandDims(c.Params.Axis))
		}
		axis, err := x.Axis(c.Params.Axis)
		if err != nil {
			panic(err)
		}
		pre = size(x.Shape[:axis])
		rows = append(rows, floats(x))
	}
	out := []float64{}
	for p := range pre {
		for _, row := range rows {
			n := len(row) / pre
			out = append(out, row[p*n:(p+1)*n]...)
		}
	}
	return out
}

func concatCase(label string, axis int, xs ...array.Array) Case {
	c := Case{Name: label, Params: Params{Kind: "concat", Axis: axis}, In: map[string]array.Array{}}
	for i, x := range xs {
		c.In[fmt.Sprint("x", i)] = x
	}
	return c
}

func concatCases() []Case {
	var cases []Case
	for _, dtype := range elementTypes {
		r := newSource(33)
		for axis := range 3 {
			shape := []int{3, 4, 5}
			var xs []array.Array
			for i, n := range []int{2, 0, 7, 1} {
				shape[axis] = n
				xs = append(xs, place(r.numbers(dtype, shape...), layouts[(i+axis)%len(layouts)]))
			}
			cases = append(cases, concatCase(name(dtype, fmt.Sprint("axis ", axis), nil), axis, xs...),
				concatCase(name(dtype, fmt.Sprint("negative ", axis), nil), axis-3, xs[:3]...))
			stack := concatCase(name(dtype, fmt.Sprint("stack ", axis), nil), axis-2, xs[0], xs[0], place(xs[0], "padded"))
			stack.Params.Kind = "stack"
			cases = append(cases, stack)
		}
		x := r.numbers(dtype, 5)
		many := slices.Repeat([]array.Array{x}, 20)
		cases = append(cases, concatCase(name(dtype, "one", nil), 0, x), concatCase(name(dtype, "many", nil), 0, many...),
			concatCase(name(dtype, "empty", nil), 0, r.numbers(dtype, 2, 0), r.numbers(dtype, 3, 0)),
			concatCase(name(dtype, "rank 8", nil), 6, r.numbers(dtype, 2, 1, 2, 3, 1, 2, 2, 3), place(r.numbers(dtype, 2, 1, 2, 3, 1, 2, 1, 3), "transposed")),
			concatCase(name(dtype, "halves", nil), -1, r.numbers(dtype, 300, 64), r.numbers(dtype, 300, 64)))
	}
	return cases
}

func randomConcat(t *rapid.T) Case {
	r, dtype := drawSource(t), drawType(t, "type", elementTypes)
	shape := drawShape(t, "x", 1, 8, 700)
	axis := rapid.IntRange(0, len(shape)-1).Draw(t, "axis")
	var xs []array.Array
	for range rapid.IntRange(1, 5).Draw(t, "parts") {
		xs = append(xs, drawLayout(t, "x", r.numbers(dtype, shape...)))
		shape[axis] = rapid.IntRange(0, 5).Draw(t, "length")
	}
	return concatCase("", axis, xs...)
}

// concatAlong: the parts may be sliced along every axis but the one where they meet.
func concatAlong(c *Case, axis int) map[string]int {
	rank := c.In["x0"].Rank()
	if c.Params.Kind == "stack" {
		rank++
	}
	own, met := axis, (c.Params.Axis+rank)%rank
	switch {
	case axis == met:
		return nil
	case c.Params.Kind == "stack" && axis > met:
		own--
	}
	axes := map[string]int{}
	for name := range c.In {
		axes[name] = own
	}
	return axes
}

func concatSuite() suite {
	concat := func(axis int, shapes ...[]int) func(e *env) error {
		return func(e *env) error {
			var xs []*kompute.Tensor[float32]
			for _, shape := range shapes {
				xs = append(xs, e.f32(shape...))
			}
			return ops.Concat(e.s, axis, xs...).Err()
		}
	}
	stack := func(axis int, shapes ...[]int) func(e *env) error {
		return func(e *env) error {
			var xs []*kompute.Tensor[float32]
			for _, shape := range shapes {
				xs = append(xs, e.f32(shape...))
			}
			return ops.Stack(e.s, axis, xs...).Err()
		}
	}
	return suite{
		op: "concat", run: runConcat, reference: referenceConcat, cases: concatCases, draw: randomConcat,
		exact: func(*Case) bool { return true }, along: concatAlong,
		large: func(dtype array.DType, _ string, size int) Case {
			return concatCase("", 1, blank(dtype, size/4096, 2048), blank(dtype, size/4096, 2048))
		},
		valid: func() Case {
			r := newSource(1)
			return concatCase("", 1, r.normal(array.Float32, 1, 2, 3), r.normal(array.Float32, 1, 2, 1))
		},
		rejects: []reject{
			{"nothing", kompute.ErrInvalid, concat(0)},
			{"rank 0", kompute.ErrShape, concat(0, nil, nil)},
			{"axis", kompute.ErrShape, concat(2, []int{2, 3}, []int{2, 3})},
			{"negative axis", kompute.ErrShape, concat(-3, []int{2, 3}, []int{2, 3})},
			{"shape", kompute.ErrShape, concat(1, []int{2, 3}, []int{3, 3})},
			{"rank", kompute.ErrShape, concat(0, []int{2, 3}, []int{2})},
			{"too many elements", kompute.ErrTooLarge, func(e *env) error {
				x := e.repeated(1<<16, 1<<15)
				return ops.Concat(e.s, 0, x, x, x).Err()
			}},
			{"stack nothing", kompute.ErrInvalid, stack(0)},
			{"stack shape", kompute.ErrShape, stack(0, []int{2, 3}, []int{2, 4})},
			{"stack axis", kompute.ErrShape, stack(3, []int{2, 3}, []int{2, 3})},
			{"stack rank", kompute.ErrShape, stack(0, []int{1, 1, 1, 1, 1, 1, 1, 1})},
		},
	}
}
