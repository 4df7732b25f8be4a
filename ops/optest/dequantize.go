package optest

import (
	"pgregory.net/rapid"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/ops"
)

func runDequantizeOf[T kompute.Float, S ops.Scale](c *call) *kompute.View {
	return ops.Dequantize[T](c.s, tensor[uint32](c, "w"), tensor[S](c, "scales"), tensor[S](c, "biases"), c.quantization()).View()
}

func runDequantizeTo[T kompute.Float](c *call) *kompute.View {
	return byScale(c.dtype("scales"), runDequantizeOf[T, float32], runDequantizeOf[T, array.F16], runDequantizeOf[T, array.BF16], runDequantizeOf[T, uint8])(c)
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
	large := form{4, 64, ops.ModeAffine}
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
	call := func(e *env, w *kompute.Tensor[uint32], s, b *kompute.Tensor[float32], q ops.Quantization) error {
		return ops.Dequantize[float32](e.s, w, s, b, q).Err()
	}
	small := func(e *env, w *kompute.Tensor[uint32], s, b *kompute.Tensor[uint8], q ops.Quantization) error {
		return ops.Dequantize[float32](e.s, w, s, b, q).Err()
	}
	return suite{
		op: "dequantize", run: runDequantize, reference: referenceDequantize, cases: dequantizeCases, draw: randomDequantize, thin: 12,
		bound: func(c *Case) bound { return sumBound(c.To, 1, largestElement(c)) }, // scale*code and bias may cancel
		along: func(c *Case, axis int) map[string]int {
			if axis == c.In["w"].Rank()-1 {
				return nil
			}
			return map[string]int{"w": axis, "scales": axis, "biases": axis}
		},
		kinds: []string{"affine", "mxfp4", "nvfp4", "mxfp8"},
		large: func(dtype array.DType, kind string, size int) Case {
			f := formOf(kind)
			return Case{To: dtype, Params: f.params(), In: f.blank(array.BFloat16, 4096, size/4096)}
		},
		valid: func() Case {
			f := form{4, 32, ops.ModeAffine}
			return Case{In: f.quantized(newSource(1), array.Float32, 64, 3), Params: f.params(), To: array.Float32}
		},
		rejects: quantizedRejects(call, small), exact: exactElements,
	}
}
