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
		simd.Scale(dst, 1/expSum(dst, row, simd.Max(row)))
	})
	return nil
}

const softmaxPiece = 2048 // columns whose exponentials are added up in float32

// expSum is simd.ExpSum for rows of any length: float32 sums over all of a long row would lose what comes last, so
// float64 adds up those of pieces.
func expSum(dst, row []float32, shift float32) float32 {
	sum := 0.0
	for ; len(row) > softmaxPiece; dst, row = dst[softmaxPiece:], row[softmaxPiece:] {
		sum += float64(simd.ExpSum(dst[:softmaxPiece], row[:softmaxPiece], shift))
	}
	return float32(sum + float64(simd.ExpSum(dst, row, shift)))
}
