package kompute

import (
	"context"
	"unsafe"
)

// vulkanQueue passes a stream's work to the native library, which uploads
// operands, orders the work after that of other streams, and records it when it
// is submitted.
type vulkanQueue struct {
	s      *Stream
	b      *vulkanBackend
	handle unsafe.Pointer

	// Guarded by s.mu.
	call callMemory // of the op being appended
	ops  opNumbers
	// submitted: the last call was a replay, which has submitted all work.
	submitted bool

	// Guarded by s.dev.mu.
	users  int // calls that use handle without holding s.mu
	closed bool
	timed  bool // some of its work was measured
}

func (q *vulkanQueue) upload(st *storage) error {
	q.submitted = false
	q.s.dev.mu.Lock()
	tensor := st.res.native
	q.s.dev.mu.Unlock()
	if tensor == nil {
		return nil // it has no content
	}
	return q.retryOutOfMemory(func() error { return q.b.native.upload(q.handle, tensor) })
}

// ---- Order ----

// enter keeps the queue from being freed; it returns false if it was freed
// already. dev.mu is held.
func (q *vulkanQueue) enter() bool {
	if q.closed {
		return false
	}
	q.users++
	return true
}

func (q *vulkanQueue) leave() {
	q.s.dev.mu.Lock()
	defer q.s.dev.mu.Unlock()
	if q.users--; q.users == 0 && q.closed {
		q.s.dev.cond.Broadcast()
	}
}

// entered calls f while keeping the queue open. It does nothing on a closed
// queue, which has waited for all its work.
func (q *vulkanQueue) entered(f func() error) error {
	q.s.dev.mu.Lock()
	open := q.enter()
	q.s.dev.mu.Unlock()
	if !open {
		return nil
	}
	defer q.leave()
	return f()
}

// hold implements queue. For an event of another device, the native library
// holds back work appended from now on; no caller waits for it.
func (q *vulkanQueue) hold(m mark) error {
	q.submitted = false
	if m.stream.dev != q.s.dev {
		return q.holdBack(m)
	}
	other := m.stream.queue.(*vulkanQueue)
	return other.entered(func() error { return q.b.native.depend(q.handle, other.handle, m.value) })
}

// holdBack makes work from now on wait for the event of another device.
func (q *vulkanQueue) holdBack(m mark) error {
	gate, err := q.b.native.hold(q.handle)
	if err != nil {
		return err
	}
	d := q.s.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	d.users++
	go q.openAfter(gate, m)
	return nil
}

// openAfter opens a gate when m is done or its device is lost.
func (q *vulkanQueue) openAfter(gate unsafe.Pointer, m mark) {
	_ = m.reach() // m.wait returns the error again, and poisons m's stream
	if err := m.wait(context.Background()); err != nil {
		q.s.poison(err)
	}
	q.b.native.openGate(gate)
	d := q.s.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	d.leave()
}

// ---- Submitting and waiting ----

func (q *vulkanQueue) flush() (value uint64, err error) {
	if q.submitted {
		q.s.dev.mu.Lock()
		defer q.s.dev.mu.Unlock()
		return q.s.submitted, nil
	}
	err = q.entered(func() error {
		value, err = q.b.native.flush(q.handle)
		return err
	})
	if err == nil {
		q.started(value)
	}
	return value, err
}

// abandon implements queue: the native stream discards what is pending when it is closed.
func (q *vulkanQueue) abandon() uint64 { return q.s.submitted }

// started records that work up to value was submitted.
func (q *vulkanQueue) started(value uint64) {
	q.s.dev.mu.Lock()
	defer q.s.dev.mu.Unlock()
	q.s.submitted = max(q.s.submitted, value)
}

func (q *vulkanQueue) wait(ctx context.Context, value uint64) error {
	d := q.s.dev
	d.mu.Lock()
	known := q.s.done >= value
	d.mu.Unlock()
	if known {
		return nil
	}
	return q.entered(func() error {
		err := waitSliced(ctx, func(timeout uint64) (bool, error) { return q.b.native.wait(q.handle, value, timeout) })
		q.takeSpans()
		if err == nil {
			d.mu.Lock()
			q.s.done = max(q.s.done, value)
			d.mu.Unlock()
		}
		return err
	})
}

func (q *vulkanQueue) waitForRoom(ctx context.Context) error {
	return q.entered(func() error {
		return waitSliced(ctx, func(timeout uint64) (bool, error) { return q.b.native.waitForRoom(q.handle, timeout) })
	})
}

func (q *vulkanQueue) poll(value uint64) bool {
	done := true
	_ = q.entered(func() error {
		reached, err := q.b.native.wait(q.handle, value, 0)
		done = reached || err != nil
		return nil
	})
	return done
}

// ---- Measuring ----

// takeSpans moves measured dispatches to the trace. The queue is not closed
// meanwhile.
func (q *vulkanQueue) takeSpans() {
	if q.s.dev.opts.trace != nil {
		q.b.native.takeSpans(q.handle, q.s.onDevice)
	}
}

func (q *vulkanQueue) timeOps(timing timing) error {
	q.submitted = false
	err := q.b.native.timeOps(q.handle, timing)
	if err == nil && timing != timeNothing {
		q.s.dev.mu.Lock()
		q.timed = true
		q.s.dev.mu.Unlock()
	}
	return err
}

func (q *vulkanQueue) stats(out *StreamStats) {
	if !q.closed {
		q.b.native.streamStats(q.handle, out)
		if q.timed {
			out.OpTimes = q.b.native.opTimes(q.handle)
		}
	}
}

func (q *vulkanQueue) close() {
	d := q.s.dev
	d.mu.Lock()
	q.closed = true
	for q.users > 0 {
		d.cond.Wait()
	}
	d.mu.Unlock()
	q.b.native.destroyStream(q.handle)
	q.b.native.freeCall(&q.call)
}
