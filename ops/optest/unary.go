package optest

import (
	"math"
	"strings"

	"pgregory.net/rapid"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/ops"
)

var (
	floatKinds = []string{"exp", "log", "sqrt", "rsqrt", "sin", "cos", "tanh", "sigmoid", "silu", "gelu", "erf"}
	plainKinds = []string{"neg", "abs", "square", "floor", "ceil", "round"}
)

// unaryOp is an op of one tensor of T with an R result.
type unaryOp[R, T kompute.Element] func(*kompute.Stream, *kompute.Tensor[T]) *kompute.Tensor[R]

func runFloatUnary[T kompute.Float](c *call) *kompute.View {
	return map[string]unaryOp[T, T]{
		"exp": ops.Exp[T], "log": ops.Log[T], "sqrt": ops.Sqrt[T], "rsqrt": ops.Rsqrt[T], "sin": ops.Sin[T],
		"cos": ops.Cos[T], "tanh": ops.Tanh[T], "sigmoid": ops.Sigmoid[T], "silu": ops.SiLU[T], "gelu": ops.GELU[T],
		"erf": ops.Erf[T],
	}[c.Params.Kind](c.s, tensor[T](c, "x")).View()
}

func runPlainUnary[T ops.Arithmetic](c *call) *kompute.View {
	return map[string]unaryOp[T, T]{
		"neg": ops.Neg[T], "abs": ops.Abs[T], "square": ops.Square[T], "floor": ops.Floor[T], "ceil": ops.Ceil[T],
		"round": ops.Round[T],
	}[c.Params.Kind](c.s, tensor[T](c, "x")).View()
}

func runNot[T kompute.Element](c *call) *kompute.View { return ops.Not(c.s, tensor[T](c, "x")).View() }

func runUnary(c *call) *kompute.View {
	dtype := c.dtype("x")
	switch {
	case c.Params.Kind == "not":
		return byElement(dtype, runNot[float32], runNot[array.F16], runNot[array.BF16], runNot[int32], runNot[uint32], runNot[bool], runNot[uint8])(c)
	case has(plainKinds, c.Params.Kind):
		return byElement(dtype, runPlainUnary[float32], runPlainUnary[array.F16], runPlainUnary[array.BF16],
			runPlainUnary[int32], runPlainUnary[uint32], nil, runPlainUnary[uint8])(c)
	}
	return byFloat(dtype, runFloatUnary[float32], runFloatUnary[array.F16], runFloatUnary[array.BF16])(c)
}

var unaryFormulas = map[string]func(float64) float64{
	"neg": func(x float64) float64 { return -x }, "abs": math.Abs, "exp": math.Exp, "log": math.Log, "sqrt": math.Sqrt,
	"rsqrt": func(x float64) float64 { return 1 / math.Sqrt(x) }, "sin": math.Sin, "cos": math.Cos,
	"tanh": math.Tanh, "sigmoid": sigmoid, "silu": func(x float64) float64 { return x * sigmoid(x) },
	"gelu": func(x float64) float64 { return x / 2 * math.Erfc(-x/math.Sqrt2) }, "erf": math.Erf,
	"square": func(x float64) float64 { return x * x }, "floor": math.Floor, "ceil": math.Ceil, "round": math.RoundToEven,
	"not": func(x float64) float64 { return truth(x == 0) },
}

func sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

func referenceUnary(c *Case) []float64 {
	x := c.In["x"]
	out := floats(x)
	for i, v := range out {
		out[i] = unaryFormulas[c.Params.Kind](v)
		if !x.DType.IsFloat() && c.Params.Kind != "not" {
			w := int64(v)
			switch c.Params.Kind {
			case "neg":
				w = -w
			case "square":
				w *= w
			case "abs":
				w = max(w, -w)
			}
			out[i] = wrap(x.DType, w)
		}
	}
	return round(unaryResult(c), out)
}

func unaryResult(c *Case) array.DType {
	if c.Params.Kind == "not" {
		return array.Bool
	}
	return c.dtype("x")
}

// unaryBound: the error of sines is at most 1e-5, whatever their size, and so is that
// of functions that have zeros or lose digits by cancellation.
func unaryBound(c *Case) bound {
	b := pointwiseBound(c.dtype("x"))
	switch c.Params.Kind {
	case "sin", "cos":
		b.Absolute = 1e-5
	case "log", "erf", "gelu", "tanh":
		b.Absolute = max(b.Absolute, 2e-6)
	case "exp", "sigmoid", "silu":
		b.Relative, b.Absolute = max(b.Relative, 2e-5), max(b.Absolute, 1e-37)
	}
	return b
}

// keepsZeros: these functions of -0 are -0. MLX's sine and erf are not, so its vectors do not count.
func keepsZeros(c *Case) bool {
	own := strings.HasSuffix(c.Name, "/edges") || strings.HasSuffix(c.Name, "/zeros")
	return own && has([]string{"sin", "tanh", "erf", "silu", "gelu", "sqrt"}, c.Params.Kind)
}

func unaryOperand(r source, kind string, dtype array.DType, shape ...int) array.Array {
	x := r.numbers(dtype, shape...)
	if has([]string{"log", "sqrt", "rsqrt"}, kind) {
		set, get := setter(x), getter(x)
		walk(x.Layout, func(i int) { set(i, math.Abs(get(i))) })
	}
	return x
}

func unaryTypes(kind string) []array.DType {
	switch {
	case kind == "not":
		return elementTypes
	case has(plainKinds, kind):
		return append(numberTypes[:5:5], array.Uint8)
	}
	return floatTypes
}

func unaryCases() []Case {
	var cases []Case
	edges := []float64{0, math.Copysign(0, -1), 0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 1e-20, 30, -30, 87, -87, 1e4, -1e4}
	for _, kind := range concat(floatKinds, plainKinds, []string{"not"}) {
		for _, dtype := range unaryTypes(kind) {
			add := func(name string, x array.Array) {
				cases = append(cases, Case{
					Name: kind + "/" + dtype.String() + "/" + name, Params: Params{Kind: kind},
					In: map[string]array.Array{"x": x},
				})
			}
			r := newSource(uint64(len(cases)))
			add("row", unaryOperand(r, kind, dtype, 1025))
			add("rank0", unaryOperand(r, kind, dtype))
			if dtype == array.Float32 {
				add("edges", dense(dtype, edges, len(edges)))
				add("zeros", dense(dtype, edges[:2], 2))
			}
		}
	}
	for _, dtype := range elementTypes { // by four elements at once, and not
		for _, how := range []string{"contiguous", "offset", "padded", "transposed"} {
			x := place(newSource(3).numbers(dtype, 50, 32), how)
			cases = append(cases, Case{Name: "not/" + dtype.String() + "/quads/" + how, Params: Params{Kind: "not"}, In: map[string]array.Array{"x": x}})
		}
	}
	x := newSource(2).normal(array.Float32, 3000, 4000)
	for _, kind := range []string{"sin", "cos"} {
		cases = append(cases, Case{Name: kind + "/wide", Params: Params{Kind: kind}, In: map[string]array.Array{"x": x}})
	}
	return cases
}

func randomUnary(t *rapid.T) Case {
	kind := rapid.SampledFrom(concat(floatKinds, plainKinds, []string{"not"})).Draw(t, "kind")
	dtype := drawType(t, "type", unaryTypes(kind))
	x := unaryOperand(drawSource(t), kind, dtype, drawShape(t, "shape", 0, 8, 3000)...)
	return Case{Params: Params{Kind: kind}, In: map[string]array.Array{"x": drawLayout(t, "x", x)}}
}

func unarySuite() suite {
	return suite{
		op: "unary", run: runUnary, reference: referenceUnary, bound: unaryBound, cases: unaryCases, draw: randomUnary, thin: 4, along: pointwise,
		exact: func(c *Case) bool { return !unaryResult(c).IsFloat() },
		kinds: []string{"neg", "exp"},
		zeros: keepsZeros,
		large: func(dtype array.DType, _ string, size int) Case {
			return Case{In: map[string]array.Array{"x": blank(dtype, size/4096, 4096)}}
		},
		valid: func() Case {
			return Case{Params: Params{Kind: "exp"}, In: map[string]array.Array{"x": newSource(1).normal(array.Float32, 1, 2, 3)}}
		},
	}
}
