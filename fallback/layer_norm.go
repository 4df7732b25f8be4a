package fallback

import (
	"math"

	"github.com/kompute-go/kompute-go/fallback/internal/simd"
	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/opdef"
)

// LayerNorm computes out = (x - mean) / sqrt(mean((x - mean)²) + eps) · weight +
// bias over the last axis (Ba, Kiros and Hinton, 2016). x and out [..., cols]
// have one shape and float type; weight and bias [cols], of any float type, may
// each be absent.
//
// Errors: ErrInvalid for other shapes or types, or without an axis.
func LayerNorm(x, weight, bias, out array.Array, eps float32) error {
	c := checker{op: "layer_norm"}
	c.float("x", &x)
	c.float("out", &out)
	c.lastAxis("x", &x)
	c.shape("out", &out, x.Shape)
	c.dtype("out", &out, x.DType)
	row := x.Shape[max(len(x.Shape)-1, 0):]
	if weight.Present() {
		c.float("weight", &weight)
		c.shape("weight", &weight, row)
	}
	if bias.Present() {
		c.float("bias", &bias)
		c.shape("bias", &bias, row)
	}
	if c.err != nil || x.Size() == 0 {
		return c.err
	}
	cols := row[0]
	wide := borrow(2 * cols)
	defer wide.release()
	space := wide.f
	w, b := vector(&weight, cut(&space, cols)), vector(&bias, cut(&space, cols))
	eachRow(3*float64(cols), &x, &out, func(dst, row []float32) {
		standardize(dst, row, eps)
		scaleAndShift(dst, w, b)
	})
	return nil
}

// standardize gives x the mean 0 and, except for the effect of eps, the variance 1. dst may be x.
func standardize(dst, x []float32, eps float32) {
	mean := sumInPieces(x, sumFloats) / float32(len(x))
	dst = dst[:len(x)]
	shift := borrow(1) // a variable of its own would be allocated each time
	defer shift.release()
	shift.f[0] = mean
	binaryFloatRow(opdef.BinarySub, dst, x, shift.f)
	variance := sumInPieces(dst, squares) / float32(len(x))
	simd.Scale(dst, float32(1/math.Sqrt(float64(variance+eps))))
}

func scaleAndShift(x, weight, bias []float32) {
	if weight != nil {
		binaryFloatRow(opdef.BinaryMul, x, x, weight)
	}
	if bias != nil {
		binaryFloatRow(opdef.BinaryAdd, x, x, bias)
	}
}
