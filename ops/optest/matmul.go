package optest

import (
	"fmt"
	"math"

	"pgregory.net/rapid"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/ops"
)

func runMatMulOf[T kompute.Float](c *call) *kompute.View {
	return ops.MatMul(c.s, tensor[T](c, "a"), tensor[T](c, "b")).View()
}

func runMatMul(c *call) *kompute.View {
	return byFloat(c.dtype("a"), runMatMulOf[float32], runMatMulOf[array.F16], runMatMulOf[array.BF16])(c)
}

func referenceMatMul(c *Case) []float64 {
	a, b := c.In["a"], c.In["b"]
	m, k, n := a.Dim(-2), a.Dim(-1), b.Dim(-1)
	batch, err := array.BroadcastShapes(a.Shape[:a.Rank()-2], b.Shape[:b.Rank()-2])
	if err != nil {
		panic(err)
	}
	a.Layout = must(a.Broadcast(append(batch[:len(batch):len(batch)], m, k)...))
	b.Layout = must(b.Broadcast(append(batch[:len(batch):len(batch)], k, n)...))
	x, y := floats(a), floats(b)
	out := make([]float64, size(batch)*m*n)
	for p := range size(batch) {
		for i := range m {
			for l := range k {
				v := x[(p*m+i)*k+l]
				for j := range n {
					out[(p*m+i)*n+j] += v * y[(p*k+l)*n+j]
				}
			}
		}
	}
	return round(a.DType, out)
}

func matMulCases() []Case {
	var cases []Case
	add := func(label string, a, b array.Array) {
		cases = append(cases, Case{Name: name(a.DType, label, nil), In: map[string]array.Array{"a": a, "b": b}})
	}
	for _, dtype := range floatTypes {
		r := newSource(22)
		for _, d := range [][3]int{
			{1, 1, 1},
			{1, 64, 64},
			{1, 1000, 33},
			{2, 17, 3},
			{7, 31, 65},
			{8, 128, 64},
			{16, 16, 16},
			{33, 40, 31},
			{64, 64, 64},
			{65, 129, 66},
			{5, 0, 3},
			{0, 3, 4},
			{3, 4, 0},
			{100, 3, 1},
		} {
			add(fmt.Sprintf("%dx%dx%d", d[0], d[1], d[2]), r.normal(dtype, 1, d[0], d[1]), r.normal(dtype, 1, d[1], d[2]))
			add(fmt.Sprintf("transposed %dx%dx%d", d[0], d[1], d[2]), r.normal(dtype, 1, d[0], d[1]), place(r.normal(dtype, 1, d[1], d[2]), "transposed"))
		}
		add("batch", r.normal(dtype, 1, 2, 1, 3, 5, 9), r.normal(dtype, 1, 4, 1, 9, 6))
		add("shared", r.normal(dtype, 1, 3, 2, 5, 9), r.normal(dtype, 1, 9, 6))
		add("large batch", r.normal(dtype, 1, 2, 1, 33, 40), r.normal(dtype, 1, 3, 40, 36))
		add("large shared left", r.normal(dtype, 1, 65, 48), r.normal(dtype, 1, 3, 48, 40))
		add("rank 8", r.normal(dtype, 1, 2, 1, 2, 1, 2, 1, 2, 3), r.normal(dtype, 1, 2, 1, 2, 1, 2, 3, 2))
		add("odd", place(r.normal(dtype, 1, 9, 21), "padded"), place(r.normal(dtype, 1, 21, 10), "inner"))
		heads := r.normal(dtype, 1, 2, 7, 3, 16)
		heads.Layout = must(heads.Transpose(0, 2, 1, 3))
		keys := heads
		keys.Layout = must(heads.Transpose(0, 1, 3, 2))
		add("heads", heads, keys)
	}
	r := newSource(23)
	add("long", r.normal(array.Float32, 1, 1, 20000), r.normal(array.Float32, 1, 20000, 3))
	add("logits", r.normal(array.Float32, 1, 1, 64), place(r.normal(array.Float32, 1, 64, 30000), "transposed"))
	return cases
}

func randomMatMul(t *rapid.T) Case {
	r, dtype := drawSource(t), drawType(t, "type", floatTypes)
	batch := drawShape(t, "batch", 0, 4, 8)
	side := rapid.OneOf(rapid.IntRange(1, 8), rapid.IntRange(0, 70))
	m, k, n := side.Draw(t, "m"), side.Draw(t, "k"), side.Draw(t, "n")
	return Case{In: map[string]array.Array{
		"a": drawLayout(t, "a", r.normal(dtype, 1, append(drawPart(t, "a", batch), m, k)...)),
		"b": drawLayout(t, "b", r.normal(dtype, 1, append(drawPart(t, "b", batch), k, n)...)),
	}}
}

// matMulAlong: rows of a, columns of b and the matrices of a batch are independent.
func matMulAlong(c *Case, axis int) map[string]int {
	a, b := c.In["a"].Rank(), c.In["b"].Rank()
	axes, fromEnd := map[string]int{}, max(a, b)-axis
	if fromEnd != 1 && fromEnd <= a {
		axes["a"] = a - fromEnd
	}
	if fromEnd != 2 && fromEnd <= b {
		axes["b"] = b - fromEnd
	}
	return axes
}

func matMulSuite() suite {
	return suite{
		op: "matmul", run: runMatMul, reference: referenceMatMul, cases: matMulCases, draw: randomMatMul, thin: 8,
		reorders: func(*kompute.Device) bool { return true }, along: matMulAlong, regroups: true,
		bound: func(c *Case) bound {
			return sumBound(c.dtype("a"), c.In["a"].Dim(-1), largest(floats(c.In["a"]))*largest(floats(c.In["b"])))
		},
		flop: func(c *Case) float64 {
			a, b := c.In["a"].Shape, c.In["b"].Shape
			return 2 * float64(a[0]) * float64(a[1]) * float64(b[1])
		},
		large: func(dtype array.DType, _ string, size int) Case {
			n := int(math.Sqrt(float64(size)))
			return Case{In: map[string]array.Array{"a": blank(dtype, n, n), "b": blank(dtype, n, n)}}
		},
		valid: func() Case {
			r := newSource(1)
			return Case{In: map[string]array.Array{"a": r.normal(array.Float32, 1, 2, 3), "b": r.normal(array.Float32, 1, 3, 4)}}
		},
		rejects: []reject{
			{"inner", kompute.ErrShape, func(e *env) error { return ops.MatMul(e.s, e.f32(2, 3), e.f32(2, 3)).Err() }},
			{"vector left", kompute.ErrShape, func(e *env) error { return ops.MatMul(e.s, e.f32(3), e.f32(3, 2)).Err() }},
			{"vector right", kompute.ErrShape, func(e *env) error { return ops.MatMul(e.s, e.f32(2, 3), e.f32(3)).Err() }},
			{"rank 0", kompute.ErrShape, func(e *env) error { return ops.MatMul(e.s, e.f32(), e.f32()).Err() }},
			{"batch", kompute.ErrShape, func(e *env) error { return ops.MatMul(e.s, e.f32(2, 2, 3), e.f32(3, 3, 2)).Err() }},
			{"result size", kompute.ErrTooLarge, func(e *env) error {
				return ops.MatMul(e.s, e.repeated(1<<17, 1), e.repeated(1, 1<<17)).Err()
			}},
		},
	}
}
