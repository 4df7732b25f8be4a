package fallback

import (
	"math"

	"github.com/kompute-go/kompute-go/internal/array"
)

// Arange sets out [n] to start + i*step. start and step are bits: of float32
// numbers if out has a float type, where results are rounded once at the store,
// otherwise of integers, which wrap around.
//
// Errors: ErrInvalid for another rank, or bool.
func Arange(out array.Array, start, step uint32) error {
	c := checker{op: "arange"}
	c.array("out", &out)
	c.rank("out", &out, 1)
	if c.err == nil && out.DType == array.Bool {
		c.fail("out has type %v", out.DType)
	}
	if c.err != nil || out.Size() == 0 {
		return c.err
	}
	stride := out.Strides[0]
	parallel((out.Shape[0]+blockSize-1)/blockSize, blockSize, func(lo, hi int) {
		for first := lo * blockSize; first < min(hi*blockSize, out.Shape[0]); first += blockSize {
			n, at := min(blockSize, out.Shape[0]-first), out.Offset+first*stride
			switch {
			case out.DType.IsFloat():
				arangeFloats(&out, at, stride, first, n, math.Float32frombits(start), math.Float32frombits(step))
			case out.DType == array.Uint8:
				arangeInts(storage[uint8](&out), at, stride, n, uint8(start)+uint8(first)*uint8(step), uint8(step))
			default:
				arangeInts(storage[uint32](&out), at, stride, n, start+uint32(first)*step, step)
			}
		}
	})
	return nil
}

func arangeFloats(out *array.Array, at, stride, first, n int, start, step float32) {
	scratch := borrow(blockSize)
	defer scratch.release()
	row := scratch.f[:n]
	for i := range row {
		row[i] = start + float32(float32(first+i)*step) // the product is rounded first, as on every device
	}
	storeFloats(out, at, stride, row)
}

func arangeInts[T uint8 | uint32](out []T, at, stride, n int, v, step T) {
	for range n {
		out[at] = v
		v += step
		at += stride
	}
}
