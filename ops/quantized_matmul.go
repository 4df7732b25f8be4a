package ops

import (
	"github.com/kompute-go/kompute-go/fallback"
	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/opdef"
	"github.com/kompute-go/kompute-go/kompute"
)

var quantizedMatMulCPU = onCPU(func(a []array.Array, p *opdef.QuantizedMatMulParams) error {
	run := fallback.QuantizedMatMul
	if p.Transpose != 0 {
		run = fallback.QuantizedMatMulTransposed
	}
	return run(at(a, opdef.QuantizedMatMul.X), at(a, opdef.QuantizedMatMul.W), at(a, opdef.QuantizedMatMul.Scales), at(a, opdef.QuantizedMatMul.Biases), at(a, opdef.QuantizedMatMul.Out), packing(p.GroupSize, p.Bits, p.Mode))
})

var quantizedMatMulMatrix = matrix{opdef.QuantizedMatMul.W, opdef.QuantizedMatMul.Scales, opdef.QuantizedMatMul.Biases}

// Orientation selects how [QuantizedMatMul] uses its matrix.
type Orientation int

// The orientations. The zero Orientation is AsStored.
const (
	AsStored   Orientation = iota // w is [K, N], and the product x · w
	Transposed                    // w is [N, K], and the product x · wᵀ: the form of a linear layer
)

// String returns the orientation's name.
func (o Orientation) String() string {
	switch o {
	case AsStored:
		return "as stored"
	case Transposed:
		return "transposed"
	}
	return "unknown"
}

// QuantizedMatMul multiplies x [..., M, K] with a quantized matrix, to
// [..., M, N].
//
// [Transposed], w is [N, K*bits/32] with scales and biases [N, K/group], and
// the product is x · wᵀ. [AsStored], w is [K, N*bits/32] with scales and biases
// [K, N/group], and the product x · w. For example, with group 64 and 4 bits, x
// [1, 5, 1024] and the transposed w [3072, 128] with scales [3072, 16] give [1,
// 5, 3072].
//
// Elements of w are those of Dequantize except for rounding: the sums are of
// scale * Σ code·x + bias * Σ x in float32, and are rounded once; a scale below
// 2^-126 may count as zero. The type of scales and biases is independent of
// that of x. A row of x with an infinity gives infinities or NaNs, as the sum of its
// products with the elements of w does.
//
// Elements of x may be rounded first, to integers or to parts of 16 bits, which devices
// multiply faster: by at most 2^-21, or 2^-14 if x has 16 bits, of the largest element of
// their row, mostly of up to 128 neighbours in it, and by more where that is below
// 2^-105. So an element may be lost beside one
// that is far larger, even if that one is multiplied by 0. How x is rounded depends on the
// device and on the number of rows, and so do the last bits of results.
//
// # Errors
//
// Those of Dequantize; also ErrShape if x has fewer than two axes, w is not a
// matrix, or K differs, and ErrInvalid for an unknown orientation.
func QuantizedMatMul[T kompute.Float, S Scale](s *kompute.Stream, x *kompute.Tensor[T], w *kompute.Tensor[uint32], scales, biases *kompute.Tensor[S], q Quantization, o Orientation) *kompute.Tensor[T] {
	c := newCall(s, opdef.QuantizedMatMul.Op)
	l := input(c, opdef.QuantizedMatMul.X, x)
	matrix := quantized(c, quantizedMatMulMatrix, w, scales, biases, q)
	if c.err == nil && l.Rank() < 2 {
		c.fail(kompute.ErrShape, "x has rank %d, less than 2", l.Rank())
	}
	if !c.matrix(matrix) {
		return kompute.Failed[T](s, c.err)
	}
	transpose := o == Transposed
	if !transpose && o != AsStored {
		c.fail(kompute.ErrInvalid, "there is no orientation %d", int(o))
	}
	k, n := matrix[0], matrix[1]
	if transpose {
		k, n = n, k
	}
	if l.Dim(-1) != k {
		c.fail(kompute.ErrShape, "rows of x have %d elements, w takes %d", l.Dim(-1), k)
	}
	shape := c.shapeLike(1, l.Shape)
	shape[len(shape)-1] = n
	c.rows = l.Size() / max(k, 1)
	params := opdef.QuantizedMatMulParams{GroupSize: uint32(q.GroupSize), Bits: uint32(q.Bits), Mode: opdef.Mode(q.Mode), Transpose: toUint32(transpose)}
	return result[T](c, shape, params, quantizedMatMulCPU)
}
