package optest

import (
	"math"
	"slices"

	"pgregory.net/rapid"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/ops"
)

func runFillOf[T kompute.Element](c *call) *kompute.View {
	return ops.Fill(c.s, valueOf[T](c.Params.Value), c.Params.Shape...).View()
}

func runFill(c *call) *kompute.View {
	return byElement(c.To, runFillOf[float32], runFillOf[array.F16], runFillOf[array.BF16],
		runFillOf[int32], runFillOf[uint32], runFillOf[bool], runFillOf[uint8])(c)
}

// fillValues are the values that Fill is tested with, by type.
func fillValues(dtype array.DType) []float64 {
	switch {
	case dtype == array.Bool:
		return []float64{0, 1}
	case dtype == array.Uint8:
		return []float64{0, 1, 200}
	case dtype == array.Uint32:
		return []float64{0, 77, math.MaxUint32}
	case dtype == array.Int32:
		return []float64{0, -3, math.MinInt32}
	}
	return []float64{0, -2.5, math.Inf(1), math.NaN()}
}

func fillCases() []Case {
	var cases []Case
	for _, dtype := range elementTypes {
		for i, shape := range [][]int{{}, {1}, {3, 4}, {7, 3, 5}, {0, 3}, {2, 1, 3, 1, 2, 1, 2, 3}, {1000, 33}} {
			for _, v := range fillValues(dtype) {
				cases = append(cases, Case{Name: name(dtype, string(rune('a'+i)), shape), To: dtype, Params: Params{Shape: shape, Value: v}})
			}
		}
	}
	return cases
}

func randomFill(t *rapid.T) Case {
	dtype := drawType(t, "type", elementTypes)
	p := Params{Shape: drawShape(t, "shape", 0, 8, 4000), Value: rapid.SampledFrom(fillValues(dtype)).Draw(t, "value")}
	return Case{To: dtype, Params: p}
}

func fillSuite() suite {
	fill := func(shape ...int) func(e *env) error {
		return func(e *env) error { return ops.Fill(e.s, float32(1), shape...).Err() }
	}
	return suite{
		op: "fill", run: runFill, cases: fillCases, draw: randomFill,
		reference: func(c *Case) []float64 {
			v := floats(dense(c.To, []float64{c.Params.Value}))[0]
			return slices.Repeat([]float64{v}, size(c.Params.Shape))
		},
		exact: func(*Case) bool { return true }, along: pointwise,
		large: func(dtype array.DType, _ string, size int) Case {
			return Case{To: dtype, Params: Params{Shape: []int{size}}}
		},
		valid: func() Case { return Case{To: array.Float32, Params: Params{Shape: []int{2}}} },
		rejects: []reject{
			{"negative", kompute.ErrShape, fill(2, -1)},
			{"rank 9", kompute.ErrShape, fill(1, 1, 1, 1, 1, 1, 1, 1, 1)},
			{"too many elements", kompute.ErrTooLarge, fill(1<<20, 1<<20)},
			{"more elements than 64 bits count", kompute.ErrTooLarge, fill(4, math.MaxInt/2+1)},
			{"more than 4 GiB", kompute.ErrTooLarge, fill(1<<16, 1<<15)},
		},
	}
}
