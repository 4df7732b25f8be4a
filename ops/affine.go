package ops

import (
	"github.com/kompute-go/kompute-go/fallback"
	"github.com/kompute-go/kompute-go/kompute"
)

// Affine says how MLX's affine quantization packed a matrix: GroupSize (32, 64
// or 128) neighbours along the last axis share a scale and a bias, and each is a
// code of Bits (2, 3, 4, 5, 6 or 8) bits. An element is scale * code + bias;
// scales may be negative.
//
// The K codes of a row are one little-endian stream of bits in K*Bits/32 uint32
// words, the lowest bits first: with 4 bits, element i is at bit 4*(i%8) of word
// i/8; codes of 3, 5 and 6 bits cross words.
type Affine struct{ GroupSize, Bits int }

// check reports whether these are a group size and bits that exist.
func (q Affine) check(c *call) bool {
	switch q.GroupSize {
	case 32, 64, 128:
	default:
		c.fail(kompute.ErrInvalid, "group size %d is not 32, 64 or 128", q.GroupSize)
	}
	switch q.Bits {
	case 2, 3, 4, 5, 6, 8:
	default:
		c.fail(kompute.ErrInvalid, "%d bits are not 2, 3, 4, 5, 6 or 8", q.Bits)
	}
	return c.err == nil
}

// affine checks a quantized matrix w [..., K*bits/32] with its scales and biases
// [..., K/group], appends the three, and returns the shape [..., K].
func affine[S kompute.Float](c *call, w *kompute.Tensor[uint32], scales, biases *kompute.Tensor[S], q Affine) []int {
	wl := input(c, "w", w)
	sl := input(c, "scales", scales)
	bl := input(c, "biases", biases)
	if !q.check(c) {
		return nil
	}
	if wl.Rank() == 0 {
		c.fail(kompute.ErrShape, "w has rank 0")
		return nil
	}
	words := wl.Dim(-1)
	k := words * 32 / q.Bits
	if words*32%q.Bits != 0 || k%q.GroupSize != 0 {
		c.fail(kompute.ErrShape, "rows of %d words are not whole groups of %d codes of %d bits", words, q.GroupSize, q.Bits)
		return nil
	}
	shape := make([]int, wl.Rank())
	copy(shape, wl.Shape)
	last := len(shape) - 1
	shape[last] = k / q.GroupSize
	c.shape("scales", sl, shape...)
	c.shape("biases", bl, shape...)
	shape[last] = k
	return shape
}

// cpu is the same parameters for the CPU backend.
func (q Affine) cpu() fallback.Affine {
	return fallback.Affine{GroupSize: q.GroupSize, Bits: q.Bits}
}

// matrix demands that the quantized operand, whose unpacked shape this is, has
// two axes.
func (c *call) matrix(shape []int) bool {
	if c.err == nil && len(shape) != 2 {
		c.fail(kompute.ErrShape, "w has rank %d, not 2", len(shape))
	}
	return c.err == nil
}
