package optest

import (
	"math"

	"pgregory.net/rapid"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/ops"
)

var (
	sumKinds     = []string{"sum", "prod", "mean"}
	extremeKinds = []string{"amax", "amin"}
	truthKinds   = []string{"all", "any"}
	indexKinds   = []string{"arg_max", "arg_min", "greedy"}
	reduceKinds  = concat(sumKinds, extremeKinds, truthKinds, indexKinds, []string{"log_sum_exp"})
)

// reduceOp is a reduction of T with an R result.
type reduceOp[R, T kompute.Element] func(*kompute.Stream, *kompute.Tensor[T], ...ops.ReduceOption) *kompute.Tensor[R]

// options are those of the case.
func (c *call) options() []ops.ReduceOption {
	var out []ops.ReduceOption
	if c.Params.Axes != nil && !has(indexKinds, c.Params.Kind) {
		out = append(out, ops.Axes(c.Params.Axes...))
	}
	if c.Params.Keep {
		out = append(out, ops.KeepDims())
	}
	return out
}

func reduceBy[R, T kompute.Element](c *call, op reduceOp[R, T]) *kompute.View {
	return op(c.s, tensor[T](c, "x"), c.options()...).View()
}

// runExtreme runs the kinds that every type has.
func runExtreme[T kompute.Element](c *call) *kompute.View {
	switch c.Params.Kind {
	case "all":
		return reduceBy(c, ops.All[T])
	case "any":
		return reduceBy(c, ops.Any[T])
	case "amax":
		return reduceBy(c, ops.AMax[T])
	case "amin":
		return reduceBy(c, ops.AMin[T])
	case "arg_max":
		return ops.ArgMax(c.s, tensor[T](c, "x"), c.Params.Axes[0], c.options()...).View()
	}
	return ops.ArgMin(c.s, tensor[T](c, "x"), c.Params.Axes[0], c.options()...).View()
}

func runSum[T kompute.Number](c *call) *kompute.View {
	if c.Params.Kind == "prod" {
		return reduceBy(c, ops.Prod[T])
	}
	return reduceBy(c, ops.Sum[T])
}

func runReduceAs[R, T kompute.Element](c *call) *kompute.View {
	kind := map[string]ops.Reduction{"sum": ops.ReduceSum, "prod": ops.ReduceProd, "mean": ops.ReduceMean}[c.Params.Kind]
	return ops.ReduceAs[R](c.s, kind, tensor[T](c, "x"), c.options()...).View()
}

func runMean[T kompute.Float](c *call) *kompute.View { return reduceBy(c, ops.Mean[T]) }

func runLogSumExp[T kompute.Float](c *call) *kompute.View { return reduceBy(c, ops.LogSumExp[T]) }

func runGreedy[T kompute.Float](c *call) *kompute.View {
	return ops.Greedy(c.s, tensor[T](c, "x")).View()
}

func runReduce(c *call) *kompute.View {
	dtype := c.dtype("x")
	switch c.Params.Kind {
	case "greedy":
		return byFloat(dtype, runGreedy[float32], runGreedy[array.F16], runGreedy[array.BF16])(c)
	case "sum", "prod":
		return byElement(dtype, runSum[float32], runSum[array.F16], runSum[array.BF16], runSum[int32], runSum[uint32],
			runReduceAs[int32, bool], runReduceAs[uint32, uint8])(c)
	case "mean":
		return byElement(dtype, runMean[float32], runMean[array.F16], runMean[array.BF16], runReduceAs[float32, int32],
			runReduceAs[float32, uint32], runReduceAs[float32, bool], runReduceAs[float32, uint8])(c)
	case "log_sum_exp":
		return byFloat(dtype, runLogSumExp[float32], runLogSumExp[array.F16], runLogSumExp[array.BF16])(c)
	}
	return byElement(dtype, runExtreme[float32], runExtreme[array.F16], runExtreme[array.BF16], runExtreme[int32],
		runExtreme[uint32], runExtreme[bool], runExtreme[uint8])(c)
}

// reducedAxes returns which axes of x a case keeps and which it reduces.
func reducedAxes(c *Case) (kept, reduced []int) {
	x := c.In["x"]
	gone := make([]bool, x.Rank())
	for i := range gone {
		gone[i] = c.Params.Axes == nil
	}
	for _, a := range c.Params.Axes {
		axis, err := x.Axis(a)
		if err != nil {
			panic(err)
		}
		gone[axis] = true
	}
	for axis, g := range gone {
		if g {
			reduced = append(reduced, axis)
		} else {
			kept = append(kept, axis)
		}
	}
	return kept, reduced
}

func referenceReduce(c *Case) []float64 {
	x := c.In["x"]
	kept, reduced := reducedAxes(c)
	n, cols := 1, 1
	for _, axis := range kept {
		n *= x.Shape[axis]
	}
	for _, axis := range reduced {
		cols *= x.Shape[axis]
	}
	x.Layout = must(x.Transpose(concat(kept, reduced)...))
	all, out := floats(x), make([]float64, n)
	for i := range out {
		out[i] = reduceFormulas[c.Params.Kind](all[i*cols : (i+1)*cols])
		if c.Params.Kind == "sum" && !x.DType.IsFloat() {
			out[i] = wrap(reduceResult(c), int64(out[i]))
		}
		if c.Params.Kind == "prod" && !x.DType.IsFloat() {
			p := int64(1)
			for _, v := range all[i*cols : (i+1)*cols] {
				p = int64(int32(p * int64(v)))
			}
			out[i] = wrap(reduceResult(c), p)
		}
	}
	return round(reduceResult(c), out)
}

func reduceResult(c *Case) array.DType {
	dtype, kind := c.dtype("x"), c.Params.Kind
	switch {
	case has(indexKinds, kind):
		return array.Uint32
	case has(truthKinds, kind):
		return array.Bool
	case kind == "mean" && !dtype.IsFloat():
		return array.Float32
	case has(sumKinds, kind) && dtype == array.Bool:
		return array.Int32
	case has(sumKinds, kind) && dtype == array.Uint8:
		return array.Uint32
	}
	return dtype
}

func reduceExact(c *Case) bool {
	return !reduceResult(c).IsFloat() || has(extremeKinds, c.Params.Kind)
}

// reduceBound is that of sums, whose terms may cancel.
func reduceBound(c *Case) bound {
	x := c.In["x"]
	n := x.Size()
	for _, axis := range first(reducedAxes(c)) {
		n /= max(x.Shape[axis], 1)
	}
	b := sumBound(reduceResult(c), n, largest(floats(x)))
	switch c.Params.Kind {
	case "mean":
		b.Absolute /= float64(max(n, 1))
		if !x.DType.IsFloat() { // to a few units in the last place, though large elements cancel
			b = pointwiseBound(reduceResult(c))
			b.Absolute += 1e-11 * largest(floats(x))
		}
	case "prod":
		b = pointwiseBound(reduceResult(c))
		b.Relative += 1e-7 * float64(n)
	case "log_sum_exp":
		b.Absolute, b.Share = 2e-6, 0
	}
	return b
}

func first(a, _ []int) []int { return a }

func reduceTypes(kind string) []array.DType {
	if kind == "log_sum_exp" || kind == "greedy" {
		return floatTypes
	}
	return elementTypes
}

// reduceOperand returns an operand that suits a kind: factors near 1 for products (a row may repeat one), and
// some zeros for All and Any.
func reduceOperand(r source, kind string, dtype array.DType, shape ...int) array.Array {
	switch {
	case kind == "prod" && dtype.IsFloat():
		x := r.normal(dtype, 0.002, shape...)
		set, get := setter(x), getter(x)
		walk(x.Layout, func(i int) { set(i, math.Exp(get(i))) })
		return x
	case has(truthKinds, kind):
		return r.integers(dtype, 0, 1, shape...)
	}
	return r.numbers(dtype, shape...)
}

func randomReduce(t *rapid.T) Case {
	kind := rapid.SampledFrom(reduceKinds).Draw(t, "kind")
	dtype := drawType(t, "type", reduceTypes(kind))
	shape := drawShape(t, "shape", 0, 6, 3000)
	if len(shape) == 0 && has(indexKinds, kind) || rapid.IntRange(0, 3).Draw(t, "rows") == 0 {
		shape = drawRows(t)
	}
	x := reduceOperand(drawSource(t), kind, dtype, shape...)
	c := Case{In: map[string]array.Array{"x": drawLayout(t, "x", x)}, Params: Params{Kind: kind, Keep: kind != "greedy" && rapid.Bool().Draw(t, "keep")}}
	needs := has(concat(indexKinds, extremeKinds), kind) || kind == "log_sum_exp"
	if kind == "greedy" {
		c.Params.Axes = []int{-1}
	} else if has(indexKinds, kind) {
		c.Params.Axes = []int{rapid.IntRange(0, len(shape)-1).Draw(t, "axis")}
	} else if !rapid.Bool().Draw(t, "all") {
		c.Params.Axes = rapid.Permutation(upTo(len(shape))).Draw(t, "axes")[:rapid.IntRange(0, len(shape)).Draw(t, "count")]
	}
	if needs && size(shape) == 0 { // there must be no result either
		for _, axis := range second(reducedAxes(&c)) {
			if shape[axis] == 0 {
				c.In["x"] = reduceOperand(newSource(1), kind, dtype, 2, 3)
				c.Params.Axes = []int{1}
				break
			}
		}
	}
	return c
}

func second(_, b []int) []int { return b }

func upTo(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// reduceAlong: results are independent along the axes that stay.
func reduceAlong(c *Case, axis int) map[string]int {
	kept, reduced := reducedAxes(c)
	if !c.Params.Keep {
		return map[string]int{"x": kept[axis]}
	}
	for _, gone := range reduced {
		if axis == gone {
			return nil
		}
	}
	return map[string]int{"x": axis}
}

func reduceRejects() []reject {
	return []reject{
		{"axis", kompute.ErrShape, func(e *env) error { return ops.Sum(e.s, e.f32(2, 3), ops.Axes(2)).Err() }},
		{"negative axis", kompute.ErrShape, func(e *env) error { return ops.Mean(e.s, e.f32(2, 3), ops.Axes(-3)).Err() }},
		{"axis twice", kompute.ErrShape, func(e *env) error { return ops.Prod(e.s, e.i32(2, 3), ops.Axes(1, -1)).Err() }},
		{"axis of rank 0", kompute.ErrShape, func(e *env) error { return ops.Any(e.s, e.boolean(), ops.Axes(0)).Err() }},
		{"maximum of nothing", kompute.ErrShape, func(e *env) error { return ops.AMax(e.s, e.f32(2, 0), ops.Axes(1)).Err() }},
		{"minimum of nothing", kompute.ErrShape, func(e *env) error { return ops.AMin(e.s, e.f32(2, 0)).Err() }},
		{"log of nothing", kompute.ErrShape, func(e *env) error { return ops.LogSumExp(e.s, e.f32(0), ops.KeepDims()).Err() }},
		{"index of rank 0", kompute.ErrShape, func(e *env) error { return ops.ArgMax(e.s, e.f32(), -1).Err() }},
		{"index along no axis", kompute.ErrShape, func(e *env) error { return ops.ArgMin(e.s, e.f32(2, 3), 2).Err() }},
		{"index along no negative axis", kompute.ErrShape, func(e *env) error { return ops.ArgMax(e.s, e.f32(2, 3), -3).Err() }},
		{"index in nothing", kompute.ErrShape, func(e *env) error { return ops.ArgMax(e.s, e.f32(2, 0), -1).Err() }},
		{"token of rank 0", kompute.ErrShape, func(e *env) error { return ops.Greedy(e.s, e.f32()).Err() }},
		{"token of nothing", kompute.ErrShape, func(e *env) error { return ops.Greedy(e.s, e.f32(2, 0)).Err() }},
		{"index along axes", kompute.ErrInvalid, func(e *env) error { return ops.ArgMin(e.s, e.f32(2, 3), 0, ops.Axes(0, 1)).Err() }},
		{"sum in another type", kompute.ErrDType, func(e *env) error { return ops.ReduceAs[float32](e.s, ops.ReduceSum, e.i32(2, 3)).Err() }},
		{"mean in another type", kompute.ErrDType, func(e *env) error { return ops.ReduceAs[int32](e.s, ops.ReduceMean, e.i32(2, 3)).Err() }},
		{"no such reduction", kompute.ErrInvalid, func(e *env) error { return ops.ReduceAs[int32](e.s, -1, e.i32(2, 3)).Err() }},
		{"too many elements", kompute.ErrTooLarge, func(e *env) error { return ops.Sum(e.s, e.repeated(1<<17, 1<<17)).Err() }},
	}
}

func reduceSuite() suite {
	return suite{
		op: "reduce", run: runReduce, reference: referenceReduce, exact: reduceExact, bound: reduceBound,
		cases: reduceCases, draw: randomReduce, along: reduceAlong, regroups: true, thin: 30,
		kinds: []string{"sum", "amax", "arg_max", "log_sum_exp"},
		large: func(dtype array.DType, _ string, size int) Case {
			return Case{Params: Params{Axes: []int{-1}}, In: map[string]array.Array{"x": blank(dtype, size/4096, 4096)}}
		},
		valid: func() Case {
			return Case{Params: Params{Kind: "sum", Axes: []int{-1}}, In: map[string]array.Array{"x": newSource(1).normal(array.Float32, 1, 2, 3)}}
		},
		rejects: reduceRejects(),
	}
}
