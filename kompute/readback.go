package kompute

import (
	"context"
	"fmt"
	"sync"
	"unsafe"
)

// readback is a copy of bytes of a storage that a stream makes for the host. It
// must be waited for or dropped.
type readback struct {
	dev *Device
	m   mark // the copy is there when this is done; no stream: it is there
	lo  int  // where in the storage it starts

	taking sync.Mutex // held by who takes the copy over; before dev.mu

	// Guarded by dev.mu.
	mem    []byte         // the copy, once it is full
	full   bool           // mem has it
	native unsafe.Pointer // where the native library has it, until it is taken
	err    error          // why there is none
}

// startRead makes a readback of n bytes from lo on that the native library
// fills. dev.mu is held.
func (d *Device) startRead(m mark, lo, n int, native unsafe.Pointer) *readback {
	r := &readback{dev: d, m: m, lo: lo, native: native, mem: d.pool.get(n)}
	d.reads[r] = struct{}{}
	return r
}

// wait returns the copy, which starts at r.lo in the storage.
func (r *readback) wait(ctx context.Context) ([]byte, error) {
	if r.m.stream != nil {
		if err := r.m.wait(ctx); err != nil {
			return nil, err
		}
	}
	r.taking.Lock()
	defer r.taking.Unlock()
	d := r.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case r.full:
	case r.err != nil:
		return nil, r.err
	case r.m.stream.err != nil:
		return nil, r.m.stream.err
	case r.native != nil:
		r.take()
	default:
		return nil, fmt.Errorf("the read is %w", ErrClosed)
	}
	return r.mem, nil
}

// take copies what the native library has. dev.mu is held, and released while
// it copies.
func (r *readback) take() {
	d, native := r.dev, r.native
	b := d.backend.(*vulkanBackend)
	r.native = nil
	delete(d.reads, r)
	d.users++
	d.mu.Unlock()
	b.native.copyRead(native, r.mem)
	b.native.destroyRead(native)
	d.mu.Lock()
	r.full = true
	d.leave()
}

// drop gives up a copy that nobody will take. dev.mu is not held.
func (r *readback) drop() {
	r.dev.mu.Lock()
	defer r.dev.mu.Unlock()
	r.forget()
}

// forget frees what the native library holds. dev.mu is held.
func (r *readback) forget() {
	if r.native != nil {
		r.dev.backend.(*vulkanBackend).native.destroyRead(r.native)
		r.native, r.mem = nil, nil
		delete(r.dev.reads, r)
	}
}

// done reports whether wait would return at once.
func (r *readback) done() bool {
	if r.m.stream == nil {
		return true
	}
	r.dev.mu.Lock()
	known := r.full || r.err != nil || !r.m.pending()
	r.dev.mu.Unlock()
	return known || r.m.stream.queue.poll(r.m.ticket)
}

// read implements queue. What the host has is copied at once: work that was
// appended before does not change it any more.
func (q *vulkanQueue) read(st *storage, lo, hi int) (*readback, error) {
	d := q.s.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	return q.readLocked(st, lo, hi)
}

// readLocked is read with dev.mu held.
func (q *vulkanQueue) readLocked(st *storage, lo, hi int) (*readback, error) {
	d := q.s.dev
	st.acquire()
	defer st.releaseBusy()
	if err := st.usable(); err != nil {
		return nil, err
	}
	onDevice := st.res.buf != nil && (st.mapped || st.onlyOnDevice())
	if !onDevice || lo == hi {
		d.mu.Unlock()
		mem := alignedBytes(hi - lo)
		if lo < hi {
			copy(mem, st.hostMemory()[lo:hi])
		}
		d.mu.Lock()
		return &readback{dev: d, lo: lo, mem: mem, full: true}, nil
	}
	deps := q.conflicts(st, false)
	d.mu.Unlock()
	native, err := q.appendRead(st, lo, hi, deps)
	d.mu.Lock()
	if err != nil {
		return nil, err
	}
	q.s.appended++
	m := mark{q.s, q.s.appended}
	st.read(m)
	d.downloaded(st.source, hi-lo)
	return d.startRead(m, lo, hi-lo, native), nil
}

// appendRead does the native calls of read. st is busy, dev.mu not held.
func (q *vulkanQueue) appendRead(st *storage, lo, hi int, deps []mark) (unsafe.Pointer, error) {
	for _, m := range deps {
		if err := q.after(m); err != nil {
			return nil, err
		}
	}
	return q.b.native.read(q.handle, st.res.buf, lo, hi-lo)
}

// poll implements queue.
func (q *vulkanQueue) poll(ticket uint64) bool {
	d := q.s.dev
	d.mu.Lock()
	if ticket > q.s.submitted && !q.closed {
		d.mu.Unlock()
		return false
	}
	w, open := q.enter(ticket)
	d.mu.Unlock()
	if !open {
		return true
	}
	reached, err := q.b.native.wait(q.handle, w.value, 0)
	d.mu.Lock()
	defer d.mu.Unlock()
	q.leave()
	return reached || err != nil
}

// fetch starts to read bytes that only the device has: behind the work that
// makes them if that was not submitted yet, so that both go in one submission;
// else on the stream of transfers, where only earlier transfers are waited for.
func (b *vulkanBackend) fetch(st *storage, lo, hi int) (*readback, error) {
	if s := b.writerOf(st); s != nil && s.mu.TryLock() {
		defer s.mu.Unlock()
		if b.writerOf(st) == s {
			return s.queue.read(st, lo, hi)
		}
	}
	return b.fetchAlone(st, lo, hi)
}

// fetchAlone starts a read on the stream of transfers. If it cannot be submitted,
// that is the read's error and poisons nothing: the next one may do better.
func (b *vulkanBackend) fetchAlone(st *storage, lo, hi int) (*readback, error) {
	s := b.transfers
	q := s.queue.(*vulkanQueue)
	b.lockTransfersFor(st)
	defer s.mu.Unlock()
	r, err := q.readLocked(st, lo, hi)
	b.d.mu.Unlock()
	if err != nil || r.m.stream == nil {
		return r, err
	}
	defer s.onHost("submit", "submit")()
	if err := q.submit(r.m.ticket); err != nil {
		r.drop()
		return nil, err
	}
	return r, nil
}

// lockTransfersFor locks the stream of transfers and dev.mu when nobody moves
// the storage's content. Who does may be about to lock that stream, so it is not
// held while waiting.
func (b *vulkanBackend) lockTransfersFor(st *storage) {
	for {
		b.transfers.mu.Lock()
		b.d.mu.Lock()
		if !st.busy {
			return
		}
		b.transfers.mu.Unlock()
		for st.busy {
			b.d.cond.Wait()
		}
		b.d.mu.Unlock()
	}
}

// writerOf returns the stream that has the storage's last writer still pending.
func (b *vulkanBackend) writerOf(st *storage) *Stream {
	b.d.mu.Lock()
	defer b.d.mu.Unlock()
	w := st.writer
	if w.stream == nil || w.stream.closed || w.stream.capture != nil || w.ticket <= w.stream.submitted {
		return nil
	}
	return w.stream
}

// read implements queue: an item that copies.
func (q *cpuQueue) read(st *storage, lo, hi int) (*readback, error) {
	d := q.s.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	for st.busy {
		d.cond.Wait()
	}
	if err := st.usable(); err != nil {
		return nil, err
	}
	st.pins++
	r := &readback{dev: d, lo: lo, mem: alignedBytes(hi - lo)}
	item := cpuItem{read: r, from: st, deps: q.s.conflicts(st, AccessRead, nil)}
	q.push(item)
	for _, m := range item.deps {
		m.stream.queue.(*cpuQueue).start(m.ticket)
	}
	r.m = mark{q.s, q.s.appended}
	st.read(r.m)
	return r, nil
}

// runRead does a read's item. dev.mu is not held.
func (q *cpuQueue) runRead(item cpuItem) {
	d := q.s.dev
	d.mu.Lock()
	err := item.from.contentErr()
	d.mu.Unlock()
	if err == nil {
		copy(item.read.mem, item.from.hostMemory()[item.read.lo:])
	}
	d.mu.Lock()
	item.read.err, item.read.full = err, err == nil
	d.mu.Unlock()
}

// poll implements queue.
func (q *cpuQueue) poll(ticket uint64) bool {
	q.s.dev.mu.Lock()
	defer q.s.dev.mu.Unlock()
	return q.s.done >= ticket
}
