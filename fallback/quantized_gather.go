package fallback

import (
	"slices"

	"github.com/kompute-go/kompute-go/internal/array"
)

// QuantizedGather picks and dequantizes rows, as an embedding does: w [V,
// K*bits/32] uint32, scales and biases? [V, K/group] as of Dequantize, indices
// [i…] int32 or uint32, out [i…, K] of a float type. A negative index counts from
// the end; one outside the rows gives zeros.
//
// Errors: ErrInvalid for other shapes or types, or a format that does not exist.
func QuantizedGather(w, scales, biases, indices, out array.Array, q Quantization) error {
	c := checker{op: "quantized_gather"}
	a := c.packed(&w, &scales, &biases, q)
	c.rank("w", &w, 2)
	c.index("indices", &indices)
	c.float("out", &out)
	if c.err == nil {
		c.shape("out", &out, append(slices.Clone(indices.Shape), a.cols))
	}
	if c.err != nil {
		return c.err
	}
	if a.cols == 0 {
		return nil
	}
	at := indexReader(&indices, w.Shape[0])
	stride := out.Strides[len(out.Strides)-1]
	l := newLoop(len(indices.Shape), &indices, &out)
	l.each(0.5*float64(a.cols), func(c cursor, lo, hi int) {
		scratch := borrow(a.rowSpace() + a.cols)
		defer scratch.release()
		for range hi - lo {
			if i, ok := at(c.off[0]); ok {
				a.writeRow(w.Offset+i*w.Strides[0], scales.Offset+i*scales.Strides[0],
					a.biases.Offset+i*a.biases.Strides[0], &out, c.off[1], scratch.f)
			} else {
				clear(scratch.f[:a.cols])
				storeFloats(&out, c.off[1], stride, scratch.f[:a.cols])
			}
			c.next()
		}
	})
	return nil
}
