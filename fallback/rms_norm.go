package fallback

import (
	"math"

	"github.com/kompute-go/kompute-go/fallback/internal/simd"
	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/opdef"
)

// RMSNorm computes out = x / sqrt(mean(x²) + eps) · weight over the last axis
// (Zhang and Sennrich, 2019). x and out [..., cols] have one shape and float
// type; weight [cols], of any float type, may be absent.
//
// Errors: ErrInvalid for other shapes or types, or without an axis.
func RMSNorm(x, weight, out array.Array, eps float32) error {
	c := checker{op: "rms_norm"}
	c.float("x", &x)
	c.float("out", &out)
	c.lastAxis("x", &x)
	c.shape("out", &out, x.Shape)
	c.dtype("out", &out, x.DType)
	if weight.Present() {
		c.float("weight", &weight)
		c.shape("weight", &weight, x.Shape[max(len(x.Shape)-1, 0):])
	}
	if c.err != nil || x.Size() == 0 {
		return c.err
	}
	cols := x.Dim(-1)
	wide := borrow(cols)
	defer wide.release()
	w := vector(&weight, wide.f)
	eachRow(1.5*float64(cols), &x, &out, func(dst, row []float32) { normalize(dst, row, w, eps) })
	return nil
}

// squares is the sum of the squares of a row.
func squares(row []float32) float32 { return simd.Dot(row, row) }

func normalize(dst, x, weight []float32, eps float32) {
	mean := sumInPieces(x, squares) / float32(len(x))
	dst = dst[:len(x)]
	copy(dst, x)
	simd.Scale(dst, float32(1/math.Sqrt(float64(mean+eps))))
	if weight != nil {
		binaryFloatRow(opdef.BinaryMul, dst, dst, weight)
	}
}
