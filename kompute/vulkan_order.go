package kompute

import (
	"context"
	"unsafe"
)

// conflicts returns what of other streams must come before q accesses st.
// That the host knows it to be done is not enough: the device has to know that
// its memory is visible. dev.mu is held.
func (q *vulkanQueue) conflicts(st *storage, write bool) []mark {
	var deps []mark
	if q.mustFollow(st.writer) {
		deps = append(deps, st.writer)
	}
	if !write {
		return deps
	}
	for _, m := range st.readers {
		if q.mustFollow(m) {
			deps = append(deps, m)
		}
	}
	return deps
}

func (q *vulkanQueue) mustFollow(m mark) bool {
	if m.stream == nil || m.stream == q.s || m.ticket == 0 {
		return false
	}
	if q.seenAt != q.losses {
		clear(q.seen) // what the lost work was to wait for, later work does not
		q.seenAt = q.losses
	}
	other := m.stream.queue.(*vulkanQueue)
	return !other.closed && q.seen[other] < m.ticket
}

// after makes the work appended from here on wait for m, on the device.
func (q *vulkanQueue) after(m mark) error {
	d := q.s.dev
	other := m.stream.queue.(*vulkanQueue)
	d.mu.Lock()
	follow := q.mustFollow(m)
	d.mu.Unlock()
	if !follow {
		return nil
	}
	if err := m.stream.submit(m.ticket); err != nil {
		return err
	}
	d.mu.Lock()
	w, open := other.enter(m.ticket)
	if !open {
		delete(q.seen, other)
	}
	d.mu.Unlock()
	if !open {
		return nil // it has waited for all its work
	}
	err := q.submitting(q.b.native.depend(q.handle, other.handle, w.value))
	d.mu.Lock()
	defer d.mu.Unlock()
	other.leave()
	if err == nil {
		q.seen[other] = max(w.ticket, m.ticket)
		q.forgetClosed()
	}
	return err
}

// hold implements queue. Where the event is of another device, the native
// library keeps back what is appended from here on; no caller waits for it.
func (q *vulkanQueue) hold(m mark) error {
	d := q.s.dev
	if m.stream.dev == d {
		if err := q.after(m); err != nil {
			return err
		}
	} else if err := q.holdBack(m); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	q.s.appended++
	return nil
}

// holdBack has work from here on wait for the event of another device. What was
// appended before is started, and has a value of the timeline of its own.
func (q *vulkanQueue) holdBack(m mark) error {
	d := q.s.dev
	d.mu.Lock()
	ticket := q.s.appended
	d.mu.Unlock()
	if err := q.s.submit(ticket); err != nil {
		return err
	}
	gate, err := q.b.native.hold(q.handle)
	if q.submitting(err) != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.users++
	d.gates++
	go q.openAfter(gate, m)
	return nil
}

// openAfter opens a gate when m is done, or can never be.
func (q *vulkanQueue) openAfter(gate unsafe.Pointer, m mark) {
	if err := m.wait(context.Background()); err != nil {
		q.s.poison(err)
	}
	q.b.native.openGate(gate)
	d := q.s.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	d.gates--
	d.leave()
}

// forgetClosed keeps seen from growing with every stream there ever was. It looks
// at all of it only when it has doubled.
func (q *vulkanQueue) forgetClosed() {
	if len(q.seen) < max(q.seenLimit, 64) {
		return
	}
	for other := range q.seen {
		if other.closed {
			delete(q.seen, other)
		}
	}
	q.seenLimit = 2 * len(q.seen)
}
