package fallback

import (
	"github.com/kompute-go/kompute-go/fallback/internal/simd"
	"github.com/kompute-go/kompute-go/internal/array"
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
	cols := x.Shape[len(x.Shape)-1]
	if cols == 0 {
		return nil
	}
	eachRow(3*float64(cols), &x, &out, func(dst, row []float32) {
		sum := simd.ExpSum(dst, row, simd.Max(row))
		simd.Scale(dst, 1/sum)
	})
	return nil
}
