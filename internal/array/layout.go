package array

import (
	"errors"
	"fmt"
	"github.com/kompute-go/kompute-go/internal/opdef"
	"math"
	"math/bits"
)

// MaxRank is the largest number of dimensions of a layout.
const MaxRank = opdef.MaxRank

// ErrLayout is wrapped by the error of every view operation that fails.
var ErrLayout = errors.New("invalid layout")

// Layout places the elements of an n-dimensional array in flat storage:
// element (i0, i1, …) is at Offset + Σ ik·Strides[k]. Offset and strides count
// elements. A Layout is immutable: operations return a new one.
type Layout struct {
	Shape   []int
	Strides []int
	Offset  int
}

// Contiguous returns the row-major layout of shape at offset 0. It fails on a
// negative dimension, more than MaxRank dimensions or a size that overflows.
func Contiguous(shape ...int) (Layout, error) {
	l := makeLayout(len(shape))
	copy(l.Shape, shape)
	return l.rowMajor()
}

// ContiguousIn is Contiguous in the caller's memory, which must be zero, and which the
// layout keeps if shape and strides fit.
func ContiguousIn(memory []int, shape []int) (Layout, error) {
	l := makeLayoutIn(memory, len(shape))
	copy(l.Shape, shape)
	return l.rowMajor()
}

// makeLayout returns a layout of n axes, all zero, in one allocation. Errors
// below format copies of their arguments, so that a caller's shape can stay on
// its stack.
func makeLayout(n int) Layout {
	buf := make([]int, 2*n)
	return Layout{Shape: buf[:n:n], Strides: buf[n:]}
}

// makeLayoutIn is makeLayout in memory of zeros, if that is large enough.
func makeLayoutIn(memory []int, n int) Layout {
	if 2*n > len(memory) {
		return makeLayout(n)
	}
	return Layout{Shape: memory[:n:n], Strides: memory[n : 2*n : 2*n]}
}

// rowMajor sets the strides of a fresh layout.
func (l Layout) rowMajor() (Layout, error) {
	if len(l.Shape) > MaxRank {
		return Layout{}, fmt.Errorf("%w: rank %d exceeds %d", ErrLayout, len(l.Shape), MaxRank)
	}
	stride := 1
	for i := len(l.Shape) - 1; i >= 0; i-- {
		if l.Shape[i] < 0 {
			return Layout{}, fmt.Errorf("%w: negative dimension in shape %v", ErrLayout, l.Shape)
		}
		l.Strides[i] = stride
		var fits bool
		if stride, fits = times(stride, max(l.Shape[i], 1)); !fits {
			return Layout{}, fmt.Errorf("%w: shape %v overflows", ErrLayout, l.Shape)
		}
	}
	return l, nil
}

// times multiplies numbers that are not negative; false if the product is too large.
func times(a, b int) (int, bool) {
	high, low := bits.Mul(uint(a), uint(b))
	return int(low), high == 0 && low <= math.MaxInt
}

// checkSize fails where the number of elements overflows.
func (l Layout) checkSize() error {
	n := 1
	for _, d := range l.Shape {
		var fits bool
		if n, fits = times(n, max(d, 1)); !fits {
			return fmt.Errorf("%w: shape %v overflows", ErrLayout, l.Shape)
		}
	}
	return nil
}

// Check fails for an invalid layout: one whose lengths and strides differ in number, with
// more than MaxRank axes, a negative length, or elements whose number or positions overflow.
func (l Layout) Check() error {
	if len(l.Shape) != len(l.Strides) || len(l.Shape) > MaxRank {
		return fmt.Errorf("%w: %d lengths and %d strides; there must be as many of each, at most %d", ErrLayout, len(l.Shape), len(l.Strides), MaxRank)
	}
	if err := l.checkSize(); err != nil {
		return err
	}
	first, last := min(l.Offset, 0), max(l.Offset, 0)
	for i, d := range l.Shape {
		if d < 0 {
			return fmt.Errorf("%w: negative dimension in shape %v", ErrLayout, l.Shape)
		}
		span, fits := times(max(d-1, 0), max(l.Strides[i], -l.Strides[i]))
		first, last = first-span, last+span
		if !fits || first > 0 || last < 0 {
			return fmt.Errorf("%w: shape %v with strides %v overflows", ErrLayout, l.Shape, l.Strides)
		}
	}
	if last == math.MaxInt { // whose end has no number
		return fmt.Errorf("%w: shape %v with strides %v from offset %d overflows", ErrLayout, l.Shape, l.Strides, l.Offset)
	}
	return nil
}

// Size returns the number of elements.
func (l Layout) Size() int {
	n := 1
	for _, d := range l.Shape {
		n *= d
	}
	return n
}

// Rank returns the number of dimensions.
func (l Layout) Rank() int { return len(l.Shape) }

// Dim returns the length of axis (negative counts from the end), or 0 where
// there is no such axis.
func (l Layout) Dim(axis int) int {
	if axis < 0 {
		axis += len(l.Shape)
	}
	if axis < 0 || axis >= len(l.Shape) {
		return 0
	}
	return l.Shape[axis]
}

// IsContiguous reports whether the elements follow one another in row-major
// order without gaps (the offset may be anything).
func (l Layout) IsContiguous() bool {
	stride := 1
	for i := len(l.Shape) - 1; i >= 0; i-- {
		if l.Shape[i] != 1 && l.Strides[i] != stride {
			return l.Size() == 0
		}
		stride *= l.Shape[i]
	}
	return true
}

// Extent returns the half-open range of storage elements that the layout
// touches; both are Offset when it has no elements.
func (l Layout) Extent() (lo, hi int) {
	_, lo, hi = l.Measure()
	return lo, hi
}

// Measure returns Size and Extent.
func (l Layout) Measure() (size, lo, hi int) {
	if size = l.Size(); size == 0 {
		return 0, l.Offset, l.Offset
	}
	lo, hi = l.Offset, l.Offset+1
	for i, d := range l.Shape {
		if span := (d - 1) * l.Strides[i]; span < 0 {
			lo += span
		} else {
			hi += span
		}
	}
	return size, lo, hi
}

// Axis resolves an axis that may count from the end.
func (l Layout) Axis(axis int) (int, error) {
	if axis < -len(l.Shape) || axis >= len(l.Shape) {
		return 0, fmt.Errorf("%w: shape %v has no axis %d", ErrLayout, l.Shape, axis)
	}
	if axis < 0 {
		axis += len(l.Shape)
	}
	return axis, nil
}
