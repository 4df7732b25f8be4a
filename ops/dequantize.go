package ops

import (
	"github.com/kompute-go/kompute-go/fallback"
	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/opdef"
	"github.com/kompute-go/kompute-go/kompute"
)

var dequantizeCPU = onCPU(func(a []array.Array, p *opdef.DequantizeParams) error {
	return fallback.Dequantize(at(a, opdef.Dequantize.W), at(a, opdef.Dequantize.Scales), at(a, opdef.Dequantize.Biases), at(a, opdef.Dequantize.Out), packing(p.GroupSize, p.Bits, p.Mode))
})

var dequantizeMatrix = matrix{opdef.Dequantize.W, opdef.Dequantize.Scales, opdef.Dequantize.Biases}

// Dequantize unpacks w [..., K*bits/32] with scales and biases [..., K/group] to
// [..., K], as elements of T:
//
//	x := ops.Dequantize[float32](s, w, scales, biases, ops.Quantization{GroupSize: 64, Bits: 4})
//
// Each element is scale * code + bias, computed in float32 and rounded once to T; in the modes
// without biases, biases are nil and it is scale * code, exact except for the rounding to T. With
// group 64 and 4 bits, w [512, 128] has scales [512, 16] and becomes [512, 1024].
//
// # Errors
//
// ErrInvalid for a group size or bits that the mode does not have, or if biases are nil in a mode
// with biases or given in one without; ErrDType for scales of another type than the mode's;
// ErrShape if the shapes of w, scales and biases do not match.
func Dequantize[T kompute.Float, S Scale](s *kompute.Stream, w *kompute.Tensor[uint32], scales, biases *kompute.Tensor[S], q Quantization) *kompute.Tensor[T] {
	c := newCall(s, opdef.Dequantize.Op)
	shape := quantized(c, dequantizeMatrix, w, scales, biases, q)
	params := opdef.DequantizeParams{GroupSize: uint32(q.GroupSize), Bits: uint32(q.Bits), Mode: opdef.Mode(q.Mode)}
	return result[T](c, shape, params, dequantizeCPU)
}
