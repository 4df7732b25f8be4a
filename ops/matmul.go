package ops

import (
	"slices"

	"github.com/kompute-go/kompute-go/fallback"
	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/opdef"
	"github.com/kompute-go/kompute-go/kompute"
)

func matMulCPU(a []array.Array, _ []byte) error {
	return fallback.MatMul(at(a, opdef.MatMul.A), at(a, opdef.MatMul.B), at(a, opdef.MatMul.Out))
}

// MatMul multiplies matrices: a [..., M, K] and b [..., K, N] give [..., M, N].
// The axes before the last two broadcast as for Add: [8, 1, 4, 16] and [2, 16,
// 5] give [8, 2, 4, 5]. Transposed views are not copied. Sums are accumulated
// in float32 and rounded once; with K = 0 they are 0.
//
// A vector must be made a matrix first: see Tensor.ExpandDims.
//
// # Errors
//
// ErrShape if an operand has fewer than two axes, K differs, or the leading
// axes do not broadcast.
func MatMul[T kompute.Float](s *kompute.Stream, a, b *kompute.Tensor[T]) *kompute.Tensor[T] {
	c := newCall(s, opdef.MatMul.Op)
	al, bl := input(c, opdef.MatMul.A, a), input(c, opdef.MatMul.B, b)
	switch {
	case c.err != nil:
	case al.Rank() < 2 || bl.Rank() < 2:
		c.fail(kompute.ErrShape, "ranks are %d and %d, and must be 2 or more", al.Rank(), bl.Rank())
	case al.Dim(-1) != bl.Dim(-2):
		c.fail(kompute.ErrShape, "rows of a have %d elements, columns of b %d", al.Dim(-1), bl.Dim(-2))
	}
	if c.err != nil {
		return kompute.Failed[T](s, c.err)
	}
	batch, err := array.BroadcastShapes(al.Shape[:al.Rank()-2], bl.Shape[:bl.Rank()-2])
	if err != nil {
		c.fail(kompute.ErrShape, "the leading axes do not broadcast")
		return kompute.Failed[T](s, c.err)
	}
	batch = slices.Clip(batch)
	c.stretch(opdef.MatMul.A, append(batch, al.Dim(-2), al.Dim(-1)))
	c.stretch(opdef.MatMul.B, append(batch, bl.Dim(-2), bl.Dim(-1)))
	c.rows = al.Dim(-2)
	return result[T](c, append(batch, al.Dim(-2), bl.Dim(-1)), opdef.MatMulParams{}, matMulCPU)
}
