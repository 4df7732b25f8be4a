package kompute

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"unsafe"

	"github.com/kompute-go/kompute-go/internal/array"
)

// Tensor is a typed view: shape, strides and an offset, in elements, over
// storage that other tensors may share. Only its content changes, through ops
// and Write.
//
// View operations return at once and copy nothing. An invalid one returns a
// tensor whose Err is not nil; an op on it poisons its stream with that error.
type Tensor[T Element] struct{ v View }

// As returns the view as a tensor. It is the same view: closing one closes the
// other. The error is ErrDType if T is not the view's element type.
func As[T Element](v *View) (*Tensor[T], error) {
	if v == nil {
		return nil, &OpError{Op: "as", Reason: "the view is nil", Err: ErrInvalid}
	}
	if err := v.Err(); err != nil {
		return nil, err
	}
	if want := array.DTypeOf[T](); v.dtype != want {
		return nil, v.refused("as", "the elements are not "+want.String(), ErrDType)
	}
	return (*Tensor[T])(unsafe.Pointer(v)), nil // a Tensor is a View and nothing else
}

// View returns the tensor as an untyped view, for op authors. It is never nil,
// and it is closed with the tensor.
func (t *Tensor[T]) View() *View {
	if t == nil {
		return &View{dtype: array.DTypeOf[T]()}
	}
	return &t.v
}

// Err returns why the tensor is unusable, or nil. A nil tensor is unusable too.
func (t *Tensor[T]) Err() error { return t.View().Err() }

// Device returns the tensor's device, or nil if Err is not nil.
func (t *Tensor[T]) Device() *Device { return t.View().Device() }

// Shape returns the lengths of the axes. The slice must not be changed.
func (t *Tensor[T]) Shape() []int { return t.View().layout.Shape }

// Strides returns the distance between neighbours along each axis, in elements.
// The slice must not be changed.
func (t *Tensor[T]) Strides() []int { return t.View().layout.Strides }

// Dim returns the length of an axis, which may count from the end; 0 if there
// is none.
func (t *Tensor[T]) Dim(axis int) int { return t.View().layout.Dim(axis) }

// Rank returns the number of axes.
func (t *Tensor[T]) Rank() int { return t.View().layout.Rank() }

// Size returns the number of elements; that of a failed tensor is 0.
func (t *Tensor[T]) Size() int {
	return t.View().Size()
}

// DType returns the element type.
func (t *Tensor[T]) DType() DType { return array.DTypeOf[T]() }

// Close closes the tensor. Its memory is freed with the last view of it, after
// the last op that uses it. Closing again does nothing.
func (t *Tensor[T]) Close() error { return t.View().Close() }

// String describes the tensor without its content.
func (t *Tensor[T]) String() string {
	if err := t.View().Err(); err != nil {
		return fmt.Sprintf("failed tensor: %v", err)
	}
	return fmt.Sprintf("%v%v", t.View().dtype, t.View().layout.Shape)
}

// viewTensor is a view and its layout in one allocation.
type viewTensor[T Element] struct {
	tensor  Tensor[T]
	lengths [2 * 4]int // shape and strides of up to four axes
}

// view makes a tensor from the result of a view operation.
func (t *Tensor[T]) view(op string, l array.Layout, err error) *Tensor[T] {
	return t.viewIn(new(Tensor[T]), op, l, err)
}

// viewIn is view into a new tensor, which it returns.
func (t *Tensor[T]) viewIn(out *Tensor[T], op string, l array.Layout, err error) *Tensor[T] {
	v := t.View()
	switch {
	case v.st == nil:
		out.v.err = v.Err()
	case err != nil:
		out.v.err = v.refused(op, err.Error(), ErrShape)
	default:
		if err := v.derive(&out.v, l); err != nil {
			out.v.err = v.refused(op, "", err)
		}
	}
	if out.v.err != nil {
		out.v.dtype = array.DTypeOf[T]()
	}
	return out
}

// Reshape views the same elements, in the same order, in another shape; one
// length may be -1. The error is ErrShape if the sizes differ, or if no strides
// can express the result, as after most transpositions: copy those first.
func (t *Tensor[T]) Reshape(shape ...int) *Tensor[T] {
	out := new(viewTensor[T])
	l, err := t.View().layout.ReshapeIn(out.lengths[:], shape)
	return t.viewIn(&out.tensor, "reshape", l, err)
}

// Transpose permutes the axes; without arguments it reverses them.
func (t *Tensor[T]) Transpose(axes ...int) *Tensor[T] {
	out := new(viewTensor[T])
	l, err := t.View().layout.TransposeIn(out.lengths[:], axes)
	return t.viewIn(&out.tensor, "transpose", l, err)
}

// Slice keeps the elements from start up to, but excluding, stop of one axis; 0
// <= start <= stop <= the axis' length.
func (t *Tensor[T]) Slice(axis, start, stop int) *Tensor[T] {
	return t.SliceStep(axis, start, stop, 1)
}

// SliceStep keeps every step-th element from start up to, but excluding, stop
// of one axis. The limits are those of Slice, and step >= 1: no view is reversed.
func (t *Tensor[T]) SliceStep(axis, start, stop, step int) *Tensor[T] {
	l, err := t.View().layout.Slice(axis, start, stop, step)
	return t.view("slice", l, err)
}

// Broadcast repeats axes of length 1, and adds leading axes, to match shape.
func (t *Tensor[T]) Broadcast(shape ...int) *Tensor[T] {
	l, err := t.View().layout.Broadcast(shape...)
	return t.view("broadcast", l, err)
}

// ExpandDims inserts an axis of length 1 before axis; a negative one counts
// from the end of the result.
func (t *Tensor[T]) ExpandDims(axis int) *Tensor[T] {
	l, err := t.View().layout.ExpandDims(axis)
	return t.view("expand_dims", l, err)
}

// Squeeze drops an axis of length 1.
func (t *Tensor[T]) Squeeze(axis int) *Tensor[T] {
	l, err := t.View().layout.Squeeze(axis)
	return t.view("squeeze", l, err)
}

// Read waits for the op that writes the tensor last and returns the elements in
// row-major order. The error is that of the stream that made them, ErrClosed,
// ErrTooLarge for a broadcast view larger than the memory, or the context's, after
// which the work continues.
func (t *Tensor[T]) Read(ctx context.Context) ([]T, error) {
	dst, err := forElements[T](t.View())
	if err != nil {
		return nil, err
	}
	if err := t.ReadInto(ctx, dst); err != nil {
		return nil, err
	}
	return dst, nil
}

// forElements makes memory for the view's elements. A broadcast view may have more than
// this machine can hold, which Go would answer by ending the process.
func forElements[T Element](v *View) ([]T, error) {
	if v.st == nil {
		return nil, v.Err()
	}
	if size := sizeOf[T](); v.size > v.st.bytes/size {
		most, _ := hostMemorySize()
		if most <= 0 || most > math.MaxInt { // unknown, or more than this process can have
			most = math.MaxInt
		}
		if int64(v.size) > most/int64(size) {
			return nil, v.refused("read", "more elements than the memory can hold", ErrTooLarge)
		}
	}
	return make([]T, v.size), nil
}

// ReadInto is Read into the caller's memory. The error is ErrShape if dst does
// not have the tensor's size.
func (t *Tensor[T]) ReadInto(ctx context.Context, dst []T) error {
	if err := t.Err(); err != nil {
		return err
	}
	l := t.v.layout
	if len(dst) != l.Size() {
		return t.v.refused("read", fmt.Sprintf("into %d elements", len(dst)), ErrShape)
	}
	size := sizeOf[T]()
	lo, hi := t.v.extentBytes()
	return t.v.onHost(ctx, "read", func() error {
		return t.v.st.dev.backend.read(ctx, t.v.st, lo, hi, func(mem []byte, base int) {
			l.Offset -= base / size
			gather(dst, array.Storage[T](array.Array{Data: mem}), l)
		})
	})
}

// Write copies data, in row-major order, through the view. It waits for ops
// that still need the content that it overwrites; where only a GPU has the
// content, a part of more than 64 MB also waits for the upload of its first
// pieces, whatever ctx says. The error is ErrShape if data
// does not have the tensor's size or an axis is broadcast, ErrInvalid for
// wrapped memory, which is read-only.
func (t *Tensor[T]) Write(ctx context.Context, data []T) error {
	if err := t.Err(); err != nil {
		return err
	}
	l := t.v.layout
	if len(data) != l.Size() || overlaps(l) {
		return t.v.refused("write", fmt.Sprintf("%d elements into strides %v", len(data), l.Strides), ErrShape)
	}
	return t.v.onHost(ctx, "write", func() error { return t.v.st.dev.backend.write(ctx, &t.v, array.Bytes(data)) })
}

// onHost calls f, which reads or writes the view's elements on the host, while
// the storage is in use.
func (v *View) onHost(ctx context.Context, what string, f func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	d := v.st.dev
	d.mu.Lock()
	err := v.hostUse(what)
	d.mu.Unlock()
	if err != nil {
		return err
	}
	defer func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		v.st.leave()
	}()
	return f()
}

// hostUse returns why the host cannot read or write the view's elements, or nil
// after marking the storage as in use. dev.mu is held.
func (v *View) hostUse(what string) error {
	err := cmp.Or(v.usable(), v.inside())
	if err == nil && what == "write" && v.st.readOnly {
		err = fmt.Errorf("wrapped memory is read-only: %w", ErrInvalid)
	}
	if err != nil {
		return v.refused(what, "", err)
	}
	if whole := what == "write" && array.Covers(v.layout, v.st.bytes/v.dtype.Size()); !whole {
		if err := v.st.contentErr(); err != nil {
			return err
		}
	}
	return v.st.use(what)
}
