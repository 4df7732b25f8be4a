package ops

import (
	"slices"

	"github.com/kompute-go/kompute-go/fallback"
	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/opdef"
	"github.com/kompute-go/kompute-go/kompute"
)

var quantizeCPU = onCPU(func(a []array.Array, p *opdef.QuantizeParams) error {
	return fallback.Quantize(at(a, opdef.Quantize.X), at(a, opdef.Quantize.W), at(a, opdef.Quantize.Scales), at(a, opdef.Quantize.Biases), packing(p.GroupSize, p.Bits, p.Mode))
})

// Quantize packs x [..., K] as q says: to words [..., K*bits/32] with scales
// [..., K/group], and in the affine mode biases of that shape (nil in the others):
//
//	w, scales, biases := ops.Quantize[float32](s, x, ops.Quantization{GroupSize: 64, Bits: 4})
//	w, scales, _ := ops.Quantize[uint8](s, x, ops.MXFP4)
//
// With group 64 and 4 bits, x [512, 1024] gives w [512, 128] and scales [512, 16].
// S is the type of scales and biases: any float in the affine mode (MLX takes x's),
// uint8 in the others.
//
// Codes, scales and biases match MLX's quantize (its CPU backend) bit for bit on every device. In
// the affine mode, with n = 2^bits - 1, lo and hi the extremes of a group and e the one farther
// from zero (hi if equal), s = max((hi-lo)/n, 1e-7), negated if e is hi; if q = round(e/s) is not
// 0, the scale is e/q and the bias e, else s and 0; a code is round((x-bias)/scale), clipped to
// 0…n. Scales and biases are rounded to S only when they are stored. NaN elements do not affect lo
// and hi, and get code 0.
//
// In the modes without biases the scale is the largest magnitude divided by 6 (E2M1) or 448 (E4M3),
// rounded up to a power of two for E8M0, to nearest for E4M3. A code is the nearest to x/scale; in
// E2M1, ties go to the smaller. Where MLX relies on conversions that C++ leaves undefined, this is
// defined: a group with NaN or infinities has E8M0 scale 255 and codes 0, which is NaN; E8M0 scales
// do not fall below 2^-127.
//
// # Errors
//
// ErrInvalid for a group size or bits that the mode does not have; ErrDType if S is not a type of
// its scales; ErrShape if x has rank 0 or K is not a multiple of the group size.
func Quantize[S Scale, T kompute.Float](s *kompute.Stream, x *kompute.Tensor[T], q Quantization) (w *kompute.Tensor[uint32], scales, biases *kompute.Tensor[S]) {
	c := newCall(s, opdef.Quantize.Op)
	l := input(c, opdef.Quantize.X, x)
	if q.check(c, array.DTypeOf[S]()) {
		if k := c.lastAxis("x", l); c.err == nil && k%q.GroupSize != 0 {
			c.fail(kompute.ErrShape, "rows of %d elements are not whole groups of %d", k, q.GroupSize)
		}
	}
	affine := q.Mode == ModeAffine
	if c.err != nil {
		return failedQuantize[S](s, c.err, affine)
	}
	shape := slices.Clone(l.Shape)
	last := len(shape) - 1
	shape[last] = l.Shape[last] / q.GroupSize * (q.GroupSize * q.Bits / 32)
	w = kompute.OutputOf[uint32](s, c.label, shape...)
	shape[last] = l.Shape[last] / q.GroupSize
	scales = kompute.OutputOf[S](s, c.label, shape...)
	results, third := []kompute.AnyTensor{w, scales}, kompute.Arg{}
	if affine {
		biases = kompute.OutputOf[S](s, c.label, shape...)
		results, third = append(results, biases), kompute.Out(biases.View())
	}
	if err := unmade(results...); err != nil {
		return failedQuantize[S](s, err, affine)
	}
	if l.Size() == 0 {
		return w, scales, biases
	}
	params := opdef.QuantizeParams{GroupSize: uint32(q.GroupSize), Bits: uint32(q.Bits), Mode: opdef.Mode(q.Mode)}
	c.args[opdef.Quantize.W.Index], c.args[opdef.Quantize.Scales.Index] = kompute.Out(w.View()), kompute.Out(scales.View())
	c.args[opdef.Quantize.Biases.Index] = third
	enqueue(c, &params, quantizeCPU)
	return w, scales, biases
}

// failedQuantize is what Quantize returns for an error, with biases in the affine mode.
func failedQuantize[S Scale](s *kompute.Stream, err error, affine bool) (w *kompute.Tensor[uint32], scales, biases *kompute.Tensor[S]) {
	if affine {
		biases = kompute.Failed[S](s, err)
	}
	return kompute.Failed[uint32](s, err), kompute.Failed[S](s, err), biases
}
