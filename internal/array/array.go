package array

import (
	"fmt"
	"math"
	"unsafe"
)

// Array is a typed view of host memory. The zero Array stands for an absent
// operand. Data is the whole storage; Layout says where the elements are.
type Array struct {
	DType DType
	Layout
	Data []byte
}

// Present reports whether a is an operand at all.
func (a Array) Present() bool { return a.DType != 0 }

// New returns a zeroed, contiguous host array. It fails with ErrLayout where
// Contiguous does, and for an unknown DType.
func New(dtype DType, shape ...int) (Array, error) {
	l, err := Contiguous(shape...)
	if err != nil {
		return Array{}, err
	}
	if size := dtype.Size(); size == 0 || l.Size() > math.MaxInt/size {
		return Array{}, fmt.Errorf("%w: %d elements of type %v", ErrLayout, l.Size(), dtype)
	}
	return Array{DType: dtype, Layout: l, Data: NewBytes(l.Size() * dtype.Size())}, nil
}

// NewBytes returns zeroed memory that any element type may be read from.
func NewBytes(n int) []byte {
	if n == 0 {
		return nil
	}
	words := make([]uint64, (n+7)/8)
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), n)
}

// Of wraps a Go slice, without copying, as a contiguous host array.
func Of[T Element](data []T, shape ...int) (Array, error) {
	l, err := Contiguous(shape...)
	if err != nil {
		return Array{}, err
	}
	if l.Size() != len(data) {
		return Array{}, fmt.Errorf("%w: %d elements for shape %v", ErrLayout, len(data), l.Shape)
	}
	return Array{DType: DTypeOf[T](), Layout: l, Data: Bytes(data)}, nil
}

// Bytes returns the memory of a Go slice.
func Bytes[T Element](data []T) []byte {
	var zero T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(data))), len(data)*int(unsafe.Sizeof(zero)))
}

// Storage returns the whole storage of a as a Go slice of T; element (i…) of
// the array is at Offset + Σ i·Strides. T must be the array's element type, or
// one of the same size.
func Storage[T Element](a Array) []T {
	var zero T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(a.Data))), len(a.Data)/int(unsafe.Sizeof(zero)))
}
