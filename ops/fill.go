package ops

import (
	"math"

	"github.com/kompute-go/kompute-go/fallback"
	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/opdef"
	"github.com/kompute-go/kompute-go/kompute"
)

var fillCPU = onCPU(func(a []array.Array, p *opdef.FillParams) error {
	return fallback.Fill(at(a, opdef.Fill.Out), p.Bits)
})

// Fill returns a tensor of that shape in which every element is v. It is made
// on the device, without an upload. (To repeat a tensor, broadcast it: ops take
// views.)
//
// # Errors
//
// ErrShape if the shape is negative or has more than 8 axes; ErrTooLarge.
func Fill[T kompute.Element](s *kompute.Stream, v T, shape ...int) *kompute.Tensor[T] {
	c := newCall(s, opdef.Fill.Op)
	params := opdef.FillParams{Bits: bitsOf(v)}
	return result[T](c, c.newShape(shape), params, fillCPU)
}

// newShape checks a result's shape that the caller specified.
func (c *call) newShape(shape []int) []int {
	for _, n := range shape {
		if n < 0 {
			c.fail(kompute.ErrShape, "the shape %v is negative", shape)
		}
	}
	return shape
}

// bitsOf returns the bits of an element, in the low bits of a word.
func bitsOf[T kompute.Element](v T) uint32 {
	switch v := any(v).(type) {
	case float32:
		return math.Float32bits(v)
	case array.F16:
		return uint32(v)
	case array.BF16:
		return uint32(v)
	case int32:
		return uint32(v)
	case uint32:
		return v
	case uint8:
		return uint32(v)
	case bool:
		return toUint32(v)
	}
	return 0
}
