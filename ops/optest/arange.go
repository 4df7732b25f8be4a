package optest

import (
	"fmt"
	"math"

	"pgregory.net/rapid"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/ops"
)

func runArangeOf[T ops.Countable](c *call) *kompute.View {
	r := c.Params.Range
	return ops.Arange[T](c.s, r[0], r[1], r[2]).View()
}

func runArange(c *call) *kompute.View {
	return byElement(c.To, runArangeOf[float32], runArangeOf[array.F16], runArangeOf[array.BF16],
		runArangeOf[int32], runArangeOf[uint32], nil, runArangeOf[uint8])(c)
}

func referenceArange(c *Case) []float64 {
	start, stop, step := c.Params.Range[0], c.Params.Range[1], c.Params.Range[2]
	out := make([]float64, max(0, int(math.Ceil((stop-start)/step))))
	if c.To.IsFloat() {
		start, step = float64(float32(start)), float64(float32(step))
	} else {
		step = math.Trunc(start+step) - math.Trunc(start)
		start = math.Trunc(start)
	}
	for i := range out {
		switch v := start + float64(i)*step; {
		case c.To.IsFloat():
			out[i] = v
		case c.To == array.Uint8:
			out[i] = float64(uint8(int64(v)))
		default:
			out[i] = wrap(c.To, int64(v))
		}
	}
	return round(c.To, out)
}

// countableTypes are those of Arange.
var countableTypes = append(numberTypes[:5:5], array.Uint8)

func arangeCases() []Case {
	var cases []Case
	for _, dtype := range countableTypes {
		ranges := [][]float64{{0, 5, 1}, {3, 100, 7}, {2, 2, 1}, {5, 0, 1}, {0, 3000, 1}, {250, 260, 1}}
		if dtype != array.Uint8 && dtype != array.Uint32 {
			ranges = append(ranges, []float64{5, -7, -3}, []float64{-4, 4, 1})
		}
		if dtype.IsFloat() {
			ranges = append(ranges, []float64{0, 1, 0.1}, []float64{-1, 1, 0.125}, []float64{1e3, 1e3 + 2, 0.3}, []float64{0, -1, -0.25})
		} else {
			ranges = append(ranges, []float64{0.5, 5, 1}, []float64{2147483640, 2147483660, 3})
		}
		for _, r := range ranges {
			cases = append(cases, Case{Name: name(dtype, fmt.Sprint(r), nil), To: dtype, Params: Params{Range: r}})
		}
	}
	return append(cases, Case{Name: "long", To: array.Float32, Params: Params{Range: []float64{0, 1 << 21, 1}}})
}

func randomArange(t *rapid.T) Case {
	c := Case{To: drawType(t, "type", countableTypes)}
	scale := 1.0
	if c.To.IsFloat() {
		scale = 0.125
	}
	start := scale * float64(rapid.IntRange(0, 400).Draw(t, "start"))
	step := scale * float64(rapid.IntRange(1, 9).Draw(t, "step"))
	c.Params.Range = []float64{start, start + step*float64(rapid.IntRange(-2, 3000).Draw(t, "n")), step}
	return c
}

func arangeSuite() suite {
	arange := func(start, stop, step float64) func(e *env) error {
		return func(e *env) error { return ops.Arange[float32](e.s, start, stop, step).Err() }
	}
	return suite{
		op: "arange", run: runArange, reference: referenceArange, cases: arangeCases, draw: randomArange,
		exact: func(c *Case) bool { return !c.To.IsFloat() },
		large: func(dtype array.DType, _ string, size int) Case {
			return Case{To: dtype, Params: Params{Range: []float64{0, float64(size), 1}}}
		},
		valid: func() Case { return Case{To: array.Float32, Params: Params{Range: []float64{0, 3, 1}}} },
		rejects: []reject{
			{"no step", kompute.ErrInvalid, arange(0, 1, 0)},
			{"NaN", kompute.ErrInvalid, arange(math.NaN(), 1, 1)},
			{"NaN stop", kompute.ErrInvalid, arange(0, math.NaN(), 1)},
			{"infinite start", kompute.ErrInvalid, arange(math.Inf(-1), 1, 1)},
			{"infinite stop", kompute.ErrInvalid, arange(0, math.Inf(-1), 1)},
			{"infinite step", kompute.ErrInvalid, arange(0, 1, math.Inf(1))},
			{"no end", kompute.ErrInvalid, arange(0, math.Inf(1), 1)},
			{"too many", kompute.ErrTooLarge, arange(0, 5e9, 1)},
		},
	}
}
