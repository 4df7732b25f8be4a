package optest

import (
	"math"

	"pgregory.net/rapid"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/ops"
)

var (
	arithmeticKinds = []string{"add", "sub", "mul", "div", "pow", "mod"}
	choiceKinds     = []string{"max", "min"}
	compareKinds    = []string{"equal", "not_equal", "less", "less_equal", "greater", "greater_equal"}
	logicKinds      = []string{"and", "or"}
	bitKinds        = []string{"bit_and", "bit_or", "bit_xor"}
	shiftKinds      = []string{"shift_left", "shift_right"}
	binaryKinds     = concat(arithmeticKinds, choiceKinds, compareKinds, logicKinds, bitKinds, shiftKinds)
)

// binaryOp is an op of two tensors of T with an R result.
type binaryOp[R, T kompute.Element] func(*kompute.Stream, *kompute.Tensor[T], *kompute.Tensor[T]) *kompute.Tensor[R]

func runArithmetic[T ops.Arithmetic](c *call) *kompute.View {
	return map[string]binaryOp[T, T]{
		"add": ops.Add[T], "sub": ops.Sub[T], "mul": ops.Mul[T], "div": ops.Div[T], "pow": ops.Pow[T], "mod": ops.Mod[T],
	}[c.Params.Kind](c.s, tensor[T](c, "a"), tensor[T](c, "b")).View()
}

func runCompare[T kompute.Element](c *call) *kompute.View {
	return map[string]binaryOp[bool, T]{
		"equal": ops.Equal[T], "not_equal": ops.NotEqual[T], "less": ops.Less[T],
		"less_equal": ops.LessEqual[T], "greater": ops.Greater[T], "greater_equal": ops.GreaterEqual[T],
	}[c.Params.Kind](c.s, tensor[T](c, "a"), tensor[T](c, "b")).View()
}

func runChoice[T kompute.Element](c *call) *kompute.View {
	return map[string]binaryOp[T, T]{"max": ops.Max[T], "min": ops.Min[T]}[c.Params.Kind](
		c.s, tensor[T](c, "a"), tensor[T](c, "b")).View()
}

func runLogic[T kompute.Element](c *call) *kompute.View {
	return map[string]binaryOp[bool, T]{"and": ops.And[T], "or": ops.Or[T]}[c.Params.Kind](
		c.s, tensor[T](c, "a"), tensor[T](c, "b")).View()
}

func runBits[T ops.Integer | bool](c *call) *kompute.View {
	return map[string]binaryOp[T, T]{"bit_and": ops.BitAnd[T], "bit_or": ops.BitOr[T], "bit_xor": ops.BitXor[T]}[c.Params.Kind](
		c.s, tensor[T](c, "a"), tensor[T](c, "b")).View()
}

func runShift[T ops.Integer](c *call) *kompute.View {
	return map[string]binaryOp[T, T]{"shift_left": ops.ShiftLeft[T], "shift_right": ops.ShiftRight[T]}[c.Params.Kind](
		c.s, tensor[T](c, "a"), tensor[T](c, "b")).View()
}

func runBinary(c *call) *kompute.View {
	dtype, kind := c.dtype("a"), c.Params.Kind
	switch {
	case has(choiceKinds, kind):
		return byElement(dtype, runChoice[float32], runChoice[array.F16], runChoice[array.BF16],
			runChoice[int32], runChoice[uint32], runChoice[bool], runChoice[uint8])(c)
	case has(arithmeticKinds, kind):
		return byElement(dtype, runArithmetic[float32], runArithmetic[array.F16], runArithmetic[array.BF16],
			runArithmetic[int32], runArithmetic[uint32], nil, runArithmetic[uint8])(c)
	case has(compareKinds, kind):
		return byElement(dtype, runCompare[float32], runCompare[array.F16], runCompare[array.BF16],
			runCompare[int32], runCompare[uint32], runCompare[bool], runCompare[uint8])(c)
	case has(shiftKinds, kind):
		return byElement(dtype, nil, nil, nil, runShift[int32], runShift[uint32], nil, runShift[uint8])(c)
	case has(bitKinds, kind):
		return byElement(dtype, nil, nil, nil, runBits[int32], runBits[uint32], runBits[bool], runBits[uint8])(c)
	}
	return byElement(dtype, runLogic[float32], runLogic[array.F16], runLogic[array.BF16],
		runLogic[int32], runLogic[uint32], runLogic[bool], runLogic[uint8])(c)
}

// wrap brings an integer into the range of its type.
func wrap(dtype array.DType, v int64) float64 {
	switch dtype {
	case array.Int32:
		return float64(int32(v))
	case array.Uint32:
		return float64(uint32(v))
	}
	return float64(uint8(v))
}

func referenceBinary(c *Case) []float64 {
	a, b := c.In["a"], c.In["b"]
	shape, err := array.BroadcastShapes(a.Shape, b.Shape)
	if err != nil {
		panic(err)
	}
	a.Layout, b.Layout = must(a.Broadcast(shape...)), must(b.Broadcast(shape...))
	x, y := floats(a), floats(b)
	out := make([]float64, len(x))
	whole := integerFormulas[c.Params.Kind]
	for i := range out {
		if whole != nil && !a.DType.IsFloat() {
			out[i] = wrap(a.DType, whole(int64(x[i]), int64(y[i])))
		} else {
			out[i] = binaryFormulas[c.Params.Kind](x[i], y[i])
		}
	}
	return round(binaryResult(c), out)
}

func binaryResult(c *Case) array.DType {
	if has(compareKinds, c.Params.Kind) || has(logicKinds, c.Params.Kind) {
		return array.Bool
	}
	return c.dtype("a")
}

// binaryBound is one rounding; powers in float32 are exponentials of logarithms.
func binaryBound(c *Case) bound {
	b := pointwiseBound(binaryResult(c))
	if c.Params.Kind == "pow" {
		b.Relative = max(b.Relative, 1e-4)
	}
	if c.Params.Kind == "mod" {
		b.Absolute = b.Relative * 4 // the error of a quotient, times b
	}
	return b
}

// binaryOperands returns two tensors that suit a kind.
func binaryOperands(r source, kind string, dtype array.DType, sa, sb []int) (a, b array.Array) {
	switch {
	case has(shiftKinds, kind):
		return r.numbers(dtype, sa...), r.integers(dtype, 0, 40, sb...)
	case kind == "pow" && dtype.IsFloat():
		a = r.normal(dtype, 2, sa...)
		set, get := setter(a), getter(a)
		walk(a.Layout, func(i int) { set(i, math.Abs(get(i))) })
		return a, r.normal(dtype, 1.5, sb...)
	case kind == "pow":
		return r.numbers(dtype, sa...), r.integers(dtype, 0, 9, sb...)
	}
	return r.numbers(dtype, sa...), r.numbers(dtype, sb...)
}

func kindTypes(kind string) []array.DType {
	switch {
	case has(bitKinds, kind):
		return []array.DType{array.Int32, array.Uint32, array.Bool, array.Uint8}
	case has(shiftKinds, kind):
		return []array.DType{array.Int32, array.Uint32, array.Uint8}
	case has(arithmeticKinds, kind):
		return append(numberTypes[:5:5], array.Uint8)
	}
	return elementTypes
}

func binaryCases() []Case {
	var cases []Case
	for _, kind := range binaryKinds {
		for _, dtype := range kindTypes(kind) {
			r := newSource(uint64(len(cases)))
			add := func(name string, a, b array.Array) {
				cases = append(cases, Case{
					Name: kind + "/" + dtype.String() + "/" + name,
					In:   map[string]array.Array{"a": a, "b": b}, Params: Params{Kind: kind},
				})
			}
			a, b := binaryOperands(r, kind, dtype, []int{7, 3}, []int{7, 3})
			add("same", a, b)
			a, b = binaryOperands(r, kind, dtype, []int{1031}, nil)
			add("scalar", a, b)
			if dtype == array.Int32 || dtype == array.Uint32 {
				v := []float64{0, 1, 2, 31, 32, 33, 7, 1 << 30, math.MaxInt32}
				if dtype == array.Int32 {
					v = append(v, -1, -7, math.MinInt32)
				} else {
					v = append(v, 1<<31, math.MaxUint32)
				}
				e := v
				if kind == "pow" {
					e = v[:7]
				}
				add("edges", dense(dtype, v, len(v), 1), dense(dtype, e, len(e)))
			}
		}
	}
	r := newSource(1)
	cases = append(cases, binaryQuads()...)
	cases = append(cases, Case{Name: "add/large", Params: Params{Kind: "add"}, In: map[string]array.Array{
		"a": r.normal(array.Float32, 1, 3, 70001), "b": r.normal(array.Float32, 1, 70001),
	}},
		Case{Name: "mul/rank8", Params: Params{Kind: "mul"}, In: map[string]array.Array{
			"a": place(r.normal(array.Float32, 1, 2, 3, 2, 1, 2, 3, 2, 2), "transposed"),
			"b": place(r.normal(array.Float32, 1, 2, 1, 2, 3, 2, 1, 2, 2), "strided"),
		}})
	return cases
}

// binaryQuads are cases whose elements can be taken four at a time, and some that
// narrowly miss that.
func binaryQuads() []Case {
	var cases []Case
	for i, dtype := range []array.DType{array.Float32, array.BFloat16, array.Uint8, array.Int32} {
		for _, kind := range []string{"sub", "less"} {
			r := newSource(uint64(50 + i))
			whole := r.numbers(dtype, 40, 64)
			for label, b := range map[string]array.Array{
				"whole": r.numbers(dtype, 40, 64), "row": r.numbers(dtype, 64), "column": r.numbers(dtype, 40, 1),
				"scalar": r.numbers(dtype), "odd": place(r.numbers(dtype, 40, 64), "offset"), "padded": place(r.numbers(dtype, 40, 64), "padded"),
				"transposed": place(r.numbers(dtype, 40, 64), "transposed"),
			} {
				in := map[string]array.Array{"a": whole, "b": b}
				if label == "column" {
					in = map[string]array.Array{"a": b, "b": whole}
				}
				cases = append(cases, Case{Name: kind + "/" + dtype.String() + "/quads/" + label, In: in, Params: Params{Kind: kind}})
			}
		}
	}
	return cases
}

func randomBinary(t *rapid.T) Case {
	kind := rapid.SampledFrom(binaryKinds).Draw(t, "kind")
	dtype := drawType(t, "type", kindTypes(kind))
	shape := drawShape(t, "shape", 0, 8, 3000)
	a, b := binaryOperands(drawSource(t), kind, dtype, drawPart(t, "a", shape), drawPart(t, "b", shape))
	return Case{Params: Params{Kind: kind}, In: map[string]array.Array{
		"a": drawLayout(t, "a", a), "b": drawLayout(t, "b", b),
	}}
}

// drawPart draws a shape that broadcasts to the given one.
func drawPart(t *rapid.T, label string, shape []int) []int {
	part := append([]int(nil), shape...)
	if rapid.Bool().Draw(t, label+" is whole") {
		return part
	}
	for i := range part {
		if rapid.Bool().Draw(t, label+" repeats") {
			part[i] = 1
		}
	}
	return part[rapid.IntRange(0, len(part)).Draw(t, label+" lacks"):]
}

func binarySuite() suite {
	return suite{
		op: "binary", run: runBinary, reference: referenceBinary, bound: binaryBound, cases: binaryCases, draw: randomBinary, along: pointwise,
		exact: func(c *Case) bool { return !binaryResult(c).IsFloat() }, thin: 20,
		zeros: func(c *Case) bool { return has(choiceKinds, c.Params.Kind) || c.Params.Kind == "mod" },
		kinds: []string{"add", "less"},
		large: func(dtype array.DType, _ string, size int) Case {
			return Case{In: map[string]array.Array{"a": blank(dtype, size), "b": blank(dtype, size)}}
		},
		valid: func() Case {
			r := newSource(1)
			return Case{Params: Params{Kind: "add"}, In: map[string]array.Array{
				"a": r.normal(array.Float32, 1, 2, 3), "b": r.normal(array.Float32, 1, 3),
			}}
		},
		rejects: []reject{
			{"shapes", kompute.ErrShape, func(e *env) error { return ops.Add(e.s, e.f32(2, 3), e.f32(2)).Err() }},
			{"too large together", kompute.ErrTooLarge, func(e *env) error {
				return ops.Mul(e.s, e.repeated(1<<17, 1), e.repeated(1, 1<<17)).Err()
			}},
			{"rank", kompute.ErrShape, func(e *env) error { return ops.Less(e.s, e.f32(2, 0, 3), e.f32(2, 2, 3)).Err() }},
		},
	}
}
