package kompute

import (
	"unsafe"

	"github.com/kompute-go/kompute-go/internal/array"
)

// Element types, layouts and host arrays are defined in a package that other
// packages of this module share. These are their public names.
type (
	// DType names an element type. The zero DType names none.
	DType = array.DType
	// Float16 is an IEEE 754 binary16 number, stored as its bits.
	Float16 = array.F16
	// BFloat16 is a bfloat16 number (the upper half of a float32), stored as its
	// bits.
	BFloat16 = array.BF16
	// Element is any Go type that a tensor can hold.
	Element = array.Element
	// Float is any floating-point Element.
	Float = array.Float
	// Number is any Element of 16 or 32 bits: the floats, int32 and uint32.
	Number = array.Number
	// Layout places the elements of an n-dimensional array in flat storage:
	// element (i0, i1, …) is at Offset + Σ ik·Strides[k], all counted in elements.
	// It is immutable: its methods return new ones, and errors that wrap ErrLayout.
	Layout = array.Layout
	// Array is a typed view of host memory: what Op.CPU gets for each operand.
	// The zero Array stands for an absent one. Data is the whole storage, in which
	// Layout says where the elements are; StorageOf gives it its type.
	Array = array.Array
)

// The element types, each with the Go type of its elements.
const (
	DTypeFloat32  = array.Float32  // float32
	DTypeFloat16  = array.Float16  // Float16
	DTypeBFloat16 = array.BFloat16 // BFloat16
	DTypeInt32    = array.Int32    // int32
	DTypeUint32   = array.Uint32   // uint32
	DTypeBool     = array.Bool     // bool, one byte that is 0 or 1
	DTypeUint8    = array.Uint8    // uint8
)

// MaxRank is the largest number of axes of a tensor.
const MaxRank = array.MaxRank

// ErrLayout is wrapped by errors of Layout's methods, ContiguousLayout, NewArray and
// ArrayOf. View operations of tensors return ErrShape instead.
var ErrLayout = array.ErrLayout

// DTypeOf returns the element type of the Go type T.
func DTypeOf[T Element]() DType { return array.DTypeOf[T]() }

// Float16FromFloat32 rounds to the nearest Float16, ties to even. Numbers that are
// too large become infinite.
func Float16FromFloat32(f float32) Float16 { return array.F16FromFloat32(f) }

// BFloat16FromFloat32 rounds to the nearest BFloat16, ties to even. A NaN becomes a
// quiet NaN.
func BFloat16FromFloat32(f float32) BFloat16 { return array.BF16FromFloat32(f) }

// ContiguousLayout returns the row-major layout of shape at offset 0. The error
// is ErrLayout for a negative length, more than MaxRank axes, or more elements
// than an int counts.
func ContiguousLayout(shape ...int) (Layout, error) { return array.Contiguous(shape...) }

// NewArray returns a contiguous host array of zeros. The error is ErrLayout as
// for ContiguousLayout, or for an invalid DType.
func NewArray(dtype DType, shape ...int) (Array, error) { return array.New(dtype, shape...) }

// ArrayOf returns a contiguous host array in the memory of data, which is not
// copied. The error is ErrLayout if shape has another number of elements, and as
// for ContiguousLayout.
func ArrayOf[T Element](data []T, shape ...int) (Array, error) { return array.Of(data, shape...) }

// StorageOf returns the whole storage of a as a Go slice: element (i0, i1, …) of
// the array is at a.Offset + Σ ik·a.Strides[k]. T must be a's element type, or one
// of the same size.
func StorageOf[T Element](a Array) []T { return array.Storage[T](a) }

// sizeOf returns the bytes of one element of type T.
func sizeOf[T Element]() int {
	var zero T
	return int(unsafe.Sizeof(zero))
}
