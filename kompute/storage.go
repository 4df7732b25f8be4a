package kompute

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"
)

// storage is what views share: memory of a device, who may use it, and whose
// error it carries. Where its content is current, and what work is under way on
// it, the backend knows: the native library's tensor cache, or the order of the
// CPU's streams (cpuContent). Views know nothing of that, so that two views of
// one storage cannot disagree.
type storage struct {
	dev      *Device
	bytes    int
	readOnly bool   // memory is the caller's: never written to
	owner    any    // keeps that memory alive
	mapped   []byte // memory that host and device see; nil: ordinary storage
	res      *resource
	cpu      cpuContent

	// Guarded by dev.mu.
	closed  bool
	refs    int      // views that were not closed
	gen     uint32   // views of an older generation do not count (see Keep)
	pins    int      // calls and ops that use the memory now
	scope   *Scope   // who closes it; nil: the last view
	capture *capture // that writes it; nil: none
	regions int      // open ones that use it
	filled  bool     // it had content, or work was enqueued that makes some
	err     error    // the content was never made, because of this
	source  *Stream  // whose op made the content; nil: the host
}

// resource is what must be given back for a storage: apart from it, so that a
// cleanup can hold it without holding the storage.
type resource struct {
	dev        *Device
	bytes      int
	native     unsafe.Pointer // handle of the native library; nil on the CPU backend
	pinned     *runtime.Pinner
	released   bool
	prev, next *resource // of the device's list
}

// mark is a point in a stream's work: its timeline's value when that is done.
type mark struct {
	stream *Stream
	value  uint64
}

// pending reports whether the work may still run. dev.mu is held.
func (m mark) pending() bool { return m.stream != nil && m.stream.done < m.value }

// newStorage makes storage for bytes bytes, to which give adds its memory. It
// counts as live until it is released.
func (d *Device) newStorage(bytes int, give func(*storage) error) (*storage, error) {
	if limit := d.info.MaxTensorBytes; limit > 0 && int64(bytes) > limit {
		return nil, fmt.Errorf("%w: %d bytes, and a tensor on %s has at most %d", ErrTooLarge, bytes, d.info.Name, limit)
	}
	res := &resource{dev: d, bytes: bytes}
	st := &storage{dev: d, bytes: bytes, res: res, refs: 1}
	err := d.admit(res)
	if errors.Is(err, ErrOutOfMemory) {
		d.finishWork() // which holds on to its operands
		d.collectUntil(func() bool { err = d.admit(res); return err == nil })
	}
	if err != nil {
		return nil, err
	}
	if err = d.retryOutOfMemory(func() error { return give(st) }); err != nil {
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

// admitBytes reports whether the device takes one more storage.
func (d *Device) admitBytes(bytes int64) error {
	if d.closed {
		return fmt.Errorf("the device is %w", ErrClosed)
	}
	if free := d.budget - d.liveBytes; d.budget > 0 && bytes > free {
		return &MemoryError{Requested: bytes, Available: max(free, 0), Budget: d.budget}
	}
	return nil
}

// retryOutOfMemory calls f, and once more if memory ran out and forgotten
// tensors may free some.
func (d *Device) retryOutOfMemory(f func() error) error {
	err := f()
	if errors.Is(err, ErrOutOfMemory) {
		collect()
		err = f()
	}
	return err
}

// link counts a resource as live.
func (d *Device) link(r *resource) {
	d.live++
	d.liveBytes += int64(r.bytes)
	d.peakBytes = max(d.peakBytes, d.liveBytes)
	r.next = d.resources
	if r.next != nil {
		r.next.prev = r
	}
	d.resources = r
}

// unlink is link's opposite; the second time it does nothing.
func (d *Device) unlink(r *resource) {
	if r.released {
		return
	}
	r.released = true
	d.live--
	d.liveBytes -= int64(r.bytes)
	if r.next != nil {
		r.next.prev = r.prev
	}
	if r.prev != nil {
		r.prev.next = r.next
	} else {
		d.resources = r.next
	}
	r.prev, r.next = nil, nil
}

// free gives the native library's part back, once. dev.mu is held.
func (r *resource) free() {
	if r.native != nil {
		r.dev.backend.free(r.native)
		r.native = nil
	}
	if r.pinned != nil {
		r.pinned.Unpin()
		r.pinned = nil
	}
}

// addNet has the garbage collector release what was never closed.
func (st *storage) addNet() {
	runtime.AddCleanup(st, func(r *resource) {
		r.dev.mu.Lock()
		defer r.dev.mu.Unlock()
		if !r.released {
			r.dev.unlink(r)
			r.free()
		}
	}, st.res)
}

// usable reports why the storage cannot be used, if so. dev.mu is held.
func (st *storage) usable() error {
	if st.dev.closed {
		return fmt.Errorf("the tensor's device is %w", ErrClosed)
	}
	if st.closed {
		return fmt.Errorf("the tensor is %w", ErrClosed)
	}
	return nil
}

// contentErr returns the error of the stream whose op made the content, or was
// to make it. dev.mu is held.
func (st *storage) contentErr() error {
	if st.err != nil {
		return st.err
	}
	if st.source != nil {
		return st.source.err
	}
	return nil
}

// madeBy notes that work of s, or the host if s is nil, makes the content. A
// part of it leaves the error that the rest carries. dev.mu is held.
func (st *storage) madeBy(s *Stream, whole bool) {
	st.filled = true
	if s == nil && !whole || st.source == s && st.err == nil {
		return
	}
	st.source, st.err = s, nil
	st.changed()
}

// fail notes why the content was not made. dev.mu is held.
func (st *storage) fail(err error) {
	st.err = err
	st.changed()
}

// changed has regions look at the storage before their next replay. dev.mu is
// held.
func (st *storage) changed() {
	if st.regions > 0 {
		st.dev.changes++
	}
}

// drop takes one view away. dev.mu is held.
func (st *storage) drop(gen uint32) {
	if gen != st.gen || st.closed {
		return
	}
	if st.refs--; st.refs == 0 {
		st.release()
	}
}

// release closes the storage: no view of it can be used any more. Its memory
// goes as soon as nothing uses it. dev.mu is held.
func (st *storage) release() {
	if st.closed {
		return
	}
	st.closed = true
	st.changed()
	st.dev.unlink(st.res)
	if st.pins == 0 {
		st.free()
	}
}

// unpin takes one user away. dev.mu is held.
func (st *storage) unpin() {
	if st.pins--; st.pins == 0 && st.closed {
		st.free()
	}
}

func (st *storage) free() {
	st.res.free()
	st.cpu = cpuContent{}
	st.owner, st.source, st.scope = nil, nil, nil
}

// use pins the storage for a call of the host that reads it, or writes it, and
// keeps the device open; leave ends that. dev.mu is held.
func (st *storage) use(what string) error {
	if err := st.usable(); err != nil {
		return err
	}
	if err := st.hostAccess(what); err != nil {
		return err
	}
	st.pins++
	st.dev.users++
	return nil
}

// leave is use's opposite. dev.mu is held.
func (st *storage) leave() {
	st.unpin()
	st.dev.leave()
}

// leave ends a use of the device that Close waits for. d.mu is held.
func (d *Device) leave() {
	if d.users--; d.users == 0 {
		d.cond.Broadcast()
	}
}

// alignedBytes returns zeroed memory that any element type may be read from.
func alignedBytes(n int) []byte {
	if n == 0 {
		return nil
	}
	words := make([]uint64, (n+7)/8)
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), len(words)*8)[:n:n]
}
