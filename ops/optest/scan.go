package optest

import (
	"fmt"
	"math"

	"pgregory.net/rapid"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/ops"
)

var scanKinds = []string{"sum", "prod"}

// scanTypes are all but bool.
var scanTypes = []array.DType{array.Float32, array.Float16, array.BFloat16, array.Int32, array.Uint32, array.Uint8}

func runScanOf[T ops.Arithmetic](c *call) *kompute.View {
	var options []ops.ScanOption
	if c.Params.Exclusive {
		options = append(options, ops.Exclusive())
	}
	if c.Params.Reverse {
		options = append(options, ops.Reverse())
	}
	if c.Params.Kind == "prod" {
		return ops.CumProd(c.s, tensor[T](c, "x"), c.Params.Axis, options...).View()
	}
	return ops.CumSum(c.s, tensor[T](c, "x"), c.Params.Axis, options...).View()
}

func runScan(c *call) *kompute.View {
	return byElement(c.dtype("x"), runScanOf[float32], runScanOf[array.F16], runScanOf[array.BF16], runScanOf[int32],
		runScanOf[uint32], nil, runScanOf[uint8])(c)
}

func referenceScan(c *Case) []float64 {
	x := c.In["x"]
	axis, err := x.Axis(c.Params.Axis)
	if err != nil {
		panic(err)
	}
	from, lines := elements(x), map[string][]float64{}
	return round(x.DType, build(x.Shape, func(at []int) float64 {
		place := append([]int(nil), at...)
		place[axis] = 0
		key := fmt.Sprint(place)
		if lines[key] == nil {
			lines[key] = scannedLine(c, from, place, axis, x.Shape[axis])
		}
		return lines[key][at[axis]]
	}))
}

// scannedLine scans the line of n elements along the axis through place.
func scannedLine(c *Case, from func([]int) float64, place []int, axis, n int) []float64 {
	prod, dtype := c.Params.Kind == "prod", c.dtype("x")
	total, whole := 0.0, int64(0)
	if prod {
		total, whole = 1, 1
	}
	joined := func() float64 {
		if dtype.IsFloat() {
			return total
		}
		return wrap(dtype, whole)
	}
	out := make([]float64, n)
	for step := range n {
		i := step
		if c.Params.Reverse {
			i = n - 1 - step
		}
		if c.Params.Exclusive {
			out[i] = joined()
		}
		place[axis] = i
		if v := from(place); prod {
			total *= v
			whole = int64(int32(whole * int64(v)))
		} else {
			total += v
			whole += int64(v)
		}
		if !c.Params.Exclusive {
			out[i] = joined()
		}
	}
	return out
}

func scanExact(c *Case) bool { return !c.dtype("x").IsFloat() }

func scanBound(c *Case) bound {
	x := c.In["x"]
	axis, _ := x.Axis(c.Params.Axis)
	n := x.Dim(axis)
	b := sumBound(x.DType, n, largest(floats(x)))
	if c.Params.Kind == "prod" {
		b = pointwiseBound(x.DType)
		b.Relative += 1e-7 * float64(n)
	}
	return b
}

func scanCase(label string, x array.Array, p Params) Case {
	return Case{Name: name(x.DType, p.Kind, x.Shape) + "/" + label, In: map[string]array.Array{"x": x}, Params: p}
}

func scanCases() []Case {
	var cases []Case
	for _, kind := range scanKinds {
		for _, dtype := range scanTypes {
			r := newSource(41)
			x := reduceOperand(r, kind, dtype, 3, 70, 2)
			for _, direction := range []struct {
				label string
				p     Params
			}{
				{"inclusive", Params{}}, {"exclusive", Params{Exclusive: true}},
				{"reverse", Params{Reverse: true}}, {"both", Params{Exclusive: true, Reverse: true}},
			} {
				direction.p.Kind, direction.p.Axis = kind, 1
				cases = append(cases, scanCase(direction.label, x, direction.p))
			}
			cases = append(cases,
				scanCase("first", x, Params{Kind: kind, Axis: 0}),
				scanCase("one", reduceOperand(r, kind, dtype, 1), Params{Kind: kind, Axis: -1}),
				scanCase("empty", reduceOperand(r, kind, dtype, 2, 0, 3), Params{Kind: kind, Axis: 1}),
				scanCase("eight axes", reduceOperand(r, kind, dtype, 2, 1, 3, 2, 5, 2, 1, 2), Params{Kind: kind, Axis: 4}))
		}
	}
	for _, n := range []int{127, 128, 129, 1023, 1025, 4099} {
		x := newSource(uint64(n)).normal(array.Float32, 1, 2, n)
		cases = append(cases, scanCase("long", x, Params{Kind: "sum", Axis: -1}),
			scanCase("long reverse", x, Params{Kind: "sum", Axis: -1, Exclusive: true, Reverse: true}))
	}
	inf := math.Inf(1)
	edges := dense(array.Float32, []float64{1, inf, 2, -inf, 1, math.NaN(), 1, 2, 3, 4, 5, 6}, 2, 6)
	return append(cases, scanCase("edges", edges, Params{Kind: "sum", Axis: 1}), scanCase("edges", edges, Params{Kind: "prod", Axis: 1}),
		scanCase("vocabulary", newSource(42).normal(array.Float32, 1, 1, 151936), Params{Kind: "sum", Axis: 1}))
}

func randomScan(t *rapid.T) Case {
	kind := rapid.SampledFrom(scanKinds).Draw(t, "kind")
	shape := drawShape(t, "shape", 1, 6, 3000)
	if rapid.IntRange(0, 3).Draw(t, "rows") == 0 {
		shape = drawRows(t)
	}
	x := reduceOperand(drawSource(t), kind, drawType(t, "type", scanTypes), shape...)
	return Case{In: map[string]array.Array{"x": drawLayout(t, "x", x)}, Params: Params{
		Kind: kind, Axis: rapid.IntRange(-len(shape), len(shape)-1).Draw(t, "axis"),
		Exclusive: rapid.Bool().Draw(t, "exclusive"), Reverse: rapid.Bool().Draw(t, "reverse"),
	}}
}

// scanAlong: results are independent along the other axes.
func scanAlong(c *Case, axis int) map[string]int {
	x := c.In["x"]
	if own, _ := x.Axis(c.Params.Axis); own == axis {
		return nil
	}
	return map[string]int{"x": axis}
}

func scanSuite() suite {
	return suite{
		op: "scan", run: runScan, reference: referenceScan, exact: scanExact, bound: scanBound, cases: scanCases,
		draw: randomScan, along: scanAlong, thin: 20,
		kinds: []string{"sum"},
		large: func(dtype array.DType, _ string, size int) Case {
			return Case{Params: Params{Axis: -1}, In: map[string]array.Array{"x": blank(dtype, size/4096, 4096)}}
		},
		valid: func() Case {
			return Case{Params: Params{Kind: "sum", Axis: -1}, In: map[string]array.Array{"x": newSource(1).normal(array.Float32, 1, 2, 3)}}
		},
		rejects: []reject{
			{"axis", kompute.ErrShape, func(e *env) error { return ops.CumSum(e.s, e.f32(2, 3), 2).Err() }},
			{"negative axis", kompute.ErrShape, func(e *env) error { return ops.CumProd(e.s, e.i32(2, 3), -3).Err() }},
			{"axis of rank 0", kompute.ErrShape, func(e *env) error { return ops.CumSum(e.s, e.u8(), 0, ops.Reverse()).Err() }},
		},
	}
}
