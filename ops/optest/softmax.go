package optest

import (
	"math"

	"pgregory.net/rapid"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/ops"
)

func runSoftmaxOf[T kompute.Float](c *call) *kompute.View {
	return ops.Softmax(c.s, tensor[T](c, "x")).View()
}

func runSoftmax(c *call) *kompute.View {
	return byFloat(c.dtype("x"), runSoftmaxOf[float32], runSoftmaxOf[array.F16], runSoftmaxOf[array.BF16])(c)
}

func referenceSoftmax(c *Case) []float64 {
	var out []float64
	rows(c.In["x"], func(row []float64) { out = append(out, softmax(row)...) })
	return round(c.dtype("x"), out)
}

func softmax(row []float64) []float64 {
	largest, sum := math.Inf(-1), 0.0
	for _, v := range row {
		largest = math.Max(largest, v)
	}
	out := make([]float64, len(row))
	for i, v := range row {
		out[i] = math.Exp(v - largest)
		sum += out[i]
	}
	for i := range out {
		out[i] /= sum
	}
	return out
}

// rowShapes are shapes of what works on rows: every length around the sizes of
// workgroups, few and many rows.
func rowShapes() [][]int {
	shapes := [][]int{{1}, {3, 1}, {2, 2}, {70, 5}, {2, 3, 0}, {0, 4}, {2, 3, 2, 1, 2, 2, 2, 7}}
	for _, n := range []int{31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257, 511, 513, 1023, 1024, 1025, 2048, 5000} {
		shapes = append(shapes, []int{2, n})
	}
	return shapes
}

func softmaxCases() []Case {
	var cases []Case
	for _, dtype := range floatTypes {
		for _, shape := range rowShapes() {
			cases = append(cases, Case{Name: name(dtype, "", shape), In: map[string]array.Array{"x": newSource(9).normal(dtype, 4, shape...)}})
		}
	}
	inf := math.Inf(1)
	edges := dense(array.Float32, []float64{1e30, -1e30, 0, 88, 89, 90, -inf, 0, 1, -inf, -inf, -inf, inf, 0, 1, math.NaN(), 1, 2}, 6, 3)
	x := newSource(10).normal(array.Float32, 1, 1, 151936)
	return append(cases, Case{Name: "edges", In: map[string]array.Array{"x": edges}},
		Case{Name: "vocabulary", In: map[string]array.Array{"x": x}})
}

func randomSoftmax(t *rapid.T) Case {
	x := drawSource(t).normal(drawType(t, "type", floatTypes), 4, drawRows(t)...)
	return Case{In: map[string]array.Array{"x": drawLayout(t, "x", x)}}
}

// drawRows draws a shape of few rows of any length up to 5,000.
func drawRows(t *rapid.T) []int {
	shape := drawShape(t, "rows", 0, 4, 40)
	return append(shape, rapid.OneOf(rapid.IntRange(1, 70), rapid.IntRange(1, 1100), rapid.IntRange(1, 5000)).Draw(t, "length"))
}

func softmaxSuite() suite {
	return suite{
		op: "softmax", run: runSoftmax, reference: referenceSoftmax, cases: softmaxCases, draw: randomSoftmax, thin: 2, along: rowwise,
		large: func(dtype array.DType, _ string, size int) Case {
			return Case{In: map[string]array.Array{"x": blank(dtype, size/4096, 4096)}}
		},
		valid: func() Case {
			return Case{In: map[string]array.Array{"x": newSource(1).normal(array.Float32, 1, 2, 3)}}
		},
		rejects: []reject{
			{"rank 0", kompute.ErrShape, func(e *env) error { return ops.Softmax(e.s, e.f32()).Err() }},
		},
	}
}
