package optest

import (
	"fmt"

	"pgregory.net/rapid"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/ops"
)

func runWhereOf[T kompute.Element](c *call) *kompute.View {
	return ops.Where(c.s, tensor[bool](c, "condition"), tensor[T](c, "a"), tensor[T](c, "b")).View()
}

func runWhere(c *call) *kompute.View {
	return byElement(c.dtype("a"), runWhereOf[float32], runWhereOf[array.F16], runWhereOf[array.BF16],
		runWhereOf[int32], runWhereOf[uint32], runWhereOf[bool], runWhereOf[uint8])(c)
}

func referenceWhere(c *Case) []float64 {
	var shape []int
	for _, name := range []string{"condition", "a", "b"} {
		var err error
		if shape, err = array.BroadcastShapes(shape, c.In[name].Shape); err != nil {
			panic(err)
		}
	}
	wide := func(name string) []float64 {
		a := c.In[name]
		a.Layout = must(a.Broadcast(shape...))
		return floats(a)
	}
	out, b := wide("a"), wide("b")
	for i, v := range wide("condition") {
		if v == 0 {
			out[i] = b[i]
		}
	}
	return out
}

func whereCases() []Case {
	var cases []Case
	for _, dtype := range elementTypes {
		r := newSource(36)
		add := func(label string, c, a, b array.Array) {
			cases = append(cases, Case{Name: name(dtype, label, nil), In: map[string]array.Array{"condition": c, "a": a, "b": b}})
		}
		for i, s := range [][3][]int{
			{{7}, {7}, {7}},
			{{}, {}, {}},
			{{}, {3, 4}, {3, 4}},
			{{5, 1, 4}, {3, 1}, {}},
			{{4}, {3, 1}, {2, 1, 1}},
			{{0, 4}, {1, 4}, {4}},
			{{2, 1, 3, 1, 2, 1, 3, 2}, {1, 2, 1, 2, 1, 2, 1, 1}, {2}},
			{{300, 1}, {300, 301}, {301}},
		} {
			add(fmt.Sprint("shapes ", i), r.integers(array.Bool, 0, 1, s[0]...), r.numbers(dtype, s[1]...), r.numbers(dtype, s[2]...))
		}
		for i, how := range layouts {
			add(how, place(r.integers(array.Bool, 0, 1, 5, 6, 3), how), place(r.numbers(dtype, 5, 6, 3), layouts[(i+2)%6]), place(r.numbers(dtype, 5, 6, 3), layouts[(i+3)%6]))
		}
	}
	edges := castEdges(array.Float32)
	n := edges.Size()
	return append(cases, Case{Name: "bits", In: map[string]array.Array{ // NaN and -0 come through
		"condition": newSource(2).integers(array.Bool, 0, 1, n), "a": edges, "b": edges,
	}})
}

func randomWhere(t *rapid.T) Case {
	r, dtype := drawSource(t), drawType(t, "type", elementTypes)
	shape := drawShape(t, "shape", 0, 8, 2000)
	return Case{In: map[string]array.Array{
		"condition": drawLayout(t, "condition", r.integers(array.Bool, 0, 1, drawPart(t, "condition", shape)...)),
		"a":         drawLayout(t, "a", r.numbers(dtype, drawPart(t, "a", shape)...)),
		"b":         drawLayout(t, "b", r.numbers(dtype, drawPart(t, "b", shape)...)),
	}}
}

func whereSuite() suite {
	where := func(c, a, b []int) func(e *env) error {
		return func(e *env) error { return ops.Where(e.s, e.boolean(c...), e.f32(a...), e.f32(b...)).Err() }
	}
	return suite{
		op: "where", run: runWhere, reference: referenceWhere, cases: whereCases, draw: randomWhere, thin: 2,
		exact: func(*Case) bool { return true }, along: pointwise,
		large: func(dtype array.DType, _ string, size int) Case {
			return Case{In: map[string]array.Array{"condition": blank(array.Bool, size), "a": blank(dtype, size), "b": blank(dtype, size)}}
		},
		valid: func() Case {
			r := newSource(1)
			return Case{In: map[string]array.Array{
				"condition": r.integers(array.Bool, 0, 1, 3), "a": r.normal(array.Float32, 1, 2, 3), "b": r.normal(array.Float32, 1),
			}}
		},
		rejects: []reject{
			{"condition", kompute.ErrShape, where([]int{4}, []int{2, 3}, []int{2, 3})},
			{"a and b", kompute.ErrShape, where([]int{3}, []int{2, 3}, []int{3, 3})},
			{"too many elements", kompute.ErrTooLarge, func(e *env) error {
				return ops.Where(e.s, e.boolean(1<<16, 1), e.repeated(1<<16), e.f32()).Err()
			}},
		},
	}
}
