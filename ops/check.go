package ops

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"unsafe"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/opdef"
	"github.com/kompute-go/kompute-go/kompute"
)

// maxElements is the most elements that kernels can index in 32 bits and an int
// can count.
const maxElements = min(math.MaxUint32, math.MaxInt)

// maxBytes is the size limit of a tensor: that of a storage buffer.
const maxBytes = 1 << 32

// bytesOf returns the bytes of a countable shape.
func bytesOf(shape []int, size int) uint64 {
	n := uint64(size)
	for _, d := range shape {
		n *= uint64(d)
	}
	return n
}

// call is an op call being checked. The first error is kept; errors of later checks
// are ignored.
type call struct {
	op     opdef.Op
	label  string // its name in errors
	stream *kompute.Stream
	args   []kompute.Arg // in the order of op's operands
	rows   int           // of a product
	err    error

	memory  [12]kompute.Arg       // of args, if they fit
	params  [32]uint32            // of the op's parameters, if they fit
	lengths [2][array.MaxRank]int // of shapes; see shapeLike
}

// calls are spare ones: a model's step makes hundreds.
var calls = sync.Pool{New: func() any { return new(call) }}

// newCall begins a call. It ends when it is enqueued: the memory then serves other calls.
func newCall(s *kompute.Stream, op opdef.Op) *call {
	c := calls.Get().(*call)
	c.op, c.label, c.stream, c.rows, c.err = op, op.Name, s, 0, nil
	c.makeArgs(len(op.Operands))
	if s == nil {
		c.fail(kompute.ErrInvalid, "the stream is nil")
	}
	return c
}

// makeArgs makes room for n operands, all absent.
func (c *call) makeArgs(n int) {
	if n <= len(c.memory) {
		c.args = c.memory[:n]
	} else {
		c.args = make([]kompute.Arg, n)
	}
}

// cpuFunc is an op on the CPU, as of kompute.Op.
type cpuFunc = func(args []array.Array, params []byte) error

// onCPU makes an op on the CPU of a function that takes its parameters. Being made once, not in each call, it
// costs a call nothing.
func onCPU[P any](run func(a []array.Array, p *P) error) cpuFunc {
	return func(a []array.Array, params []byte) error {
		return run(a, (*P)(unsafe.Pointer(unsafe.SliceData(params))))
	}
}

// enqueue ends the call. p is its parameters.
func enqueue[P any](c *call, p *P, cpu cpuFunc) {
	var params []byte
	if memory := array.Bytes(c.params[:]); unsafe.Sizeof(*p) <= uintptr(len(memory)) {
		params = memory[:copy(memory, unsafe.Slice((*byte)(unsafe.Pointer(p)), unsafe.Sizeof(*p)))]
	} else {
		params = kompute.ParamBytes(p)
	}
	c.stream.Enqueue(kompute.Op{Name: c.op.Name, Args: c.args, Params: params, CPU: cpu, Rows: c.rows})
	clear(c.args)
	c.args, c.stream = nil, nil
	calls.Put(c)
}

// shapeLike returns a copy of a shape that lives as long as the call; which: 0 or 1, the memory to use.
func (c *call) shapeLike(which int, shape []int) []int {
	return append(c.lengths[which][:0], shape...)
}

// fail records why the call is rejected.
func (c *call) fail(sentinel error, format string, args ...any) {
	if c.err != nil {
		return
	}
	e := &kompute.OpError{Op: c.label, Reason: fmt.Sprintf(format, args...), Err: sentinel}
	for _, a := range c.args {
		if a.View != nil {
			e.Shapes = append(e.Shapes, a.View.Layout().Shape)
			e.DTypes = append(e.DTypes, a.View.DType())
		}
	}
	c.err = e
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
		c.fail(kompute.ErrDevice, "%s is on %s, the stream on %s", name, v.Device().Info().Name, c.stream.Device().Info().Name)
	case v.Closed():
		c.fail(kompute.ErrClosed, "%s was closed", name)
	}
	l := v.Layout()
	if _, hi := v.Extent(); uint64(hi) > maxElements || uint64(v.Size()) > maxElements {
		c.fail(kompute.ErrTooLarge, "%s has elements past %d", name, uint32(maxElements))
	}
	return l
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

// at returns an operand's array.
func at(arrays []array.Array, o opdef.Operand) array.Array { return arrays[o.Index] }

// countable reports whether a shape has at most maxElements elements.
func countable(shape []int) bool {
	n := uint64(1)
	for _, d := range shape {
		if d == 0 {
			return true
		}
	}
	for _, d := range shape {
		if n *= uint64(d); n > maxElements {
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
		if equal(shape, other) {
			continue
		}
		if shape, err = array.BroadcastShapes(shape, other); err != nil {
			c.fail(kompute.ErrShape, "the shapes do not broadcast")
			return nil
		}
	}
	if !countable(shape) {
		c.fail(kompute.ErrTooLarge, "the common shape %v has more than %d elements", shape, uint32(maxElements))
		return nil
	}
	for _, o := range operands {
		c.stretch(o, shape)
	}
	return shape
}

// stretch replaces an operand by its view of the given shape.
func (c *call) stretch(o opdef.Operand, shape []int) {
	i := o.Index
	if c.err != nil || equal(c.args[i].View.Layout().Shape, shape) {
		return
	}
	l, err := c.args[i].View.Layout().Broadcast(shape...)
	if err != nil {
		c.fail(kompute.ErrShape, "shape %v does not broadcast to %v", c.args[i].View.Layout().Shape, shape)
		return
	}
	c.relayout(o, l)
}

// relayout replaces an operand by another view of the same storage.
func (c *call) relayout(o opdef.Operand, l array.Layout) {
	c.args[o.Index].View = c.args[o.Index].View.WithLayout(l)
}

func equal(a, b []int) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// result completes an op: it allocates the output, the last array, and enqueues
// the op, or poisons the stream if a check failed.
func result[T kompute.Element, P any](c *call, shape []int, params P, cpu cpuFunc) *kompute.Tensor[T] {
	return resultAs[T](c, shape, shape, params, cpu)
}

// resultAs is result for an op that uses its output in another shape of the
// same size.
func resultAs[T kompute.Element, P any](c *call, shape, seen []int, params P, cpu cpuFunc) *kompute.Tensor[T] {
	if c.err == nil && len(shape) > array.MaxRank {
		c.fail(kompute.ErrShape, "the result would have rank %d, more than %d", len(shape), array.MaxRank)
	}
	if c.err == nil && !countable(shape) {
		c.fail(kompute.ErrTooLarge, "the result of shape %v has more than %d elements", shape, uint32(maxElements))
	}
	if size := array.DTypeOf[T]().Size(); c.err == nil && bytesOf(shape, size) > maxBytes {
		c.fail(kompute.ErrTooLarge, "the result of shape %v has more than %d bytes", shape, uint64(maxBytes))
	}
	if c.err != nil {
		return kompute.Failed[T](c.stream, c.err)
	}
	out := kompute.Output[T](c.stream, shape...)
	if out.Err() != nil || out.Size() == 0 {
		return out
	}
	view := out.View()
	if !equal(shape, seen) {
		l, err := view.Layout().Reshape(seen...)
		if err != nil { // a contiguous layout has every shape of its size
			c.fail(kompute.ErrShape, "%v", err)
			return kompute.Failed[T](c.stream, c.err)
		}
		view = view.WithLayout(l)
	}
	c.args[len(c.args)-1] = kompute.Out(view)
	enqueue(c, &params, cpu)
	return out
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
	if c.err == nil && !equal(l.Shape, want) {
		// A copy, so that the caller's stays on its stack.
		c.fail(kompute.ErrShape, "%s has shape %v, not %v", name, l.Shape, slices.Clone(want))
	}
}

func toUint32(b bool) uint32 {
	if b {
		return 1
	}
	return 0
}
