package optest

import (
	"pgregory.net/rapid"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/ops"
)

func runSiLUMulOf[T kompute.Float](c *call) *kompute.View {
	return ops.SiLUMul(c.s, tensor[T](c, "gate"), tensor[T](c, "up")).View()
}

func runSiLUMul(c *call) *kompute.View {
	return byFloat(c.dtype("gate"), runSiLUMulOf[float32], runSiLUMulOf[array.F16], runSiLUMulOf[array.BF16])(c)
}

func referenceSiLUMul(c *Case) []float64 {
	gate, up := c.In["gate"], c.In["up"]
	shape, err := array.BroadcastShapes(gate.Shape, up.Shape)
	if err != nil {
		panic(err)
	}
	gate.Layout, up.Layout = must(gate.Broadcast(shape...)), must(up.Broadcast(shape...))
	out, u := floats(gate), floats(up)
	for i, g := range out {
		out[i] = g * sigmoid(g) * u[i]
	}
	return round(gate.DType, out)
}

func siLUMulCases() []Case {
	var cases []Case
	for _, dtype := range floatTypes {
		for _, shape := range [][]int{{1}, {3, 1023}, {2, 1, 3072}, {5, 0}, {}} {
			r := newSource(5)
			cases = append(cases, Case{Name: name(dtype, "", shape), In: map[string]array.Array{
				"gate": r.normal(dtype, 4, shape...), "up": r.normal(dtype, 1, shape...),
			}})
		}
		cases = append(cases, Case{Name: name(dtype, "broadcast", nil), In: map[string]array.Array{
			"gate": newSource(6).normal(dtype, 4, 3, 1, 9), "up": newSource(7).normal(dtype, 1, 4, 1),
		}})
	}
	far := dense(array.Float32, []float64{80, -80, 200, -200, 0, 1e30, -1e30}, 7)
	return append(cases, Case{Name: "far", In: map[string]array.Array{"gate": far, "up": dense(array.Float32, []float64{1}, 1)}})
}

func randomSiLUMul(t *rapid.T) Case {
	dtype, shape, r := drawType(t, "type", floatTypes), drawShape(t, "shape", 0, 5, 3000), drawSource(t)
	return Case{In: map[string]array.Array{
		"gate": drawLayout(t, "gate", r.normal(dtype, 3, drawPart(t, "gate", shape)...)),
		"up":   drawLayout(t, "up", r.normal(dtype, 1, drawPart(t, "up", shape)...)),
	}}
}

func siLUMulSuite() suite {
	return suite{
		op: "silu_mul", run: runSiLUMul, reference: referenceSiLUMul, cases: siLUMulCases, draw: randomSiLUMul, along: pointwise,
		bound: func(c *Case) bound {
			b := pointwiseBound(c.dtype("gate"))
			b.Relative = max(b.Relative, 2e-5)
			return b
		},
		large: func(dtype array.DType, _ string, size int) Case {
			return Case{In: map[string]array.Array{"gate": blank(dtype, size), "up": blank(dtype, size)}}
		},
		valid: func() Case {
			r := newSource(1)
			return Case{In: map[string]array.Array{"gate": r.normal(array.Float32, 1, 2, 3), "up": r.normal(array.Float32, 1, 2, 3)}}
		},
		rejects: []reject{
			{"shapes", kompute.ErrShape, func(e *env) error { return ops.SiLUMul(e.s, e.f32(2, 3), e.f32(3, 2)).Err() }},
		},
	}
}
