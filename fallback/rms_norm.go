package fallback

import (
	"math"

	"github.com/kompute-go/kompute-go/array"
	"github.com/kompute-go/kompute-go/fallback/internal/simd"
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
	if c.err != nil {
		return c.err
	}
	last := len(x.Shape) - 1
	cols, in, to := x.Shape[last], x.Strides[last], out.Strides[last]
	if cols == 0 {
		return nil
	}
	wide := borrow(cols)
	defer wide.release()
	var w []float32
	if weight.Present() {
		w = floats(&weight, weight.Offset, weight.Strides[0], cols, wide.f)
	}
	l := newLoop(last, &x, &out)
	l.each(1.5*float64(cols), func(at cursor, lo, hi int) {
		scratch := borrow(2 * cols)
		defer scratch.release()
		for range hi - lo {
			buf := scratch.f
			row := floats(&x, at.off[0], in, cols, cut(&buf, cols))
			res := place(&out, at.off[1], to, cols, buf)
			normalize(res, row, w, eps)
			storeFloats(&out, at.off[1], to, res)
			at.next()
		}
	})
	return nil
}

func normalize(dst, x, weight []float32, eps float32) {
	mean := simd.Dot(x, x) / float32(len(x))
	f := float32(1 / math.Sqrt(float64(mean+eps)))
	dst = dst[:len(x)]
	if weight == nil {
		for i, v := range x {
			dst[i] = v * f
		}
		return
	}
	weight = weight[:len(x)]
	for i, v := range x {
		dst[i] = v * f * weight[i]
	}
}
