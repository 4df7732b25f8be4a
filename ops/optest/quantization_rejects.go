package optest

import (
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/ops"
)

// formRejects are the quantizations that do not exist, for an op that is called
// with 12 groups of 32 float32 elements a row.
func formRejects(call func(q ops.Quantization) func(e *env) error) []reject {
	return []reject{
		{"group 0", kompute.ErrInvalid, call(ops.Quantization{Bits: 4})},
		{"group 16", kompute.ErrInvalid, call(ops.Quantization{GroupSize: 16, Bits: 4})},
		{"group -32", kompute.ErrInvalid, call(ops.Quantization{GroupSize: -32, Bits: 4})},
		{"bits 0", kompute.ErrInvalid, call(ops.Quantization{GroupSize: 32})},
		{"bits 1", kompute.ErrInvalid, call(ops.Quantization{GroupSize: 32, Bits: 1})},
		{"bits 7", kompute.ErrInvalid, call(ops.Quantization{GroupSize: 32, Bits: 7})},
		{"bits -4", kompute.ErrInvalid, call(ops.Quantization{GroupSize: 32, Bits: -4})},
		{"mode 4", kompute.ErrInvalid, call(ops.Quantization{GroupSize: 32, Bits: 4, Mode: 4})},
		{"mode -1", kompute.ErrInvalid, call(ops.Quantization{GroupSize: 32, Bits: 4, Mode: -1})},
		{"mxfp4 in groups of 64", kompute.ErrInvalid, call(ops.Quantization{GroupSize: 64, Bits: 4, Mode: ops.ModeMXFP4})},
		{"mxfp4 of 8 bits", kompute.ErrInvalid, call(ops.Quantization{GroupSize: 32, Bits: 8, Mode: ops.ModeMXFP4})},
		{"nvfp4 in groups of 32", kompute.ErrInvalid, call(ops.Quantization{GroupSize: 32, Bits: 4, Mode: ops.ModeNVFP4})},
		{"mxfp8 of 4 bits", kompute.ErrInvalid, call(ops.Quantization{GroupSize: 32, Bits: 4, Mode: ops.ModeMXFP8})},
	}
}

// quantizedCall calls an op with a quantized matrix whose biases are float32, and
// may be nil; smallCall calls it with uint8 scales and biases.
type (
	quantizedCall func(e *env, w *kompute.Tensor[uint32], s, b *kompute.Tensor[float32], q ops.Quantization) error
	smallCall     func(e *env, w *kompute.Tensor[uint32], s, b *kompute.Tensor[uint8], q ops.Quantization) error
)

// quantizedRejects are the calls that every op with a quantized matrix refuses.
func quantizedRejects(call quantizedCall, small smallCall) []reject {
	q := ops.Quantization{GroupSize: 32, Bits: 4}
	list := formRejects(func(q ops.Quantization) func(e *env) error {
		return func(e *env) error {
			if q.Mode != ops.ModeAffine {
				return small(e, e.u32(3, 8), e.u8(3, 2), nil, q)
			}
			return call(e, e.u32(3, 8), e.f32(3, 2), e.f32(3, 2), q)
		}
	})
	return append(list,
		reject{"words", kompute.ErrShape, func(e *env) error { return call(e, e.u32(3, 7), e.f32(3, 2), e.f32(3, 2), q) }},
		reject{"words of 3 bits", kompute.ErrShape, func(e *env) error {
			return call(e, e.u32(3, 4), e.f32(3, 1), e.f32(3, 1), ops.Quantization{GroupSize: 32, Bits: 3})
		}},
		reject{"scales", kompute.ErrShape, func(e *env) error { return call(e, e.u32(3, 8), e.f32(3, 1), e.f32(3, 2), q) }},
		reject{"biases", kompute.ErrShape, func(e *env) error { return call(e, e.u32(3, 8), e.f32(3, 2), e.f32(2, 2), q) }},
		reject{"scales' rank", kompute.ErrShape, func(e *env) error { return call(e, e.u32(3, 8), e.f32(6), e.f32(3, 2), q) }},
		reject{"rank 0", kompute.ErrShape, func(e *env) error { return call(e, e.u32(), e.f32(), e.f32(), q) }},
		reject{"affine without biases", kompute.ErrInvalid, func(e *env) error { return call(e, e.u32(3, 8), e.f32(3, 2), nil, q) }},
		reject{"affine with uint8 scales", kompute.ErrDType, func(e *env) error { return small(e, e.u32(3, 8), e.u8(3, 2), e.u8(3, 2), q) }},
		reject{"mxfp4 with biases", kompute.ErrInvalid, func(e *env) error { return small(e, e.u32(3, 8), e.u8(3, 2), e.u8(3, 2), ops.MXFP4) }},
		reject{"mxfp4 with float scales", kompute.ErrDType, func(e *env) error { return call(e, e.u32(3, 8), e.f32(3, 2), nil, ops.MXFP4) }},
		reject{"mxfp8 of 4 bits' words", kompute.ErrShape, func(e *env) error { return small(e, e.u32(3, 8), e.u8(3, 2), nil, ops.MXFP8) }},
		reject{"nvfp4 of groups of 32", kompute.ErrShape, func(e *env) error { return small(e, e.u32(3, 8), e.u8(3, 2), nil, ops.NVFP4) }},
		reject{"nvfp4 of half a group", kompute.ErrShape, func(e *env) error { return small(e, e.u32(3, 1), e.u8(3, 1), nil, ops.NVFP4) }})
}
