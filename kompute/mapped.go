package kompute

import (
	"fmt"

	"github.com/kompute-go/kompute-go/internal/array"
)

// Mapped is a tensor in memory that the device and the host both see. It is an
// operand like any other, as Tensor. In addition, Peek reads it and Poke writes it
// without any work on the device. It is meant for a few values that a region writes
// in each replay and that the host reads while the next replays run, or the other
// way round.
//
// The memory may be slow for the device, so use it for large tensors only if the
// device just writes them. Read and Write of Tensor wait for all work that uses it.
// Peek and Poke may be called concurrently for elements that no Poke among them
// writes. A nil or zero Mapped is a tensor that failed with ErrInvalid.
type Mapped[T Element] struct{ t *Tensor[T] }

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

// Tensor returns the tensor in that memory, the same one each time. It is nil for
// a nil or zero Mapped.
func (m *Mapped[T]) Tensor() *Tensor[T] {
	if m == nil {
		return nil
	}
	return m.t
}

// View returns the tensor's view, as Tensor.View does.
func (m *Mapped[T]) View() *View { return m.Tensor().View() }

// Err returns why the tensor is unusable, or nil, as Tensor.Err does.
func (m *Mapped[T]) Err() error { return m.Tensor().Err() }

// Close closes the tensor, as Tensor.Close does; Peek fails from then on.
// Closing again does nothing.
func (m *Mapped[T]) Close() error { return m.Tensor().Close() }

// Peek copies elements to dst, starting at index from, in memory order. It
// neither waits for nor submits work: what work writes is visible once an Event
// recorded after that work is done. Elements that are being written have
// undefined values. Errors are ErrClosed, ErrShape and, during a capture that
// writes the tensor, ErrCapture.
func (m *Mapped[T]) Peek(dst []T, from int) error {
	return m.access("peek", from, len(dst), func(elements []T) {
		copy(dst, elements)
		makeBools(dst)
	})
}

// Poke copies src to the elements from index from on, in memory order. It neither
// waits for nor submits work: work that is submitted afterwards sees what it wrote,
// and what work that is not done yet sees there is undefined. Errors are as for
// Peek.
func (m *Mapped[T]) Poke(src []T, from int) error {
	return m.access("poke", from, len(src), func(elements []T) { copy(elements, src) })
}

// access calls f with n elements from index from on.
func (m *Mapped[T]) access(what string, from, n int, f func(elements []T)) error {
	t := m.Tensor()
	if err := t.Err(); err != nil {
		return err
	}
	st := t.v.st
	if from < 0 || from > t.Size()-n {
		return t.v.refused(what, fmt.Sprintf("%d elements from %d on", n, from), ErrShape)
	}
	if err := t.v.useMapped(what); err != nil {
		return err
	}
	defer func() {
		st.dev.mu.Lock()
		defer st.dev.mu.Unlock()
		st.leave()
	}()
	f(array.Storage[T](array.Array{Data: st.mapped()})[from : from+n])
	return nil
}

// useMapped keeps the memory from being freed until leave, without holding up other users of the device: copying a row
// of logits takes as long as enqueuing a step.
func (v *View) useMapped(what string) error {
	v.st.dev.mu.Lock()
	defer v.st.dev.mu.Unlock()
	if err := v.usable(); err != nil {
		return v.refused(what, "", err)
	}
	return v.st.use(what)
}
