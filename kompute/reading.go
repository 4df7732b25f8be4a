package kompute

import (
	"context"
	"fmt"
	"runtime"
	"sync"

	"github.com/kompute-go/kompute-go/internal/array"
)

// Reading is a pending read: see Tensor.ReadAsync. Its methods may be called
// from any goroutine.
type Reading[T Element] struct {
	layout array.Layout
	r      readback
	err    error // why nothing was started

	mu   sync.Mutex
	dst  []T // memory for the elements
	data []T // dst once it has them
}

// ReadAsync starts to read the tensor's elements and returns at once, or when s has
// room for more work (see Enqueue). The copy is work of s; it is submitted together
// with all work enqueued on s before. It sees the result of that work and of other
// streams' earlier writes to the tensor; later writes, by s, by other streams or by
// the host, do not change it. Several reads may be pending. The tensor may be closed
// meanwhile.
//
// The copy occupies host memory, including staging, until it is taken or
// garbage collected.
//
// A read that cannot start poisons nothing, unless the reason is that earlier work on s was
// lost. Wait returns the reason: ErrDevice for a stream of another device, ErrClosed,
// ErrTooLarge as for Read, a *CaptureError while s captures, or the error of the stream or
// the tensor.
func (t *Tensor[T]) ReadAsync(s *Stream) *Reading[T] {
	out := &Reading[T]{layout: t.View().layout}
	if out.dst, out.err = forElements[T](t.View()); out.err == nil {
		out.r, out.err = t.View().startRead(s)
	}
	if out.r != nil {
		runtime.AddCleanup(out, func(r readback) { r.drop() }, out.r)
	}
	return out
}

// startRead starts a read of the bytes that the view spans.
func (v *View) startRead(s *Stream) (readback, error) {
	if s = s.made(); s == noStream {
		return nil, errNilStream
	}
	if err := v.Err(); err != nil {
		return nil, err
	}
	if v.st.dev != s.dev {
		return nil, v.refused("read", "a tensor on "+v.st.dev.info.Name, ErrDevice)
	}
	if err := s.failCapture("read", "the region would have to run", nil); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dev.mu.Lock()
	err := s.readable(v)
	s.dev.mu.Unlock()
	if err != nil {
		return nil, err
	}
	defer func() {
		s.dev.mu.Lock()
		defer s.dev.mu.Unlock()
		v.st.leave()
	}()
	lo, hi := v.extentBytes()
	r, err := s.queue.read(v.st, lo, hi)
	if err != nil {
		s.failIfLost(err)
		return nil, err
	}
	if _, err := s.flushLocked(s.context()); err != nil {
		r.drop()
		return nil, err
	}
	return r, nil
}

// failIfLost poisons the stream if err says that earlier work of it is lost.
func (s *Stream) failIfLost(err error) {
	if lost(err) != windowLost {
		return
	}
	s.dev.mu.Lock()
	defer s.dev.mu.Unlock()
	s.fail(err)
}

// readable returns why the view cannot be read on s, or nil after marking the
// storage as in use. dev.mu is held.
func (s *Stream) readable(v *View) error {
	if err := s.state(); err != nil {
		return err
	}
	return v.hostUse("read")
}

// Done reports whether Wait would return at once, with the elements or an error.
func (r *Reading[T]) Done() bool {
	if r == nil || r.r == nil {
		return true
	}
	return r.taken() || r.r.done()
}

// taken reports whether a call has gathered the elements.
func (r *Reading[T]) taken() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.data != nil
}

// Wait waits for the elements and returns them in row-major order. It returns
// the same slice each time, which belongs to the caller. If the context ends
// first, the read continues, and Wait may be called again. Closing the stream
// waits for its reads; after closing the device, Wait returns ErrClosed for
// reads that were not waited for. If the stream failed before, Wait returns its
// error.
func (r *Reading[T]) Wait(ctx context.Context) ([]T, error) {
	switch {
	case r == nil:
		return nil, errNilReading
	case r.err != nil:
		return nil, r.err
	case r.r == nil:
		return nil, errNilReading
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := r.wait(ctx); err != nil {
		return nil, fmt.Errorf("reading %v: %w", r.layout.Shape, err)
	}
	return r.data, nil
}

var errNilReading = fmt.Errorf("the reading is nil, or ReadAsync did not start it: %w", ErrInvalid)

// wait gathers the elements, once.
func (r *Reading[T]) wait(ctx context.Context) error {
	defer runtime.KeepAlive(r)
	if r.taken() {
		return nil
	}
	err := r.r.wait(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.data != nil { // by another call, which has dropped the read
		return nil
	}
	if err != nil {
		return err
	}
	defer r.r.drop()
	return r.r.take(func(mem []byte, base int) {
		l := r.layout
		l.Offset -= base / sizeOf[T]()
		r.data = r.dst
		gather(r.data, array.Storage[T](array.Array{Data: mem}), l)
	})
}
