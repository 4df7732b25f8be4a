package ops

import (
	"github.com/kompute-go/kompute-go/fallback"
	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/opdef"
	"github.com/kompute-go/kompute-go/kompute"
)

var quantizedGatherCPU = onCPU(func(a []array.Array, p *opdef.QuantizedGatherParams) error {
	return fallback.QuantizedGather(at(a, opdef.QuantizedGather.W), at(a, opdef.QuantizedGather.Scales), at(a, opdef.QuantizedGather.Biases), at(a, opdef.QuantizedGather.Indices), at(a, opdef.QuantizedGather.Out), packing(p.GroupSize, p.Bits, p.Mode))
})

var quantizedGatherMatrix = matrix{opdef.QuantizedGather.W, opdef.QuantizedGather.Scales, opdef.QuantizedGather.Biases}

// QuantizedGather picks rows of a quantized matrix and unpacks them, as for
// token embeddings. For w [V, K*bits/32], scales and biases [V, K/group] and
// indices of any shape, the result is [indices…, K], as elements of T:
//
//	h := ops.QuantizedGather[float32](s, w, scales, biases, ids, q)
//
// Indices are as for Gather, elements as for Dequantize.
//
// # Errors
//
// Those of Dequantize; also ErrShape if w is not a matrix, or the result would have more than 8
// axes.
func QuantizedGather[T kompute.Float, S Scale, I Index](s *kompute.Stream, w *kompute.Tensor[uint32], scales, biases *kompute.Tensor[S], indices *kompute.Tensor[I], q Quantization) *kompute.Tensor[T] {
	c := newCall(s, opdef.QuantizedGather.Op)
	matrix := quantized(c, quantizedGatherMatrix, w, scales, biases, q)
	il := input(c, opdef.QuantizedGather.Indices, indices)
	if !c.matrix(matrix) {
		return kompute.Failed[T](s, c.err)
	}
	shape := append(c.shapeLike(1, il.Shape), matrix[1])
	params := opdef.QuantizedGatherParams{GroupSize: uint32(q.GroupSize), Bits: uint32(q.Bits), Mode: opdef.Mode(q.Mode)}
	return result[T](c, shape, params, quantizedGatherCPU)
}
