package kompute

import (
	"fmt"

	"github.com/kompute-go/kompute-go/internal/array"
)

// Mapped is a tensor in memory that the device and the host both see. It is an
// operand like any other. In addition, Peek reads it without any work on the
// device. It is meant for a few values that a region writes in each replay and
// that the host reads while the next replays run.
//
// The memory may be slow for the device, so do not use it for large tensors.
// Read and Write wait for all work that uses the tensor.
type Mapped[T Element] struct{ *Tensor[T] }

// NewMapped makes a mapped tensor of zeros. Errors are as for New.
func NewMapped[T Element](d *Device, shape ...int) (*Mapped[T], error) {
	t := new(Tensor[T])
	give := func(st *storage) error {
		st.filled = true
		return d.backend.giveMapped(st)
	}
	if err := makeView(&t.v, d, "mapped", array.DTypeOf[T](), shape, give); err != nil {
		return nil, err
	}
	t.v.st.addNet()
	return &Mapped[T]{t}, nil
}

// Peek copies elements to dst, starting at index from, in memory order. It
// neither waits for nor submits work: what work writes is visible once an Event
// recorded after that work is done. Elements that are being written have
// undefined values. Errors are ErrClosed and ErrShape.
func (m *Mapped[T]) Peek(dst []T, from int) error {
	if m == nil {
		return errZeroView
	}
	if err := m.Err(); err != nil {
		return err
	}
	st := m.v.st
	if from < 0 || from > m.Size()-len(dst) {
		return &OpError{Op: "peek", Shapes: [][]int{m.Shape()}, DTypes: []DType{m.v.dtype}, Reason: fmt.Sprintf("%d elements from %d on", len(dst), from), Err: ErrShape}
	}
	st.dev.mu.Lock() // keeps the memory from being freed
	defer st.dev.mu.Unlock()
	if err := m.v.usable(); err != nil {
		return err
	}
	if err := st.hostAccess("peek"); err != nil {
		return err
	}
	copy(dst, array.Storage[T](array.Array{Data: st.mapped})[from:])
	return nil
}
