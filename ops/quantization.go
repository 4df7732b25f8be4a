package ops

import (
	"math"

	"github.com/kompute-go/kompute-go/fallback"
	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/opdef"
	"github.com/kompute-go/kompute-go/kompute"
)

// Mode is one of MLX's quantization modes; the zero Mode is affine.
type Mode int

// The modes. Only ModeAffine has biases. The others are the Open Compute Project's
// microscaling formats and NVIDIA's: scales are uint8 tensors, biases nil, and
// group size and bits fixed.
const (
	ModeAffine Mode = Mode(opdef.ModeAffine) // scale * code + bias, scales and biases of a float type
	ModeMXFP4  Mode = Mode(opdef.ModeMXFP4)  // E2M1 codes of 4 bits, groups of 32, E8M0 scales
	ModeNVFP4  Mode = Mode(opdef.ModeNVFP4)  // E2M1 codes of 4 bits, groups of 16, E4M3 scales
	ModeMXFP8  Mode = Mode(opdef.ModeMXFP8)  // E4M3 codes of 8 bits, groups of 32, E8M0 scales
)

// String returns MLX's name of the mode.
func (m Mode) String() string { return opdef.Mode(m).String() }

// The only quantization of each mode without biases.
var (
	MXFP4 = Quantization{GroupSize: 32, Bits: 4, Mode: ModeMXFP4}
	NVFP4 = Quantization{GroupSize: 16, Bits: 4, Mode: ModeNVFP4}
	MXFP8 = Quantization{GroupSize: 32, Bits: 8, Mode: ModeMXFP8}
)

// Quantization describes how MLX packed a matrix: GroupSize neighbours along the last axis share a
// scale, and each is a code of Bits bits. The affine mode has groups of 32, 64 and 128 and codes of
// 2, 3, 4, 5, 6 and 8 bits; each group also has a bias, and an element is scale * code + bias;
// scales may be negative. In the other modes the code is a small float, and an element is scale *
// code.
//
// The K codes of a row are one little-endian stream of bits in K*Bits/32 uint32
// words, the lowest bits first: with 4 bits, element i is at bit 4*(i%8) of word
// i/8; codes of 3, 5 and 6 bits cross words.
type Quantization struct {
	GroupSize, Bits int
	Mode            Mode
}

// Scale is the element type of scales: a float in the affine mode, uint8 in the others.
type Scale interface {
	float32 | array.F16 | array.BF16 | uint8
}

// check validates the quantization and its type of scales.
func (q Quantization) check(c *call, scales array.DType) bool {
	switch q.Mode {
	case ModeAffine:
		q.checkAffine(c)
	case ModeMXFP4, ModeNVFP4, ModeMXFP8:
		want := map[Mode]Quantization{ModeMXFP4: MXFP4, ModeNVFP4: NVFP4, ModeMXFP8: MXFP8}[q.Mode]
		if q != want {
			c.fail(kompute.ErrInvalid, "mode %v has groups of %d and %d bits, not of %d and %d", q.Mode, want.GroupSize, want.Bits, q.GroupSize, q.Bits)
		}
	default:
		c.fail(kompute.ErrInvalid, "there is no quantization mode %d", int(q.Mode))
	}
	if c.err == nil && scales.IsFloat() != (q.Mode == ModeAffine) {
		c.fail(kompute.ErrDType, "scales of mode %v are not %v", q.Mode, scales)
	}
	return c.err == nil
}

func (q Quantization) checkAffine(c *call) {
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
}

// matrix names the operands of a quantized matrix.
type matrix struct{ w, scales, biases opdef.Operand }

// quantized checks a quantized matrix w [..., K*bits/32] with its scales and biases
// [..., K/group], appends the three, and returns the shape [..., K], which lives as long as the call.
func quantized[S Scale](c *call, m matrix, w *kompute.Tensor[uint32], scales, biases *kompute.Tensor[S], q Quantization) []int {
	wl := input(c, m.w, w)
	sl := input(c, m.scales, scales)
	bl := sl
	if q.Mode == ModeAffine {
		bl = input(c, m.biases, biases)
	} else if _, present := optional(c, m.biases, biases); present {
		c.fail(kompute.ErrInvalid, "mode %v has no biases", q.Mode)
	}
	if !q.check(c, array.DTypeOf[S]()) {
		return nil
	}
	if wl.Rank() == 0 {
		c.fail(kompute.ErrShape, "w has rank 0")
		return nil
	}
	words := wl.Dim(-1)
	if words > math.MaxInt/32 {
		c.fail(kompute.ErrTooLarge, "rows of %d words", words)
		return nil
	}
	k := words * 32 / q.Bits
	if words*32%q.Bits != 0 || k%q.GroupSize != 0 {
		c.fail(kompute.ErrShape, "rows of %d words are not whole groups of %d codes of %d bits", words, q.GroupSize, q.Bits)
		return nil
	}
	shape := c.shapeLike(0, wl.Shape)
	last := len(shape) - 1
	shape[last] = k / q.GroupSize
	c.shape("scales", sl, shape...)
	c.shape("biases", bl, shape...)
	shape[last] = k
	return shape
}

// packing returns the parameters of an op in the form of the CPU implementation.
func packing(groupSize, bits uint32, mode opdef.Mode) fallback.Quantization {
	return fallback.Quantization{GroupSize: int(groupSize), Bits: int(bits), Mode: mode}
}

// matrix requires that the quantized operand with this unpacked shape has two
// axes.
func (c *call) matrix(shape []int) bool {
	if c.err == nil && len(shape) != 2 {
		c.fail(kompute.ErrShape, "w has rank %d, not 2", len(shape))
	}
	return c.err == nil
}
