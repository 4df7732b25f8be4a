package kompute

import (
	"fmt"
	"sync/atomic"

	"github.com/kompute-go/kompute-go/internal/array"
)

// View is an untyped view of storage, as ops take it as an operand. Shape,
// strides and offset never change. As converts it to a Tensor.
type View struct {
	st     *storage
	layout Layout
	size   int   // of layout
	lo, hi int   // its extent
	err    error // why the view is unusable

	closed   atomic.Bool // set with the device's mu held
	gen      uint32      // see storage.gen; guarded by the device's mu, as borrowed
	borrowed bool        // does not keep the storage open
	dtype    DType
}

// errZeroView is the error of a tensor or view that this package did not make.
var errZeroView = fmt.Errorf("a tensor without storage: %w", ErrInvalid)

// DType returns the element type.
func (v *View) DType() DType { return v.made().dtype }

// Layout returns shape, strides and offset in elements. Its slices must not be
// changed.
func (v *View) Layout() Layout { return v.made().layout }

// Size returns the number of elements.
func (v *View) Size() int { return v.made().size }

// Extent returns the half-open range of the storage's elements that the view's
// span; both ends are its offset if it has none.
func (v *View) Extent() (lo, hi int) {
	v = v.made()
	return v.lo, v.hi
}

// place makes v a view of st.
func (v *View) place(st *storage, dtype DType, l Layout) {
	v.st, v.dtype, v.layout = st, dtype, l
	v.size, v.lo, v.hi = l.Measure()
}

// Device returns the device of the storage, or nil if Err is not nil.
func (v *View) Device() *Device {
	if v == nil || v.st == nil {
		return nil
	}
	return v.st.dev
}

// Err returns why the view is unusable: the error of the view operation, or of
// the op, that should have made it.
func (v *View) Err() error {
	if v = v.made(); v.err == nil && v.st == nil {
		return errZeroView
	}
	return v.err
}

// Closed reports whether the view, its storage or its device was closed.
func (v *View) Closed() bool {
	if v == nil || v.st == nil {
		return false
	}
	return v.closed.Load() || v.st.closed.Load() || v.st.dev.closed.Load()
}

// ReadOnly reports whether ops and Write cannot change the elements: the storage is memory
// passed to Wrap.
func (v *View) ReadOnly() bool { return v != nil && v.st != nil && v.st.readOnly }

// usable returns ErrClosed if the view is closed. dev.mu is held.
func (v *View) usable() error {
	if v.closed.Load() {
		return fmt.Errorf("the tensor is %w", ErrClosed)
	}
	return v.st.usable()
}

// Close closes the view. The storage is freed with its last view, after the
// last op that uses it. Closing again does nothing.
func (v *View) Close() error {
	if v == nil || v.st == nil {
		return nil
	}
	d := v.st.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	if !v.closed.Swap(true) {
		if !v.borrowed {
			v.st.drop(v.gen)
		}
	}
	return nil
}

// WithLayout returns the storage in another layout, for the operands of an op.
// It is borrowed: it does not keep the storage open and needs no Close. Its Err is
// ErrShape if l is not a valid layout, or has a negative stride along an axis longer than
// 1, which not every device supports. A valid one that exceeds the storage is rejected
// with ErrInvalid by whatever reads or writes its elements.
func (v *View) WithLayout(l Layout) *View {
	v = v.made()
	out := &View{dtype: v.dtype, err: v.err, borrowed: true}
	if err := checkForOps(l); err != nil {
		out.err = &OpError{Op: "layout", Shapes: [][]int{l.Shape}, DTypes: []DType{v.dtype}, Reason: err.Error(), Err: ErrShape}
		return out
	}
	out.place(v.st, v.dtype, l)
	return out
}

// checkForOps returns why l is no layout of an operand.
func checkForOps(l Layout) error {
	if err := l.Check(); err != nil {
		return err
	}
	for i, d := range l.Shape {
		if d > 1 && l.Strides[i] < 0 {
			return fmt.Errorf("a negative stride in %v", l.Strides)
		}
	}
	return nil
}

// inside returns ErrInvalid if the view's elements exceed its storage, as those of WithLayout may.
func (v *View) inside() error {
	if v.lo < 0 || v.hi > v.st.bytes/v.dtype.Size() && v.hi > v.lo {
		return fmt.Errorf("elements %d to %d of a storage of %d bytes: %w", v.lo, v.hi, v.st.bytes, ErrInvalid)
	}
	return nil
}

// writtenByHost records that the host wrote the view's elements. If they are only a part
// of the content, the error of the rest stays. The error of work that came after the given
// st.origin(), taken before the write, stays as well: that work may follow the write.
func (v *View) writtenByHost(origin uint64) {
	st := v.st
	st.dev.mu.Lock()
	defer st.dev.mu.Unlock()
	st.filled = true
	if (st.source != nil || st.err != nil) && st.origins == origin && array.Covers(v.layout, st.bytes/v.dtype.Size()) {
		st.source, st.err = nil, nil
		st.changed()
	}
}

// SameStorage reports whether both are views of one storage, and so may share
// elements.
func (v *View) SameStorage(other *View) bool {
	return v != nil && other != nil && v.st != nil && v.st == other.st
}

// extentBytes returns the range of bytes in the storage that the view's
// elements span.
func (v *View) extentBytes() (lo, hi int) {
	return v.lo * v.dtype.Size(), v.hi * v.dtype.Size()
}

// refused returns the error of an operation on the view.
func (v *View) refused(op, reason string, err error) error {
	return &OpError{Op: op, Shapes: [][]int{v.layout.Shape}, DTypes: []DType{v.dtype}, Reason: reason, Err: err}
}

// derive sets dst to a view that keeps v's storage open.
func (v *View) derive(dst *View, l Layout) error {
	d := v.st.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := v.usable(); err != nil {
		return err
	}
	v.st.refs++
	dst.place(v.st, v.dtype, l)
	dst.gen = v.st.gen
	return nil
}
