package fallback

import (
	"github.com/kompute-go/kompute-go/array"
	"github.com/kompute-go/kompute-go/fallback/internal/simd"
)

// Softmax computes out = e^x / Σ e^x over the last axis. x and out have one shape
// and float type. As in MLX, a row with a NaN or +Inf, or of nothing but -Inf,
// gives NaN.
//
// Errors: ErrInvalid for other shapes or types, or without an axis.
func Softmax(x, out array.Array) error {
	c := checker{op: "softmax"}
	c.float("x", &x)
	c.float("out", &out)
	c.lastAxis("x", &x)
	c.shape("out", &out, x.Shape)
	c.dtype("out", &out, x.DType)
	if c.err != nil {
		return c.err
	}
	last := len(x.Shape) - 1
	cols, in, to := x.Shape[last], x.Strides[last], out.Strides[last]
	if cols == 0 {
		return nil
	}
	l := newLoop(last, &x, &out)
	l.each(3*float64(cols), func(at cursor, lo, hi int) {
		scratch := borrow(2 * cols)
		defer scratch.release()
		for range hi - lo {
			buf := scratch.f
			row := floats(&x, at.off[0], in, cols, cut(&buf, cols))
			res := place(&out, at.off[1], to, cols, buf)
			sum := simd.ExpSum(res, row, simd.Max(row))
			simd.Scale(res, 1/sum)
			storeFloats(&out, at.off[1], to, res)
			at.next()
		}
	})
	return nil
}
