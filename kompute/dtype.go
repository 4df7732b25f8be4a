package kompute

import (
	"unsafe"

	"github.com/kompute-go/kompute-go/internal/array"
)

// These are package array's types, under the names that most callers need.
type (
	// DType names an element type.
	DType = array.DType
	// Float16 is an IEEE 754 binary16 number, stored as its bits.
	Float16 = array.F16
	// BFloat16 is a bfloat16 number, stored as its bits.
	BFloat16 = array.BF16
	// Element is any Go type that a tensor can hold.
	Element = array.Element
	// Float is any floating-point Element.
	Float = array.Float
	// Number is any Element on which arithmetic is defined.
	Number = array.Number
)

// sizeOf returns the bytes of one element of type T.
func sizeOf[T Element]() int {
	var zero T
	return int(unsafe.Sizeof(zero))
}
