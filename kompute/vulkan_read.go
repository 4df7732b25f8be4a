package kompute

import (
	"context"
	"fmt"
	"unsafe"
)

// vulkanRead is a read by the native library.
type vulkanRead struct {
	b     *vulkanBackend
	lo, n int // offset in the storage and length, in bytes

	// Guarded by the device's mu.
	handle  unsafe.Pointer // nil: it was dropped, or the device was closed
	users   int            // calls that use it
	dropped bool           // the last of them frees it
}

// startRead starts a read of bytes lo to hi of st, which is in use.
func (b *vulkanBackend) startRead(st *storage, stream unsafe.Pointer, soon bool, lo, hi int) (*vulkanRead, error) {
	lo &^= 15 // aligned for every element type
	var handle unsafe.Pointer
	err := b.d.retryOutOfMemory(func() error {
		tensor, err := b.handle(st)
		if err == nil {
			handle, err = b.native.createRead(tensor, stream, soon, lo, hi-lo)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	r := &vulkanRead{b: b, lo: lo, n: hi - lo, handle: handle}
	b.d.mu.Lock()
	defer b.d.mu.Unlock()
	b.d.reads[r] = struct{}{}
	if b.native.readMoved(handle) {
		b.d.downloaded(st.source, r.n)
	}
	return r, nil
}

// read implements queue.
func (q *vulkanQueue) read(st *storage, lo, hi int) (readback, error) {
	if lo >= hi {
		return emptyRead{}, nil
	}
	q.submitted = false
	return q.b.startRead(st, q.handle, false, lo, hi)
}

// entered calls f with the handle and keeps it from being freed.
func (r *vulkanRead) entered(f func(handle unsafe.Pointer) error) error {
	d := r.b.d
	d.mu.Lock()
	handle := r.handle
	if handle == nil || r.dropped {
		d.mu.Unlock()
		return fmt.Errorf("the read is %w", ErrClosed)
	}
	r.users++
	d.users++
	d.mu.Unlock()
	defer func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		r.users--
		if r.dropped && r.users == 0 {
			r.forget()
		}
		d.leave()
	}()
	return f(handle)
}

func (r *vulkanRead) wait(ctx context.Context) error {
	return r.entered(func(handle unsafe.Pointer) error {
		defer r.b.transfers.onHost("transfer", "read", "bytes", r.n)()
		err := waitSliced(ctx, func(timeout uint64) (bool, error) {
			_, there, err := r.b.native.waitRead(handle, timeout)
			return there, err
		})
		r.b.transfers.queue.(*vulkanQueue).takeSpans()
		return err
	})
}

func (r *vulkanRead) take(f func(mem []byte, base int)) error {
	return r.entered(func(handle unsafe.Pointer) error {
		data, there, err := r.b.native.waitRead(handle, 0)
		if err != nil || !there {
			return fmt.Errorf("a completed read was dropped: %w", ErrInternal)
		}
		f(unsafe.Slice((*byte)(data), r.n), r.lo)
		return nil
	})
}

func (r *vulkanRead) done() bool {
	done := true
	_ = r.entered(func(handle unsafe.Pointer) error {
		_, there, err := r.b.native.waitRead(handle, 0)
		done = there || err != nil
		return nil
	})
	return done
}

func (r *vulkanRead) drop() {
	r.b.d.mu.Lock()
	defer r.b.d.mu.Unlock()
	if r.dropped = true; r.users == 0 {
		r.forget()
	}
}

// forget frees the handle; no call uses it. The device's mu is held.
func (r *vulkanRead) forget() {
	if r.handle != nil {
		r.b.native.destroyRead(r.handle)
		r.handle = nil
		delete(r.b.d.reads, r)
	}
}
