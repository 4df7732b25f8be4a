// Package array holds what all layers share: element types, layouts (shape,
// strides, offset) and host arrays. It is independent of devices.
package array

import (
	"fmt"
	"math"

	"github.com/x448/float16"

	"github.com/kompute-go/kompute-go/internal/opdef"
)

// DType names an element type. The values are those of csrc/ops/ops.def, for C too.
type DType uint32

// The element types. Bool is one byte, 0 or 1.
const (
	Float32  = DType(opdef.Float32)
	Float16  = DType(opdef.Float16)
	BFloat16 = DType(opdef.BFloat16)
	Int32    = DType(opdef.Int32)
	Uint32   = DType(opdef.Uint32)
	Bool     = DType(opdef.Bool)
	Uint8    = DType(opdef.Uint8)
)

// F16 is an IEEE 754 binary16 number, stored as its bits.
type F16 uint16

// BF16 is a bfloat16 number (the upper half of a float32), stored as its bits.
type BF16 uint16

// Element is any Go type that a tensor can hold.
type Element interface {
	float32 | F16 | BF16 | int32 | uint32 | bool | uint8
}

// Float is any floating-point Element.
type Float interface {
	float32 | F16 | BF16
}

// Number is any Element that is a number of 16 or 32 bits.
type Number interface {
	float32 | F16 | BF16 | int32 | uint32
}

// DTypeOf returns the DType of the Go type T.
func DTypeOf[T Element]() DType {
	var zero T
	switch any(zero).(type) {
	case float32:
		return Float32
	case F16:
		return Float16
	case BF16:
		return BFloat16
	case int32:
		return Int32
	case uint32:
		return Uint32
	case bool:
		return Bool
	default:
		return Uint8
	}
}

// Size returns the bytes of one element, or 0 for an unknown DType.
func (d DType) Size() int {
	switch d {
	case Float32, Int32, Uint32:
		return 4
	case Float16, BFloat16:
		return 2
	case Bool, Uint8:
		return 1
	}
	return 0
}

// IsFloat reports whether d is a floating-point type.
func (d DType) IsFloat() bool { return d == Float32 || d == Float16 || d == BFloat16 }

// Round returns v as the float type d stores it, rounded to nearest even; for
// other types, v itself.
func (d DType) Round(v float32) float32 {
	switch d {
	case Float16:
		return F16FromFloat32(v).Float32()
	case BFloat16:
		return BF16FromFloat32(v).Float32()
	}
	return v
}

// String returns the type's name as NumPy and MLX spell it.
func (d DType) String() string {
	switch {
	case d == 0:
		return "invalid"
	case d < opdef.NumDTypes:
		return opdef.DType(d).String()
	}
	return fmt.Sprintf("DType(%d)", uint32(d))
}

// MarshalText returns String's name, for encoding/json. It fails for an unknown type.
func (d DType) MarshalText() ([]byte, error) {
	if d.Size() == 0 {
		return nil, fmt.Errorf("%v is not an element type", d)
	}
	return []byte(d.String()), nil
}

// UnmarshalText reverses MarshalText. It fails for other texts.
func (d *DType) UnmarshalText(text []byte) error {
	for one := Float32; one < opdef.NumDTypes; one++ {
		if one.String() == string(text) {
			*d = one
			return nil
		}
	}
	return fmt.Errorf("%q is not an element type", text)
}

// F16FromFloat32 rounds to the nearest binary16, ties to even.
func F16FromFloat32(f float32) F16 { return F16(float16.Fromfloat32(f)) }

// Float32 converts exactly.
func (h F16) Float32() float32 { return float16.Float16(h).Float32() }

// BF16FromFloat32 rounds to the nearest bfloat16, ties to even; a NaN stays a
// NaN and becomes quiet.
func BF16FromFloat32(f float32) BF16 {
	bits := math.Float32bits(f)
	if f != f {
		return BF16(bits>>16 | 0x40)
	}
	return BF16((bits + 0x7fff + bits>>16&1) >> 16)
}

// Float32 converts exactly.
func (b BF16) Float32() float32 { return math.Float32frombits(uint32(b) << 16) }
