package optest

import (
	"math"

	"pgregory.net/rapid"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/ops"
)

func runCastOf[To, From kompute.Element](c *call) *kompute.View {
	return ops.Cast[To](c.s, tensor[From](c, "x")).View()
}

func runCastFrom[From kompute.Element](c *call) *kompute.View {
	return byElement(c.To, runCastOf[float32, From], runCastOf[array.F16, From], runCastOf[array.BF16, From],
		runCastOf[int32, From], runCastOf[uint32, From], runCastOf[bool, From], runCastOf[uint8, From])(c)
}

func runCast(c *call) *kompute.View {
	return byElement(c.dtype("x"), runCastFrom[float32], runCastFrom[array.F16], runCastFrom[array.BF16],
		runCastFrom[int32], runCastFrom[uint32], runCastFrom[bool], runCastFrom[uint8])(c)
}

func referenceCast(c *Case) []float64 {
	x := c.In["x"]
	out := floats(x)
	for i, v := range out {
		switch {
		case c.To == array.Bool:
			out[i] = truth(v != 0)
		case c.To.IsFloat():
		case x.DType.IsFloat():
			out[i] = truncate(c.To, v)
		case c.To == array.Uint8:
			out[i] = float64(uint8(int64(v)))
		default:
			out[i] = wrap(c.To, int64(v))
		}
	}
	return round(c.To, out)
}

// truncate rounds toward zero and clamps.
func truncate(to array.DType, v float64) float64 {
	lo, hi := 0.0, 255.0
	switch to {
	case array.Int32:
		lo, hi = math.MinInt32, math.MaxInt32
	case array.Uint32:
		hi = math.MaxUint32
	}
	if math.IsNaN(v) {
		return 0
	}
	return min(max(math.Trunc(v), lo), hi)
}

// castEdges are awkward numbers of a type.
func castEdges(dtype array.DType) array.Array {
	var v []float64
	switch dtype {
	case array.Bool:
		v = []float64{0, 1}
	case array.Uint8:
		v = []float64{0, 1, 127, 128, 255}
	case array.Int32:
		v = []float64{0, -1, 1, 255, 256, -256, 2049, 65519, 65520, 16777217, math.MaxInt32, math.MinInt32}
	case array.Uint32:
		v = []float64{0, 1, 255, 256, 2049, 65519, 65520, 16777217, 1 << 31, math.MaxUint32}
	default:
		v = []float64{
			0, math.Copysign(0, -1), 0.5, -0.5, 0.9999, -0.9999, 1.5, -1.5, 2.5, 255.5, 256, -1, 2049, 2051, 65504, 65519,
			65520, 1 << 31, 1 << 32, -(1 << 31), 3e9, -3e9, 5e9, 1e30, -1e30, 6e-8, 3e-8, 2.9e-8, 1e-5, math.Inf(1), math.Inf(-1), math.NaN(),
		}
	}
	return dense(dtype, v, len(v))
}

func castCases() []Case {
	var cases []Case
	for _, from := range elementTypes {
		for _, to := range elementTypes {
			for label, x := range map[string]array.Array{
				"edges": castEdges(from), "many": newSource(3).numbers(from, 3, 343), "rank0": newSource(4).numbers(from),
			} {
				cases = append(cases, Case{Name: from.String() + "_" + to.String() + "/" + label, To: to, In: map[string]array.Array{"x": x}})
			}
		}
	}
	return cases
}

func randomCast(t *rapid.T) Case {
	x := drawSource(t).numbers(drawType(t, "from", elementTypes), drawShape(t, "shape", 0, 7, 3000)...)
	return Case{To: drawType(t, "to", elementTypes), In: map[string]array.Array{"x": drawLayout(t, "x", x)}}
}

func castSuite() suite {
	return suite{
		op: "cast", run: runCast, reference: referenceCast, cases: castCases, draw: randomCast, thin: 6, along: pointwise,
		exact: func(*Case) bool { return true },
		large: func(dtype array.DType, _ string, size int) Case {
			to := array.Float32
			if dtype == to {
				to = array.BFloat16
			}
			return Case{To: to, In: map[string]array.Array{"x": blank(dtype, size)}}
		},
		valid: func() Case {
			return Case{To: array.Float16, In: map[string]array.Array{"x": newSource(1).normal(array.Float32, 1, 2, 3)}}
		},
	}
}
