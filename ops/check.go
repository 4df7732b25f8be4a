package ops

import (
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/opdef"
	"github.com/kompute-go/kompute-go/kompute"
)

// maxElements is the most elements that kernels can index in 32 bits and an int
// can count.
const maxElements = min(math.MaxUint32, math.MaxInt)

// maxBytes is the size limit of a tensor: that of a storage buffer.
const maxBytes = 1 << 32

// bytesOf returns the bytes of a shape that is countable, or 0 if it has no elements:
// then the other lengths may have any product.
func bytesOf(shape []int, size int) uint64 {
	if slices.Contains(shape, 0) {
		return 0
	}
	n := uint64(size)
	for _, d := range shape {
		n *= uint64(d)
	}
	return n
}

// input checks and sets an operand, and returns its layout, or the zero Layout
// if it is rejected.
func input[T kompute.Element](c *call, o opdef.Operand, t *kompute.Tensor[T]) array.Layout {
	name := o.Name
	if t == nil {
		c.fail(kompute.ErrInvalid, "%s is nil", name)
		return array.Layout{}
	}
	if err := t.Err(); err != nil {
		if c.err == nil {
			c.err = err // it already names the op and the reason
		}
		return array.Layout{}
	}
	v := t.View()
	c.args[o.Index] = argOf(o, v)
	switch {
	case c.stream == nil:
	case v.Device() != c.stream.Device():
		c.fail(kompute.ErrDevice, "%s", twoDevices(name, v.Device(), c.stream.Device()))
	case v.Closed():
		c.fail(kompute.ErrClosed, "%s was closed", name)
	case o.Access != opdef.Read && v.ReadOnly():
		c.fail(kompute.ErrInvalid, "%s is wrapped memory, which is read-only", name)
	}
	l := v.Layout()
	if _, hi := v.Extent(); uint64(hi) > maxElements || uint64(v.Size()) > maxElements {
		c.fail(kompute.ErrTooLarge, "%s has elements past %d", name, uint32(maxElements))
	}
	return l
}

// twoDevices says that an operand and the stream are not on one device, also where the same device was opened twice.
func twoDevices(name string, operand, stream *kompute.Device) string {
	a, b := operand.Info(), stream.Info()
	if a.Backend == b.Backend && a.Index == b.Index {
		return fmt.Sprintf("%s and the stream are on %s, which was opened twice", name, a.Name)
	}
	return fmt.Sprintf("%s is on %s, the stream on %s", name, a.Name, b.Name)
}

// argOf returns a view as an operand.
func argOf(o opdef.Operand, v *kompute.View) kompute.Arg {
	switch o.Access {
	case opdef.Write:
		return kompute.Out(v)
	case opdef.Update:
		return kompute.InOut(v)
	default:
		return kompute.In(v)
	}
}

// optional is input for an operand that may be nil; present reports whether it is
// given.
func optional[T kompute.Element](c *call, o opdef.Operand, t *kompute.Tensor[T]) (l array.Layout, present bool) {
	if t == nil {
		return array.Layout{}, false
	}
	return input(c, o, t), true
}

// optionalRow is optional for an operand of one axis, which has that many elements.
func optionalRow[T kompute.Element](c *call, o opdef.Operand, t *kompute.Tensor[T], n int) {
	if l, present := optional(c, o, t); present {
		c.shape(o.Name, l, n)
	}
}

// countable reports whether a shape has at most maxElements elements.
func countable(shape []int) bool {
	if slices.Contains(shape, 0) {
		return true
	}
	n := uint64(1)
	for _, d := range shape {
		var high uint64
		if high, n = bits.Mul64(n, uint64(d)); high != 0 || n > maxElements {
			return false
		}
	}
	return true
}

// broadcast stretches the operands to one shape, and returns it.
func (c *call) broadcast(operands ...opdef.Operand) []int {
	if c.err != nil {
		return nil
	}
	shape := c.args[operands[0].Index].View.Layout().Shape
	for _, o := range operands[1:] {
		other, err := c.args[o.Index].View.Layout().Shape, error(nil)
		if slices.Equal(shape, other) {
			continue
		}
		if shape, err = array.BroadcastShapes(shape, other); err != nil {
			c.fail(kompute.ErrShape, "the shapes do not broadcast")
			return nil
		}
	}
	for _, o := range operands {
		c.stretch(o, shape)
	}
	return shape
}

// stretch replaces an operand by its view of the given shape.
func (c *call) stretch(o opdef.Operand, shape []int) {
	i := o.Index
	if c.err != nil || slices.Equal(c.args[i].View.Layout().Shape, shape) {
		return
	}
	l, err := c.args[i].View.Layout().Broadcast(shape...)
	switch {
	case err != nil && !countable(shape):
		c.fail(kompute.ErrTooLarge, "the shape %v has more than %d elements", shape, uint32(maxElements))
		return
	case err != nil:
		c.fail(kompute.ErrShape, "shape %v does not broadcast to %v", c.args[i].View.Layout().Shape, shape)
		return
	}
	c.relayout(o, l)
}

// relayout replaces an operand by another view of the same storage.
func (c *call) relayout(o opdef.Operand, l array.Layout) {
	c.args[o.Index].View = c.args[o.Index].View.WithLayout(l)
}

// sum adds up lengths along an axis.
func (c *call) sum(lengths ...int) (sum int) {
	for _, n := range lengths {
		if sum += n; sum < 0 { // it has overflowed
			c.fail(kompute.ErrTooLarge, "lengths %v along an axis", slices.Clone(lengths))
			return 0
		}
	}
	return sum
}

// axis resolves an axis of an operand, which may count from the end.
func (c *call) axis(l array.Layout, axis int) int {
	if c.err != nil {
		return 0
	}
	axis, err := l.Axis(axis)
	if err != nil {
		c.fail(kompute.ErrShape, "%v", err)
	}
	return axis
}

// lastAxis returns the length of the last axis, which must exist.
func (c *call) lastAxis(name string, l array.Layout) int {
	if c.err == nil && l.Rank() == 0 {
		c.fail(kompute.ErrShape, "%s has rank 0; its last axis is needed", name)
	}
	return l.Dim(-1)
}

// rank requires an exact rank.
func (c *call) rank(name string, l array.Layout, rank int) bool {
	if c.err == nil && l.Rank() != rank {
		c.fail(kompute.ErrShape, "%s has rank %d, not %d", name, l.Rank(), rank)
	}
	return c.err == nil
}

// shape requires an exact shape.
func (c *call) shape(name string, l array.Layout, want ...int) {
	if c.err == nil && !slices.Equal(l.Shape, want) {
		// A copy, so that the caller's stays on its stack.
		c.fail(kompute.ErrShape, "%s has shape %v, not %v", name, l.Shape, slices.Clone(want))
	}
}

// eps checks what a norm adds to a mean square.
func (c *call) eps(eps float32) {
	if !(eps >= 0) || !finite(float64(eps)) {
		c.fail(kompute.ErrInvalid, "eps is %v", eps)
	}
}

func toUint32(b bool) uint32 {
	if b {
		return 1
	}
	return 0
}
