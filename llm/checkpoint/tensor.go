package checkpoint

import (
	"bytes"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"unsafe"

	"github.com/kompute-go/kompute-go/internal/array"
)

// Tensor is one tensor of a weight file.
type Tensor struct {
	Name   string
	File   string      // the file it lies in, for messages
	DType  array.DType // element type, or 0 for a stored type that has none here
	Stored string      // the type as the file spells it, e.g. "BF16"
	Shape  []int       // row-major
	// Data is the little-endian bytes, of length Π Shape · size. It is the
	// file's own memory: read-only, valid until the file is closed, and at any
	// alignment (see Aligned).
	Data []byte
}

// Size returns the number of elements.
func (t Tensor) Size() int {
	n := 1
	for _, d := range t.Shape {
		n *= d
	}
	return n
}

// String returns type and shape, e.g. "BF16 [2048 256]".
func (t Tensor) String() string { return fmt.Sprintf("%s %v", t.Stored, t.Shape) }

// Aligned returns Data if it is aligned for its elements, and otherwise an aligned
// copy: the format does not guarantee any alignment.
func (t Tensor) Aligned() []byte {
	if len(t.Data) == 0 {
		return t.Data
	}
	size := max(storedTypes[t.Stored].bits/8, 1)
	if uintptr(unsafe.Pointer(unsafe.SliceData(t.Data)))%uintptr(size) == 0 {
		return t.Data
	}
	words := make([]uint64, (len(t.Data)+7)/8)
	aligned := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), len(t.Data))
	copy(aligned, t.Data)
	return aligned
}

// Array returns the tensor as a contiguous host array, without a copy where
// Data is aligned. It fails with UnsupportedError for a stored type without an
// element type, and with FormatError for a BOOL byte other than 0 and 1 or more
// than array.MaxRank dimensions.
func (t Tensor) Array() (array.Array, error) {
	if t.DType == 0 {
		return array.Array{}, t.unsupported()
	}
	layout, err := array.Contiguous(t.Shape...)
	if err != nil {
		return array.Array{}, &FormatError{File: t.File, Tensor: t.Name, Reason: err.Error()}
	}
	if t.DType == array.Bool {
		if i := bytes.IndexFunc(t.Data, func(r rune) bool { return r > 1 }); i >= 0 {
			return array.Array{}, &FormatError{File: t.File, Tensor: t.Name, Reason: fmt.Sprintf("BOOL element %d is not 0 or 1", i)}
		}
	}
	return array.Array{DType: t.DType, Layout: layout, Data: t.Aligned()}, nil
}

// Floats returns the elements of a floating-point tensor, widened to float32.
func (t Tensor) Floats() ([]float32, error) {
	if !t.DType.IsFloat() {
		return nil, t.unsupported()
	}
	a, err := t.Array()
	if err != nil {
		return nil, err
	}
	switch t.DType {
	case array.Float16:
		return widen(array.Storage[array.F16](a)), nil
	case array.BFloat16:
		return widen(array.Storage[array.BF16](a)), nil
	}
	return slices.Clone(array.Storage[float32](a)), nil
}

func widen[T interface{ Float32() float32 }](in []T) []float32 {
	out := make([]float32, len(in))
	for i, v := range in {
		out[i] = v.Float32()
	}
	return out
}

func (t Tensor) unsupported() error {
	return &UnsupportedError{File: t.File, What: fmt.Sprintf("type of tensor %q,", t.Name), Got: t.Stored, Supported: usable}
}

// byteSize returns the bytes of a tensor. It fails where a product overflows,
// counting a zero dimension as one so that strides cannot overflow either, and
// where elements narrower than a byte do not fill whole bytes.
func byteSize(shape []int, elementBits int) (int, error) {
	count, empty := uint64(1), false
	for _, d := range shape {
		hi, lo := bits.Mul64(count, uint64(max(d, 1)))
		if hi != 0 || lo > math.MaxInt {
			return 0, fmt.Errorf("shape %v overflows", shape)
		}
		count, empty = lo, empty || d == 0
	}
	hi, total := bits.Mul64(count, uint64(elementBits))
	if hi != 0 || total/8 > math.MaxInt {
		return 0, fmt.Errorf("shape %v overflows", shape)
	}
	if empty {
		return 0, nil
	}
	if total%8 != 0 {
		return 0, fmt.Errorf("shape %v of %d-bit elements does not fill whole bytes", shape, elementBits)
	}
	return int(total / 8), nil
}
