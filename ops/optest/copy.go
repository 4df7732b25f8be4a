package optest

import (
	"pgregory.net/rapid"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/ops"
)

func runCopyOf[T kompute.Element](c *call) *kompute.View {
	return ops.Copy(c.s, tensor[T](c, "x")).View()
}

func runCopy(c *call) *kompute.View {
	return byElement(c.dtype("x"), runCopyOf[float32], runCopyOf[array.F16], runCopyOf[array.BF16],
		runCopyOf[int32], runCopyOf[uint32], runCopyOf[bool], runCopyOf[uint8])(c)
}

func copyCases() []Case {
	var cases []Case
	for _, dtype := range elementTypes {
		for _, how := range layouts {
			for _, shape := range [][]int{{}, {1}, {37, 19}, {5, 1, 33, 3}, {2, 3, 2, 1, 2, 3, 2, 5}, {4, 0, 3}} {
				x := place(newSource(7).numbers(dtype, shape...), how)
				cases = append(cases, Case{Name: name(dtype, how, shape), In: map[string]array.Array{"x": x}})
			}
		}
	}
	x := place(newSource(8).numbers(array.Float32, 700, 301), "transposed")
	return append(cases, Case{Name: "large", In: map[string]array.Array{"x": x}})
}

func randomCopy(t *rapid.T) Case {
	x := drawSource(t).numbers(drawType(t, "type", elementTypes), drawShape(t, "shape", 0, 8, 4000)...)
	return Case{In: map[string]array.Array{"x": drawLayout(t, "x", x)}}
}

func copySuite() suite {
	return suite{
		op: "copy", run: runCopy, cases: copyCases, draw: randomCopy, along: pointwise,
		reference: func(c *Case) []float64 { return floats(c.In["x"]) },
		exact:     func(*Case) bool { return true },
		large: func(dtype array.DType, _ string, size int) Case {
			return Case{In: map[string]array.Array{"x": blank(dtype, size/4096, 4096)}}
		},
		valid: func() Case {
			return Case{In: map[string]array.Array{"x": newSource(1).normal(array.Float32, 1, 2, 3)}}
		},
		rejects: []reject{
			{"too many elements", kompute.ErrTooLarge, func(e *env) error { return ops.Copy(e.s, e.repeated(1<<16, 1<<16)).Err() }},
			{"bad view", nil, func(e *env) error { return ops.Copy(e.s, own(e.t, e.f32(2, 3).Reshape(7))).Err() }},
		},
	}
}
