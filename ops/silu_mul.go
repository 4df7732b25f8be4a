package ops

import (
	"github.com/kompute-go/kompute-go/fallback"
	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/opdef"
	"github.com/kompute-go/kompute-go/kompute"
)

func siLUMulCPU(a []array.Array, _ []byte) error {
	return fallback.SiLUMul(at(a, opdef.SiLUMul.Gate), at(a, opdef.SiLUMul.Up), at(a, opdef.SiLUMul.Out))
}

// SiLUMul returns gate * sigmoid(gate) * up, the gated unit between the
// projections of a SwiGLU feed-forward block (Shazeer, 2020). In float16 and
// bfloat16 it rounds once, where SiLU followed by Mul rounds twice.
//
// gate and up broadcast as for Add. A shape mismatch is ErrShape.
func SiLUMul[T kompute.Float](s *kompute.Stream, gate, up *kompute.Tensor[T]) *kompute.Tensor[T] {
	c := newCall(s, opdef.SiLUMul.Op)
	input(c, opdef.SiLUMul.Gate, gate)
	input(c, opdef.SiLUMul.Up, up)
	return result[T](c, c.broadcast(opdef.SiLUMul.Gate, opdef.SiLUMul.Up), opdef.SiLUMulParams{}, siLUMulCPU)
}
