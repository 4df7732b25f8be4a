package ops

import (
	"fmt"
	"slices"
	"sync"
	"unsafe"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/opdef"
	"github.com/kompute-go/kompute-go/kompute"
)

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

// named sets the call's name in errors, also in that of a nil stream.
func (c *call) named(label string) {
	c.label = label
	if e, ok := c.err.(*kompute.OpError); ok {
		e.Op = label
	}
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

// at returns an operand's array.
func at(arrays []array.Array, o opdef.Operand) array.Array { return arrays[o.Index] }

// unmade returns why one of an op's results could not be allocated, or nil. Then it
// closes the others: nothing will write them, and their error would be nil.
func unmade(results ...kompute.AnyTensor) error {
	for _, r := range results {
		if err := r.View().Err(); err != nil {
			for _, other := range results {
				_ = other.View().Close()
			}
			return err
		}
	}
	return nil
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
	out := kompute.OutputOf[T](c.stream, c.label, shape...)
	if out.Err() != nil || out.Size() == 0 {
		return out
	}
	view := out.View()
	if !slices.Equal(shape, seen) {
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
