package optest

import (
	"math"

	"pgregory.net/rapid"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/ops"
)

func runLayerNormOf[T kompute.Float](c *call) *kompute.View {
	return ops.LayerNorm(c.s, tensor[T](c, "x"), tensor[T](c, "weight"), tensor[T](c, "bias"), c.Params.Eps).View()
}

func runLayerNorm(c *call) *kompute.View {
	return byFloat(c.dtype("x"), runLayerNormOf[float32], runLayerNormOf[array.F16], runLayerNormOf[array.BF16])(c)
}

func referenceLayerNorm(c *Case) []float64 {
	weight, weighted := c.In["weight"]
	bias, biased := c.In["bias"]
	var w, b, out []float64
	if weighted {
		w = floats(weight)
	}
	if biased {
		b = floats(bias)
	}
	rows(c.In["x"], func(row []float64) {
		mean, squares := sum(row)/float64(len(row)), 0.0
		for _, v := range row {
			squares += (v - mean) * (v - mean)
		}
		scale := 1 / math.Sqrt(squares/float64(len(row))+float64(c.Params.Eps))
		for i, v := range row {
			v = (v - mean) * scale
			if weighted {
				v *= w[i]
			}
			if biased {
				v += b[i]
			}
			out = append(out, v)
		}
	})
	return round(c.dtype("x"), out)
}

func layerNormCases() []Case {
	var cases []Case
	for _, dtype := range floatTypes {
		for i, shape := range rowShapes() {
			r, cols := newSource(31), shape[len(shape)-1]
			in := map[string]array.Array{"x": r.normal(dtype, 2, shape...)}
			if i%2 == 0 {
				in["weight"] = r.normal(dtype, 1, cols)
			}
			if i%4 > 1 {
				in["bias"] = r.normal(dtype, 1, cols)
			}
			cases = append(cases, Case{Name: name(dtype, "", shape), In: in, Params: Params{Eps: 1e-5}})
		}
	}
	far := newSource(32).normal(array.Float32, 1, 3, 700) // a mean much larger than what varies
	set, get := setter(far), getter(far)
	walk(far.Layout, func(i int) { set(i, 1000+get(i)) })
	return append(cases,
		Case{Name: "far", Params: Params{Eps: 1e-5}, In: map[string]array.Array{"x": far}},
		Case{Name: "many rows", Params: Params{Eps: 1e-5}, In: map[string]array.Array{"x": newSource(33).normal(array.Float32, 1, 70000, 3)}},
		Case{Name: "vocabulary", Params: Params{Eps: 1e-5}, In: map[string]array.Array{"x": newSource(34).normal(array.Float32, 1, 2, 151936)}},
		Case{Name: "equal", Params: Params{Eps: 1e-5}, In: map[string]array.Array{"x": dense(array.Float32, []float64{7, 7, 7, 0, 0, 0}, 2, 3)}})
}

func randomLayerNorm(t *rapid.T) Case {
	dtype, shape, r := drawType(t, "type", floatTypes), drawRows(t), drawSource(t)
	in := map[string]array.Array{"x": place(r.normal(dtype, 2, shape...), rapid.SampledFrom(layouts).Draw(t, "x layout"))}
	for _, name := range []string{"weight", "bias"} {
		if rapid.Bool().Draw(t, name) {
			in[name] = drawLayout(t, name, r.normal(dtype, 1, shape[len(shape)-1]))
		}
	}
	return Case{In: in, Params: Params{Eps: rapid.SampledFrom([]float32{1e-6, 1e-5, 0.1}).Draw(t, "eps")}}
}

// layerNormBound: if the mean of a row is large, few digits remain for the differences
// from it.
func layerNormBound(c *Case) bound {
	x := c.In["x"]
	b := defaultBound(x.DType)
	rows(x, func(row []float64) {
		least, most := row[extreme(row, -1)], row[extreme(row, 1)]
		if spread := most - least; spread > 0 && !math.IsInf(spread, 0) {
			b.Absolute = max(b.Absolute, 1e-6*(1+max(math.Abs(least), math.Abs(most))/spread))
		}
	})
	return b
}

func layerNormSuite() suite {
	return suite{
		op: "layer_norm", run: runLayerNorm, reference: referenceLayerNorm, bound: layerNormBound, cases: layerNormCases,
		draw: randomLayerNorm, along: rowwise, thin: 12, optional: []string{"weight", "bias"},
		large: func(dtype array.DType, _ string, size int) Case {
			return Case{Params: Params{Eps: 1e-5}, In: map[string]array.Array{
				"x": blank(dtype, size/4096, 4096), "weight": blank(dtype, 4096), "bias": blank(dtype, 4096),
			}}
		},
		valid: func() Case {
			r := newSource(1)
			return Case{Params: Params{Eps: 1e-5}, In: map[string]array.Array{
				"x": r.normal(array.Float32, 1, 2, 3), "weight": r.normal(array.Float32, 1, 3), "bias": r.normal(array.Float32, 1, 3),
			}}
		},
		rejects: []reject{
			{"rank 0", kompute.ErrShape, func(e *env) error { return ops.LayerNorm(e.s, e.f32(), nil, nil, 1e-5).Err() }},
			{"weight length", kompute.ErrShape, func(e *env) error { return ops.LayerNorm(e.s, e.f32(2, 3), e.f32(2), nil, 1e-5).Err() }},
			{"weight rank", kompute.ErrShape, func(e *env) error { return ops.LayerNorm(e.s, e.f32(2, 3), e.f32(1, 3), nil, 1e-5).Err() }},
			{"bias length", kompute.ErrShape, func(e *env) error { return ops.LayerNorm(e.s, e.f32(2, 3), nil, e.f32(1), 1e-5).Err() }},
			{"bias rank", kompute.ErrShape, func(e *env) error { return ops.LayerNorm(e.s, e.f32(2, 3), nil, e.f32(), 1e-5).Err() }},
			{"negative eps", kompute.ErrInvalid, func(e *env) error { return ops.LayerNorm(e.s, e.f32(2, 3), nil, nil, -1).Err() }},
			{"NaN eps", kompute.ErrInvalid, func(e *env) error { return ops.LayerNorm(e.s, e.f32(2, 3), nil, nil, float32(math.NaN())).Err() }},
			{"infinite eps", kompute.ErrInvalid, func(e *env) error { return ops.LayerNorm(e.s, e.f32(2, 3), nil, nil, float32(math.Inf(1))).Err() }},
		},
	}
}
