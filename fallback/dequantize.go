package fallback

import (
	"github.com/kompute-go/kompute-go/fallback/internal/simd"
	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/opdef"
)

// Dequantize writes the elements of a quantized array: w [..., K*bits/32] uint32,
// scales and biases [..., K/group] of float types (uint8 scales and no biases in
// the modes that have none), out [..., K] of a float type. See Quantization for
// the format.
//
// Errors: ErrInvalid for other shapes or types, or a format that does not exist.
func Dequantize(w, scales, biases, out array.Array, q Quantization) error {
	c := checker{op: "dequantize"}
	a := c.packed(&w, &scales, &biases, q)
	c.float("out", &out)
	if c.err == nil {
		c.shape("out", &out, append(w.Shape[:len(w.Shape)-1:len(w.Shape)-1], a.cols))
	}
	if c.err != nil {
		return c.err
	}
	if a.cols == 0 {
		return nil
	}
	last := len(w.Shape) - 1
	l := newLoop(last, &w, &scales, a.biases, &out)
	l.each(0.5*float64(a.cols), func(at cursor, lo, hi int) {
		scratch := borrow(a.rowSpace() + a.cols)
		defer scratch.release()
		for range hi - lo {
			a.writeRow(at.off[0], at.off[1], at.off[2], &out, at.off[3], scratch.f)
			at.next()
		}
	})
	return nil
}

// writeRow dequantizes the row that starts at the given elements of w, scales and
// biases to the last axis of out.
func (a *packed) writeRow(w, scales, biases int, out *array.Array, off int, space []float32) {
	stride := out.Strides[len(out.Strides)-1]
	res := place(out, off, stride, a.cols, cut(&space, a.cols))
	if a.Mode == opdef.ModeAffine {
		row := a.row(w, scales, biases, space)
		simd.Dequantize(res, a.cols, &row, 1)
	} else {
		a.values(res, w, scales, 0, a.groups)
	}
	storeFloats(out, off, stride, res)
}
