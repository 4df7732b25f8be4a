package optest

import (
	"pgregory.net/rapid"

	"github.com/kompute-go/kompute-go/array"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/ops"
)

func runDequantizeOf[T, S kompute.Float](c *call) *kompute.View {
	return ops.Dequantize[T](c.s, tensor[uint32](c, "w"), tensor[S](c, "scales"), tensor[S](c, "biases"), c.affine()).View()
}

func runDequantizeTo[T kompute.Float](c *call) *kompute.View {
	return byFloat(c.dtype("scales"), runDequantizeOf[T, float32], runDequantizeOf[T, array.F16], runDequantizeOf[T, array.BF16])(c)
}

func runDequantize(c *call) *kompute.View {
	return byFloat(c.To, runDequantizeTo[float32], runDequantizeTo[array.F16], runDequantizeTo[array.BF16])(c)
}

func referenceDequantize(c *Case) []float64 { return round(c.To, unpack(c)) }

func dequantizeCases() []Case {
	var cases []Case
	for i, f := range forms() {
		for k, to := range floatTypes {
			for j, lead := range [][]int{{1}, {5}, {2, 3, 2}, {}} {
				in := f.quantized(newSource(uint64(i)), floatTypes[(i+j+k)%3], 128*(1+j), lead...)
				cases = append(cases, Case{Name: name(to, f.String(), lead), In: in, Params: f.params(), To: to})
			}
		}
	}
	large := form{4, 64}
	return append(cases,
		Case{Name: "empty", In: large.quantized(newSource(1), array.Float32, 128, 0), Params: large.params(), To: array.Float32},
		Case{Name: "large", In: large.quantized(newSource(1), array.BFloat16, 1024, 300), Params: large.params(), To: array.Float32})
}

func randomDequantize(t *rapid.T) Case {
	f := drawForm(t)
	k := f.group * rapid.IntRange(1, 5).Draw(t, "groups")
	in := drawQuantized(t, drawSource(t), f, k, drawShape(t, "rows", 0, 4, 60)...)
	return Case{In: in, Params: f.params(), To: drawType(t, "type", floatTypes)}
}

func dequantizeSuite() suite {
	call := func(e *env, w *kompute.Tensor[uint32], s, b *kompute.Tensor[float32], q ops.Affine) error {
		return ops.Dequantize[float32](e.s, w, s, b, q).Err()
	}
	rejects := affineRejects(call)
	return suite{
		op: "dequantize", run: runDequantize, reference: referenceDequantize, cases: dequantizeCases, random: randomDequantize,
		bound: func(c *Case) bound { return sumBound(c.To, 1, largestElement(c)) }, // scale*code and bias may cancel
		large: func(dtype array.DType, _ string, size int) Case {
			f := form{4, 64}
			return Case{To: dtype, Params: f.params(), In: f.blank(array.BFloat16, 4096, size/4096)}
		},
		valid: func() Case {
			f := form{4, 32}
			return Case{In: f.quantized(newSource(1), array.Float32, 64, 3), Params: f.params(), To: array.Float32}
		},
		rejects: rejects,
	}
}

// affineRejects are the calls that every op with a quantized matrix refuses.
func affineRejects(call func(e *env, w *kompute.Tensor[uint32], s, b *kompute.Tensor[float32], q ops.Affine) error) []reject {
	q := ops.Affine{GroupSize: 32, Bits: 4}
	with := func(q ops.Affine) func(e *env) error {
		return func(e *env) error { return call(e, e.u32(3, 8), e.f32(3, 2), e.f32(3, 2), q) }
	}
	return []reject{
		{"group 0", kompute.ErrInvalid, with(ops.Affine{Bits: 4})},
		{"group 16", kompute.ErrInvalid, with(ops.Affine{GroupSize: 16, Bits: 4})},
		{"group -32", kompute.ErrInvalid, with(ops.Affine{GroupSize: -32, Bits: 4})},
		{"bits 0", kompute.ErrInvalid, with(ops.Affine{GroupSize: 32})},
		{"bits 1", kompute.ErrInvalid, with(ops.Affine{GroupSize: 32, Bits: 1})},
		{"bits 7", kompute.ErrInvalid, with(ops.Affine{GroupSize: 32, Bits: 7})},
		{"bits -4", kompute.ErrInvalid, with(ops.Affine{GroupSize: 32, Bits: -4})},
		{"words", kompute.ErrShape, func(e *env) error { return call(e, e.u32(3, 7), e.f32(3, 2), e.f32(3, 2), q) }},
		{"words of 3 bits", kompute.ErrShape, func(e *env) error {
			return call(e, e.u32(3, 4), e.f32(3, 1), e.f32(3, 1), ops.Affine{GroupSize: 32, Bits: 3})
		}},
		{"scales", kompute.ErrShape, func(e *env) error { return call(e, e.u32(3, 8), e.f32(3, 1), e.f32(3, 2), q) }},
		{"biases", kompute.ErrShape, func(e *env) error { return call(e, e.u32(3, 8), e.f32(3, 2), e.f32(2, 2), q) }},
		{"scales' rank", kompute.ErrShape, func(e *env) error { return call(e, e.u32(3, 8), e.f32(6), e.f32(3, 2), q) }},
		{"rank 0", kompute.ErrShape, func(e *env) error { return call(e, e.u32(), e.f32(), e.f32(), q) }},
	}
}
