package optest

import (
	"pgregory.net/rapid"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/ops"
)

func runQuantizedGatherOf[T kompute.Float, S ops.Scale](c *call) *kompute.View {
	w, scales, biases := tensor[uint32](c, "w"), tensor[S](c, "scales"), tensor[S](c, "biases")
	if c.dtype("indices") == array.Uint32 {
		return ops.QuantizedGather[T](c.s, w, scales, biases, tensor[uint32](c, "indices"), c.quantization()).View()
	}
	return ops.QuantizedGather[T](c.s, w, scales, biases, tensor[int32](c, "indices"), c.quantization()).View()
}

func runQuantizedGatherTo[T kompute.Float](c *call) *kompute.View {
	return byScale(c.dtype("scales"), runQuantizedGatherOf[T, float32], runQuantizedGatherOf[T, array.F16], runQuantizedGatherOf[T, array.BF16], runQuantizedGatherOf[T, uint8])(c)
}

func runQuantizedGather(c *call) *kompute.View {
	return byFloat(c.To, runQuantizedGatherTo[float32], runQuantizedGatherTo[array.F16], runQuantizedGatherTo[array.BF16])(c)
}

func referenceQuantizedGather(c *Case) []float64 {
	table := unpack(c)
	n := c.In["w"].Dim(0)
	k := c.In["w"].Dim(1) * 32 / c.Params.Bits
	var out []float64
	for _, index := range floats(c.In["indices"]) {
		row := make([]float64, k)
		if i, ok := resolveIndex(index, n); ok {
			copy(row, table[i*k:])
		}
		out = append(out, row...)
	}
	return round(c.To, out)
}

func quantizedGatherCases() []Case {
	var cases []Case
	for i, f := range forms() {
		for k, to := range floatTypes {
			in := f.quantized(newSource(uint64(i)), floatTypes[(i+k)%3], 256, 9)
			in["indices"] = dense(array.Int32, []float64{0, -1, 8, -9, 9, -10, 2147483647, 4}, 2, 4)
			cases = append(cases, Case{Name: name(to, f.String(), nil), In: in, Params: f.params(), To: to})
		}
	}
	f := form{4, 64, ops.ModeAffine}
	for label, indices := range map[string]array.Array{
		"scalar": dense(array.Uint32, []float64{3}), "none": dense(array.Uint32, nil, 0),
		"many": newSource(1).integers(array.Uint32, 0, 9, 3, 333),
	} {
		in := f.quantized(newSource(2), array.BFloat16, 64, 9)
		in["indices"] = indices
		cases = append(cases, Case{Name: label, In: in, Params: f.params(), To: array.Float32})
	}
	return cases
}

func randomQuantizedGather(t *rapid.T) Case {
	f, r := drawForm(t), drawSource(t)
	n := rapid.IntRange(1, 20).Draw(t, "rows")
	in := drawQuantized(t, r, f, f.group*rapid.IntRange(1, 4).Draw(t, "groups"), n)
	indices := r.integers(array.Int32, -n-1, n, drawShape(t, "indices", 0, 3, 30)...)
	if rapid.Bool().Draw(t, "unsigned") {
		indices = r.integers(array.Uint32, 0, n, indices.Shape...)
	}
	in["indices"] = drawLayout(t, "indices", indices)
	return Case{In: in, Params: f.params(), To: drawType(t, "type", floatTypes)}
}

func quantizedGatherSuite() suite {
	rejects := quantizedRejects(func(e *env, w *kompute.Tensor[uint32], s, b *kompute.Tensor[float32], q ops.Quantization) error {
		return ops.QuantizedGather[float32](e.s, w, s, b, e.i32(2), q).Err()
	}, func(e *env, w *kompute.Tensor[uint32], s, b *kompute.Tensor[uint8], q ops.Quantization) error {
		return ops.QuantizedGather[float32](e.s, w, s, b, e.i32(2), q).Err()
	})
	q := ops.Quantization{GroupSize: 32, Bits: 4}
	return suite{
		op: "quantized_gather", run: runQuantizedGather, reference: referenceQuantizedGather, cases: quantizedGatherCases,
		draw: randomQuantizedGather, thin: 9, exact: exactElements,
		bound: func(c *Case) bound { return sumBound(c.To, 1, largestElement(c)) },
		along: func(c *Case, axis int) map[string]int {
			if axis == c.In["indices"].Rank() {
				return nil
			}
			return map[string]int{"indices": axis}
		},
		kinds: []string{"affine", "mxfp4", "nvfp4", "mxfp8"},
		large: func(dtype array.DType, kind string, size int) Case {
			f := formOf(kind)
			in := f.blank(array.BFloat16, 1024, size/1024)
			in["indices"] = blank(array.Int32, size/1024)
			return Case{To: dtype, Params: f.params(), In: in}
		},
		valid: func() Case {
			f := form{4, 32, ops.ModeAffine}
			in := f.quantized(newSource(1), array.Float32, 64, 3)
			in["indices"] = dense(array.Int32, []float64{1, 2}, 2)
			return Case{In: in, Params: f.params(), To: array.Float32}
		},
		rejects: append(rejects,
			reject{"vector", kompute.ErrShape, func(e *env) error {
				return ops.QuantizedGather[float32](e.s, e.u32(8), e.f32(2), e.f32(2), e.i32(2), q).Err()
			}},
			reject{"batch", kompute.ErrShape, func(e *env) error {
				return ops.QuantizedGather[float32](e.s, e.u32(2, 3, 8), e.f32(2, 3, 2), e.f32(2, 3, 2), e.i32(2), q).Err()
			}},
			reject{"result rank", kompute.ErrShape, func(e *env) error {
				return ops.QuantizedGather[float32](e.s, e.u32(3, 8), e.f32(3, 2), e.f32(3, 2), e.i32(1, 1, 1, 1, 1, 1, 1, 1), q).Err()
			}}),
	}
}
