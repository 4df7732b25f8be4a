package kompute

import (
	"fmt"
	"unsafe"

	"github.com/kompute-go/kompute-go/internal/array"
)

// Mapped is a tensor in memory that the device and the host both see. It is an
// operand like any other. In addition, Peek reads it without any work on the
// device: for a few values that a region writes each time, of which the host
// wants those of one replay while the next ones run.
//
// The memory may be slow for the device, so that large tensors do not belong
// there. Read and Write wait for all work that uses the tensor.
type Mapped[T Element] struct{ *Tensor[T] }

// NewMapped makes a mapped tensor of zeros. Errors are as for New.
func NewMapped[T Element](d *Device, shape ...int) (*Mapped[T], error) {
	t, err := create[T](d, "mapped", shape)
	if err != nil {
		return nil, err
	}
	st := t.v.st
	if err := d.mapStorage(st); err != nil {
		_ = t.Close()
		return nil, &OpError{Op: "mapped", Shapes: [][]int{t.Shape()}, DTypes: []DType{t.v.dtype}, Err: err}
	}
	st.addNet()
	return &Mapped[T]{t}, nil
}

// mapStorage gives fresh storage its memory.
func (d *Device) mapStorage(st *storage) error {
	var buffer unsafe.Pointer
	memory, err := alignedBytes(st.bytes), error(nil)
	if b, is := d.backend.(*vulkanBackend); is && st.bytes > 0 {
		buffer, memory, err = b.native.createMapped(st.bytes)
	}
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	st.res.buf, st.host, st.mapped = buffer, memory, true
	st.hostValid, st.deviceValid = true, true
	return nil
}

// Peek copies the elements from index from on, in the order of memory, to dst.
// It waits for nothing, and starts nothing: what work has written is there once
// an Event recorded after that work is done. Elements that work writes at the
// moment have any value. Errors are ErrClosed and ErrShape.
func (m *Mapped[T]) Peek(dst []T, from int) error {
	st := m.v.st
	if from < 0 || from > m.Size()-len(dst) {
		return &OpError{Op: "peek", Shapes: [][]int{m.Shape()}, DTypes: []DType{m.v.dtype}, Reason: fmt.Sprintf("%d elements from %d on", len(dst), from), Err: ErrShape}
	}
	st.dev.mu.Lock() // the memory stays while it is held
	defer st.dev.mu.Unlock()
	if err := m.v.usable(); err != nil {
		return err
	}
	if err := st.hostAccess("peek"); err != nil {
		return err
	}
	copy(dst, array.Storage[T](array.Array{Data: st.host})[from:])
	return nil
}
