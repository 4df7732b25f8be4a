package fallback

import (
	"github.com/kompute-go/kompute-go/fallback/internal/simd"
	"github.com/kompute-go/kompute-go/internal/array"
)

// SiLUMul computes out = gate·sigmoid(gate)·up, the middle of a gated MLP. All
// have one shape and float type.
//
// Errors: ErrInvalid for other shapes or types.
func SiLUMul(gate, up, out array.Array) error {
	c := checker{op: "silu_mul"}
	c.float("gate", &gate)
	c.float("up", &up)
	c.float("out", &out)
	c.shape("up", &up, gate.Shape)
	c.shape("out", &out, gate.Shape)
	c.dtype("up", &up, gate.DType)
	c.dtype("out", &out, gate.DType)
	if c.err != nil {
		return c.err
	}
	l := newLoop(len(gate.Shape), &gate, &up, &out)
	inner := l.inner()
	l.blocks(3, func(off offsets, n int) {
		scratch := borrow(3 * blockSize)
		defer scratch.release()
		buf := scratch.f
		g := floats(&gate, off[0], inner[0], n, cut(&buf, n))
		u := floats(&up, off[1], inner[1], n, cut(&buf, n))
		res := place(&out, off[2], inner[2], n, buf)
		simd.SiLUMul(res, g, u)
		storeFloats(&out, off[2], inner[2], res)
	})
	return nil
}
