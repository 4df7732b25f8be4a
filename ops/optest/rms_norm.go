package optest

import (
	"math"

	"pgregory.net/rapid"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/ops"
)

func runRMSNormOf[T kompute.Float](c *call) *kompute.View {
	return ops.RMSNorm(c.s, tensor[T](c, "x"), tensor[T](c, "weight"), c.Params.Eps).View()
}

func runRMSNorm(c *call) *kompute.View {
	return byFloat(c.dtype("x"), runRMSNormOf[float32], runRMSNormOf[array.F16], runRMSNormOf[array.BF16])(c)
}

func referenceRMSNorm(c *Case) []float64 {
	weight, weighted := c.In["weight"]
	var w, out []float64
	if weighted {
		w = floats(weight)
	}
	rows(c.In["x"], func(row []float64) {
		sum := 0.0
		for _, v := range row {
			sum += v * v
		}
		scale := 1 / math.Sqrt(sum/float64(len(row))+float64(c.Params.Eps))
		for i, v := range row {
			v *= scale
			if weighted {
				v *= w[i]
			}
			out = append(out, v)
		}
	})
	return round(c.dtype("x"), out)
}

func rmsNormCases() []Case {
	var cases []Case
	for _, dtype := range floatTypes {
		for _, shape := range rowShapes() {
			r := newSource(11)
			in := map[string]array.Array{"x": r.normal(dtype, 2, shape...)}
			if shape[len(shape)-1]%2 == 1 {
				in["weight"] = r.normal(dtype, 1, shape[len(shape)-1])
			}
			cases = append(cases, Case{Name: name(dtype, "", shape), In: in, Params: Params{Eps: 1e-6}})
		}
	}
	heads := newSource(12).normal(array.Float32, 1, 1, 9, 4, 128) // [B, T, H, D], as views of [B, H, T, D]
	heads.Layout = must(heads.Transpose(0, 2, 1, 3))
	zero := dense(array.Float32, make([]float64, 8), 2, 4)
	return append(cases,
		Case{Name: "heads", Params: Params{Eps: 1e-6}, In: map[string]array.Array{"x": heads, "weight": newSource(13).normal(array.Float32, 1, 128)}},
		Case{Name: "many rows", Params: Params{Eps: 1e-6}, In: map[string]array.Array{"x": newSource(14).normal(array.Float32, 1, 70000, 3)}},
		Case{Name: "zeros", Params: Params{Eps: 1e-6}, In: map[string]array.Array{"x": zero}})
}

func randomRMSNorm(t *rapid.T) Case {
	dtype, shape, r := drawType(t, "type", floatTypes), drawRows(t), drawSource(t)
	in := map[string]array.Array{"x": drawLayout(t, "x", r.normal(dtype, 2, shape...))}
	if rapid.Bool().Draw(t, "weighted") {
		in["weight"] = drawLayout(t, "weight", r.normal(dtype, 1, shape[len(shape)-1]))
	}
	return Case{In: in, Params: Params{Eps: rapid.SampledFrom([]float32{0, 1e-6, 1e-5, 0.1}).Draw(t, "eps")}}
}

func rmsNormSuite() suite {
	return suite{
		op: "rms_norm", run: runRMSNorm, reference: referenceRMSNorm, cases: rmsNormCases, draw: randomRMSNorm, thin: 6, along: rowwise,
		optional: []string{"weight"},
		large: func(dtype array.DType, _ string, size int) Case {
			return Case{Params: Params{Eps: 1e-6}, In: map[string]array.Array{"x": blank(dtype, size/4096, 4096), "weight": blank(dtype, 4096)}}
		},
		valid: func() Case {
			r := newSource(1)
			return Case{Params: Params{Eps: 1e-6}, In: map[string]array.Array{"x": r.normal(array.Float32, 1, 2, 3), "weight": r.normal(array.Float32, 1, 3)}}
		},
		rejects: []reject{
			{"rank 0", kompute.ErrShape, func(e *env) error { return ops.RMSNorm(e.s, e.f32(), nil, 1e-6).Err() }},
			{"weight length", kompute.ErrShape, func(e *env) error { return ops.RMSNorm(e.s, e.f32(2, 3), e.f32(2), 1e-6).Err() }},
			{"weight rank", kompute.ErrShape, func(e *env) error { return ops.RMSNorm(e.s, e.f32(2, 3), e.f32(1, 3), 1e-6).Err() }},
			{"negative eps", kompute.ErrInvalid, func(e *env) error { return ops.RMSNorm(e.s, e.f32(2, 3), nil, -1).Err() }},
			{"NaN eps", kompute.ErrInvalid, func(e *env) error { return ops.RMSNorm(e.s, e.f32(2, 3), nil, float32(math.NaN())).Err() }},
			{"infinite eps", kompute.ErrInvalid, func(e *env) error { return ops.RMSNorm(e.s, e.f32(2, 3), nil, float32(math.Inf(1))).Err() }},
		},
	}
}
