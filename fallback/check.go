package fallback

import (
	"errors"
	"fmt"
	"slices"

	"github.com/kompute-go/kompute-go/internal/array"
)

// ErrInvalid is wrapped by the errors of ops whose operands do not fit.
var ErrInvalid = errors.New("invalid operands")

// checker collects the first complaint about the operands of an op.
type checker struct {
	op  string
	err error
}

// fail keeps the first complaint.
func (c *checker) fail(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf("%s: %w: %s", c.op, ErrInvalid, fmt.Sprintf(format, args...))
	}
}

// array checks that a is a sound operand: a known type, and a layout inside its
// storage.
func (c *checker) array(name string, a *array.Array) {
	if c.err != nil {
		return
	}
	size := a.DType.Size()
	switch {
	case !a.Present():
		c.fail("%s is absent", name)
		return
	case size == 0:
		c.fail("%s has the unknown type %v", name, a.DType)
		return
	}
	if err := a.Layout.Check(); err != nil {
		c.fail("%s: %v", name, err)
		return
	}
	for i, s := range a.Strides {
		if s < 0 && a.Shape[i] > 1 {
			c.fail("%s of shape %v has a negative stride: %v", name, a.Shape, a.Strides)
			return
		}
	}
	if lo, hi := a.Extent(); hi > lo && (lo < 0 || hi > len(a.Data)/size) {
		c.fail("%s reaches elements %d to %d of %d", name, lo, hi, len(a.Data)/size)
	}
}

// float checks a sound operand of a floating-point type.
func (c *checker) float(name string, a *array.Array) {
	c.array(name, a)
	if c.err == nil && !a.DType.IsFloat() {
		c.fail("%s has type %v, not a float", name, a.DType)
	}
}

// index checks a sound operand of type int32 or uint32.
func (c *checker) index(name string, a *array.Array) {
	c.array(name, a)
	if c.err == nil && a.DType != array.Int32 && a.DType != array.Uint32 {
		c.fail("%s has type %v, not int32 or uint32", name, a.DType)
	}
}

// dtype checks a's type.
func (c *checker) dtype(name string, a *array.Array, want array.DType) {
	if c.err == nil && a.DType != want {
		c.fail("%s has type %v, not %v", name, a.DType, want)
	}
}

// rank checks a's number of axes.
func (c *checker) rank(name string, a *array.Array, want int) {
	if c.err == nil && len(a.Shape) != want {
		c.fail("%s has shape %v, not %d axes", name, a.Shape, want)
	}
}

// shape checks a's shape.
func (c *checker) shape(name string, a *array.Array, want []int) {
	if c.err == nil && !slices.Equal(a.Shape, want) {
		c.fail("%s has shape %v, not %v", name, a.Shape, want)
	}
}

// lastAxis checks that a has an axis.
func (c *checker) lastAxis(name string, a *array.Array) {
	if c.err == nil && len(a.Shape) == 0 {
		c.fail("%s has no axes", name)
	}
}
