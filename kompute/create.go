package kompute

import (
	"fmt"
	"math"
	"slices"

	"github.com/kompute-go/kompute-go/internal/array"
)

// New makes a tensor with a copy of data, in row-major order. Without a shape
// the tensor has one axis, or none if data is one element and shape is given as
// an empty slice. Errors are ErrShape, ErrTooLarge, ErrOutOfMemory, ErrClosed
// and, for a nil device, ErrInvalid.
func New[T Element](d *Device, data []T, shape ...int) (*Tensor[T], error) {
	if shape == nil {
		shape = []int{len(data)}
	}
	t, err := create[T](d, "new", shape)
	if err != nil {
		return nil, err
	}
	if err := t.fill("new", data); err != nil {
		_ = t.Close()
		return nil, err
	}
	t.v.st.addNet()
	return t, nil
}

// fill gives fresh storage its content.
func (t *Tensor[T]) fill(op string, data []T) error {
	if len(data) != t.Size() {
		return t.v.refused(op, fmt.Sprintf("%d elements given", len(data)), ErrShape)
	}
	return t.v.fill(op, array.Bytes(data))
}

// fill sets the first content of new storage; nil means zeros.
func (v *View) fill(op string, data []byte) error {
	d := v.st.dev
	if err := d.using(func() error { return d.backend.fill(v.st, data) }); err != nil {
		return v.refused(op, "", err)
	}
	v.st.filled = true // no one else can use it yet
	return nil
}

// Empty makes a tensor with undefined content. Errors are as for New.
func Empty[T Element](d *Device, shape ...int) (*Tensor[T], error) {
	t, err := create[T](d, "empty", shape)
	if err != nil {
		return nil, err
	}
	t.v.st.addNet()
	return t, nil
}

// Zeros makes a tensor of zeros. Errors are as for New.
func Zeros[T Element](d *Device, shape ...int) (*Tensor[T], error) {
	t, err := create[T](d, "zeros", shape)
	if err != nil {
		return nil, err
	}
	if err := t.v.fill("zeros", nil); err != nil {
		_ = t.Close()
		return nil, err
	}
	t.v.st.addNet()
	return t, nil
}

// Wrap makes a view of the caller's memory, such as mapped weights, without copying it.
// data must hold exactly the elements of shape. It must neither change nor be unmapped
// until the view and all views of it are closed, work on them that was enqueued before is
// done, and regions that use them are closed. owner is kept alive while one of them is open
// or still needs data. The view is read-only for Write and for ops. The CPU backend copies data whose address is not a
// multiple of 4. Errors are as for New, ErrDType, and ErrInvalid for bytes of DTypeBool
// other than 0 and 1, for which all of data is read now. If data is a mapped file that
// shrinks, work and reads that need it fail with ErrFault, and so does a Wrap that has to
// copy or to read it.
func Wrap(d *Device, dtype DType, data []byte, owner any, shape ...int) (*View, error) {
	if dtype.Size() == 0 {
		return nil, &OpError{Op: "wrap", Shapes: [][]int{shape}, DTypes: []DType{dtype}, Reason: "no element type", Err: ErrDType}
	}
	v := new(View)
	err := makeView(v, d, "wrap", dtype, shape, func(st *storage) error {
		if len(data) != st.bytes {
			return fmt.Errorf("%d bytes given, %d needed: %w", len(data), st.bytes, ErrShape)
		}
		if dtype == DTypeBool {
			if err := checkBools(data); err != nil {
				return err
			}
		}
		st.shared, st.readOnly, st.filled = &sharedMemory{owner: owner}, true, true
		return d.backend.wrap(st, data)
	})
	if err != nil {
		return nil, err
	}
	v.st.addNet()
	return v, nil
}

// checkBools returns ErrInvalid if a byte is neither 0 nor 1: kernels, and Go, rely on
// that.
func checkBools(data []byte) error {
	bad := byte(0)
	err := touching(func() {
		if i := slices.IndexFunc(data, func(b byte) bool { return b > 1 }); i >= 0 {
			bad = data[i]
		}
	})
	if err == nil && bad != 0 {
		err = fmt.Errorf("a byte is %d, and a bool is 0 or 1: %w", bad, ErrInvalid)
	}
	return err
}

// create makes a tensor with contiguous storage of its own; the caller calls
// addNet.
func create[T Element](d *Device, op string, shape []int) (*Tensor[T], error) {
	t := new(Tensor[T])
	if err := makeView(&t.v, d, op, array.DTypeOf[T](), shape, nil); err != nil {
		return nil, err
	}
	return t, nil
}

// makeView sets v to a contiguous view of new storage. give adds its memory; if it is nil, the
// backend does when it is first needed.
func makeView(v *View, d *Device, op string, dtype DType, shape []int, give func(*storage) error) error {
	fail := func(reason string, err error) error {
		return &OpError{Op: op, Shapes: [][]int{slices.Clone(shape)}, DTypes: []DType{dtype}, Reason: reason, Err: err}
	}
	if d.made() == noDevice {
		return fail("", errNilDevice)
	}
	l, err := array.Contiguous(shape...)
	if err != nil {
		return fail(err.Error(), ErrShape)
	}
	n := l.Size()
	if n > math.MaxInt/dtype.Size() {
		return fail("more bytes than can be counted", ErrTooLarge)
	}
	st, err := d.newStorage(n*dtype.Size(), give)
	if err != nil {
		return fail("", err)
	}
	v.place(st, dtype, l)
	return nil
}

// Output makes a tensor with undefined content for the result of an op on s. It
// belongs to the innermost open scope of s. A failure poisons s, and the
// tensor's Err returns it.
func Output[T Element](s *Stream, shape ...int) *Tensor[T] {
	return OutputOf[T](s, "output", shape...)
}

// OutputOf is Output for the op of that name, which errors then name.
func OutputOf[T Element](s *Stream, op string, shape ...int) *Tensor[T] {
	if s = s.made(); s == noStream {
		return Failed[T](nil, errNilStream)
	}
	o := newOutput[T](s.dev)
	if s.makeOutput(&o.tensor.v, &o.storage, o.lengths[:], array.DTypeOf[T](), shape) {
		return &o.tensor
	}
	t, err := create[T](s.dev, op, shape)
	if err != nil {
		return Failed[T](s, err)
	}
	s.own(t.v.st)
	return t
}

// output is a tensor and all its parts in one allocation: a decode step makes
// hundreds.
type output[T Element] struct {
	tensor  Tensor[T]
	storage storage
	lengths [2 * 4]int // shape and strides of up to four axes
}

// outputOnCPU is output and what the CPU backend needs for it.
type outputOnCPU[T Element] struct {
	output  output[T]
	content cpuContent
}

func newOutput[T Element](d *Device) *output[T] {
	if !d.onCPU() {
		return new(output[T])
	}
	o := new(outputOnCPU[T])
	o.output.storage.cpu = &o.content
	return &o.output
}

// makeOutput sets v to a contiguous view of st, and makes st storage of the
// innermost open scope. It returns false, having done nothing, in less simple cases:
// without a scope, or on an error, which create then reports.
func (s *Stream) makeOutput(v *View, st *storage, lengths []int, dtype DType, shape []int) bool {
	d := s.dev
	l, err := array.ContiguousIn(lengths, shape)
	if err != nil {
		return false
	}
	v.place(st, dtype, l)
	if v.size > math.MaxInt/4 { // elements have at most 4 bytes
		return false
	}
	bytes := v.size * dtype.Size()
	if limit := d.info.MaxTensorBytes; limit > 0 && int64(bytes) > limit {
		return false
	}
	st.dev, st.bytes, st.refs, st.res = d, bytes, 1, &st.resource
	st.resource.dev, st.resource.bytes = d, bytes
	d.mu.Lock()
	fits := s.scope != nil && d.admitBytes(int64(bytes)) == nil
	if fits {
		d.link(st.res)
		st.scope = s.scope
		s.scope.owned = append(s.scope.owned, st)
	}
	d.mu.Unlock()
	return fits
}

// Constant makes a tensor with a copy of data, as New does; it belongs to the
// innermost open scope of s, and without a shape it has rank 0. A failure
// poisons s.
func Constant[T Element](s *Stream, data []T, shape ...int) *Tensor[T] {
	if s = s.made(); s == noStream {
		return Failed[T](nil, errNilStream)
	}
	t, err := create[T](s.dev, "constant", shape)
	if err != nil {
		return Failed[T](s, err)
	}
	if err := t.fill("constant", data); err != nil {
		_ = t.Close()
		return Failed[T](s, err)
	}
	s.own(t.v.st)
	return t
}

// Failed poisons s with err and returns a tensor of rank 0 whose Err is err.
// Ops return it when they reject their operands. s may be nil.
func Failed[T Element](s *Stream, err error) *Tensor[T] {
	if err == nil {
		err = fmt.Errorf("failed without a reason: %w", ErrInvalid)
	}
	if s != nil {
		s.Fail(err)
	}
	return &Tensor[T]{v: View{dtype: array.DTypeOf[T](), err: err}}
}
