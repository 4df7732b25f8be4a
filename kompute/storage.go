package kompute

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"unsafe"
)

// storage is the memory behind views: the tensor cache's entry. It knows where
// its content is up to date and who still works on it. Views know nothing of
// that, so that two views of one storage cannot disagree.
//
// All fields below mu's line are guarded by dev.mu. While busy is set, one
// goroutine moves the content with dev.mu released; everybody else waits on
// dev.cond. That is short: it is a copy, never a wait for work of a stream.
type storage struct {
	dev      *Device
	bytes    int
	readOnly bool // host memory is the caller's: never written to
	owner    any  // keeps that memory alive
	res      *resource

	// Guarded by dev.mu.
	host        []byte // nil until it is needed
	hostValid   bool   // Vulkan: host memory has the newest content
	deviceValid bool   // Vulkan: the device's buffer has it
	fellBack    bool   // Vulkan: a fallback wrote it, and it has not gone up since
	busy        bool
	closed      bool
	refs        int      // views that were not closed
	gen         uint32   // views of an older generation do not count (see Keep)
	pins        int      // ops and copies that use the memory now
	scope       *Scope   // who closes it; nil: the last view
	mapped      bool     // the device uses host: there is one copy, always current
	capture     *capture // that writes it; nil: none
	err         error    // the content was never made, because of this
	source      *Stream  // whose op made the content; nil: the host
	writer      mark
	readers     []mark  // since the last write, at most one a stream
	reader      [1]mark // where readers starts out
}

// resource is what must be given back for a storage: apart from it, so that a
// cleanup can hold it without holding the storage.
type resource struct {
	dev        *Device
	bytes      int
	buf        unsafe.Pointer // device memory; nil until it is needed
	released   bool
	prev, next *resource // of the device's list
}

// mark is a point in a stream's work.
type mark struct {
	stream *Stream
	ticket uint64
}

// pending reports whether the work may still run. dev.mu is held.
func (m mark) pending() bool { return m.stream != nil && m.stream.done < m.ticket }

// newStorage makes storage for bytes bytes, without any memory yet. It counts
// as live until it is released.
func (d *Device) newStorage(bytes int) (*storage, error) {
	if limit := d.info.MaxTensorBytes; limit > 0 && int64(bytes) > limit {
		return nil, fmt.Errorf("%w: %d bytes, and a tensor on %s has at most %d", ErrTooLarge, bytes, d.info.Name, limit)
	}
	res := &resource{dev: d, bytes: bytes}
	st := &storage{dev: d, bytes: bytes, res: res, refs: 1}
	st.readers = st.reader[:0]
	err := d.admit(res)
	if errors.Is(err, ErrOutOfMemory) {
		d.collectUntil(func() bool { err = d.admit(res); return err == nil })
	}
	if err != nil {
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

// freeBuffer gives r's device memory back, once.
func (r *resource) freeBuffer() {
	if r.buf != nil {
		r.dev.backend.freeBuffer(r.buf)
		r.buf = nil
	}
}

// addNet has the garbage collector release what was never closed.
func (st *storage) addNet() {
	runtime.AddCleanup(st, func(r *resource) {
		r.dev.mu.Lock()
		defer r.dev.mu.Unlock()
		if !r.released {
			r.dev.unlink(r)
			r.freeBuffer()
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
	st.res.freeBuffer()
	st.dropHost()
	st.readers, st.writer, st.source, st.scope, st.fellBack = nil, mark{}, nil, nil, false
}

// dropHost forgets host memory whose content nobody needs.
func (st *storage) dropHost() {
	if !st.readOnly && !st.mapped {
		st.dev.pool.put(st.host)
	}
	st.host, st.owner = nil, nil
}

// hostMemory makes sure that there is host memory, with any content. The caller
// holds the storage pinned, and not dev.mu.
func (st *storage) hostMemory() []byte {
	d := st.dev
	d.mu.Lock()
	mem := st.host
	d.mu.Unlock()
	if mem != nil || st.bytes == 0 {
		return mem
	}
	fresh := d.pool.get(st.bytes)
	d.mu.Lock()
	defer d.mu.Unlock()
	if st.host != nil {
		d.pool.put(fresh)
	} else {
		st.host = fresh
	}
	return st.host
}

// acquire waits until nobody moves the content, and keeps others from it.
// dev.mu is held, and released while waiting.
func (st *storage) acquire() {
	for st.busy {
		st.dev.cond.Wait()
	}
	st.busy = true
	st.pins++
}

// releaseBusy is acquire's opposite.
func (st *storage) releaseBusy() {
	st.busy = false
	st.unpin()
	st.dev.cond.Broadcast()
}

// wrote notes that m is the last to write the storage. dev.mu is held.
func (st *storage) wrote(m mark) {
	st.writer, st.source, st.err = m, m.stream, nil
	st.readers = st.readers[:0]
}

// read notes that m reads the storage. Before the list grows, it forgets readers
// that are known to be done, those of closed streams among them: what writes next
// is submitted after the host saw that, and a read leaves nothing to make visible.
// dev.mu is held.
func (st *storage) read(m mark) {
	for i := range st.readers {
		if st.readers[i].stream == m.stream {
			st.readers[i] = m
			return
		}
	}
	if len(st.readers) == cap(st.readers) {
		st.readers = slices.DeleteFunc(st.readers, func(r mark) bool { return !r.pending() })
	}
	st.readers = append(st.readers, m)
}
