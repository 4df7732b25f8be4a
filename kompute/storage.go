package kompute

import (
	"errors"
	"fmt"
	"sync/atomic"
)

// storage is what views share: memory of a device, its users, and the error of
// its content. Which copy is up to date, and what work is pending on it, is the
// backend's state: the native library's tensor cache, or cpuContent. Views hold
// none of it, so two views of one storage cannot disagree.
type storage struct {
	// What every op looks at is side by side: between two tokens, hundreds of storages leave the
	// processor's cache.
	dev      *Device
	bytes    int
	res      *resource // it and what it points to: guarded by dev.mu once others know the storage
	readOnly bool      // the memory is the caller's and is never written; never changes

	// Guarded by dev.mu, except where atomics are read.
	filled   bool        // it has had content, or work that makes some was enqueued
	closed   atomic.Bool // set with dev.mu held
	pins     int32       // calls and ops that currently use the memory
	regions  int32       // open regions that use it
	capture  *capture    // the capture that writes it; nil: none
	source   *Stream     // the stream whose op made the content; nil: the host did
	err      error       // why the content was never made
	origins  uint64      // how often work set source or err
	failedAt uint64      // Device.failures when err was set
	scope    *Scope      // the scope that closes it, or has closed it; nil: the last view does
	gen      uint32      // views of an older generation do not count (see Keep)
	refs     int32       // open views

	cpu      *cpuContent   // on the CPU backend
	shared   *sharedMemory // nil: ordinary storage
	resource resource      // what res points to, for an op's result in a scope
}

// sharedMemory is storage's memory that someone else uses, too.
type sharedMemory struct {
	owner  any    // keeps the caller's memory alive
	mapped []byte // memory that host and device both see
}

// mapped returns the memory that host and device both see, nil for other storage.
func (st *storage) mapped() []byte {
	if st.shared == nil {
		return nil
	}
	return st.shared.mapped
}

// mark is a point in a stream's work: the stream and its timeline's value at
// that point.
type mark struct {
	stream *Stream
	value  uint64
}

// pending reports whether the work may still run. dev.mu is held.
func (m mark) pending() bool { return m.stream != nil && m.stream.done < m.value }

// newStorage makes storage of that many bytes; give, unless it is nil, adds its memory. It
// counts as live until it is released.
func (d *Device) newStorage(bytes int, give func(*storage) error) (*storage, error) {
	if limit := d.info.MaxTensorBytes; limit > 0 && int64(bytes) > limit {
		return nil, fmt.Errorf("%w: %d bytes, and a tensor on %s has at most %d", ErrTooLarge, bytes, d.info.Name, limit)
	}
	res := &resource{dev: d, bytes: bytes}
	st := &storage{dev: d, bytes: bytes, res: res, refs: 1}
	if d.onCPU() {
		st.cpu = new(cpuContent)
	}
	err := d.admit(res)
	if errors.Is(err, ErrOutOfMemory) {
		d.finishWork() // pending work keeps its operands
		d.collectUntil(func() bool { err = d.admit(res); return err == nil })
	}
	if err != nil {
		return nil, err
	}
	if give == nil {
		return st, nil
	}
	err = d.using(func() error { return d.retryOutOfMemory(func() error { return give(st) }) })
	if err != nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		st.release()
		return nil, err
	}
	return st, nil
}

// admit counts a resource as live if the budget has room for it.
func (d *Device) admit(res *resource) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.admitBytes(int64(res.bytes)); err != nil {
		return err
	}
	d.link(res)
	return nil
}

var errDeviceClosed = fmt.Errorf("the device is %w", ErrClosed)

// admitBytes returns an error if the device cannot take one more storage.
func (d *Device) admitBytes(bytes int64) error {
	if d.closed.Load() {
		return errDeviceClosed
	}
	if free := d.budget - d.liveBytes; d.budget > 0 && bytes > free {
		return &MemoryError{Requested: bytes, Available: max(free, 0), Budget: d.budget}
	}
	return nil
}

// retryOutOfMemory calls f, and if memory ran out, once more after collecting
// tensors that were never closed.
func (d *Device) retryOutOfMemory(f func() error) error {
	err := f()
	if err != nil && lacksMemory(err) {
		collect()
		err = f()
	}
	return err
}

// usable returns why the storage cannot be used, or nil. dev.mu is held.
func (st *storage) usable() error {
	if st.dev.closed.Load() {
		return fmt.Errorf("the tensor's device is %w", ErrClosed)
	}
	if st.closed.Load() {
		return fmt.Errorf("the tensor is %w", ErrClosed)
	}
	return nil
}

// contentErr returns the error of the stream whose op made the content or
// should have made it. dev.mu is held.
func (st *storage) contentErr() error {
	if st.err != nil {
		return st.err
	}
	if st.source != nil {
		return st.source.err
	}
	return nil
}

// madeBy records that work of s makes the content. dev.mu is held.
func (st *storage) madeBy(s *Stream) {
	st.filled = true
	st.origins++
	if st.source != s || st.err != nil {
		st.source, st.err = s, nil
		st.changed()
	}
}

// fail records why the content was not made. dev.mu is held.
func (st *storage) fail(err error) {
	st.dev.failures++
	st.origins++
	st.err, st.failedAt = err, st.dev.failures
	st.changed()
}

// origin identifies the work that made the content, or should have made it.
func (st *storage) origin() uint64 {
	st.dev.mu.Lock()
	defer st.dev.mu.Unlock()
	return st.origins
}

// changed makes regions check the storage before their next replay. dev.mu is
// held.
func (st *storage) changed() {
	if st.regions > 0 {
		st.dev.changes++
	}
}

// drop removes one view. dev.mu is held.
func (st *storage) drop(gen uint32) {
	if gen != st.gen || st.closed.Load() {
		return
	}
	if st.refs--; st.refs == 0 {
		st.release()
	}
}

// release closes the storage: its views can no longer be used. Its memory is
// freed once nothing uses it. dev.mu is held.
func (st *storage) release() {
	if st.closed.Swap(true) {
		return
	}
	st.changed()
	st.dev.unlink(st.res)
	if st.pins == 0 {
		st.free()
	}
}

// unpin removes one user. dev.mu is held.
func (st *storage) unpin() {
	if st.pins--; st.pins == 0 && st.closed.Load() {
		st.free()
	}
}

func (st *storage) free() {
	st.res.free()
	if st.cpu != nil {
		if st.cpu.own {
			recycle(st.cpu.host)
		}
		*st.cpu = cpuContent{}
	}
	st.shared, st.source = nil, nil
}

// use pins the storage, which is usable, for a call that reads or writes it on the
// host, and keeps the device open until leave. dev.mu is held.
func (st *storage) use(what string) error {
	if err := st.hostAccess(what); err != nil {
		return err
	}
	st.pins++
	st.dev.users++
	return nil
}

// leave reverses use. dev.mu is held.
func (st *storage) leave() {
	st.unpin()
	st.dev.leave()
}

// using calls f, which uses the device, and makes Close wait for it; after Close it returns ErrClosed instead.
func (d *Device) using(f func() error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed.Load() {
		return errDeviceClosed
	}
	d.users++
	defer d.leave()
	d.mu.Unlock()
	defer d.mu.Lock()
	return f()
}

// leave ends a use of the device that Close waits for. d.mu is held.
func (d *Device) leave() {
	if d.users--; d.users == 0 {
		d.cond.Broadcast()
	}
}
