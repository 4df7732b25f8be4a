package kompute

import (
	"context"
	"errors"
)

func (q *vulkanQueue) beginCapture() error { return q.b.native.beginCapture(q.handle) }

func (q *vulkanQueue) abortCapture(*capture) { q.b.native.abortCapture(q.handle) }

// captured notes an op that the native library was asked to append to the
// region; err is its answer.
func (q *vulkanQueue) captured(op Op, err error) error {
	if no, is := err.(*unsupportedError); is {
		return &CaptureError{Op: op.Name, Reason: "it would run on the CPU: " + no.reason, Err: ErrUnsupported}
	}
	if err != nil {
		return q.s.located(op, "", err)
	}
	q.s.dev.mu.Lock()
	defer q.s.dev.mu.Unlock()
	q.s.capture.note(op)
	return nil
}

// endCapture submits the uploads of the capture itself: where that is refused,
// they have to be made again.
func (q *vulkanQueue) endCapture(r *Region, _ *capture) error {
	q.s.dev.mu.Lock()
	ticket := q.s.appended
	q.s.dev.mu.Unlock()
	if err := q.submit(ticket); err != nil {
		q.b.native.abortCapture(q.handle)
		return err
	}
	handle, err := q.b.native.endCapture(q.handle)
	if err != nil {
		return err
	}
	r.handle = handle
	r.stats = q.b.native.regionStats(handle)
	return nil
}

func (q *vulkanQueue) freeRegion(r *Region) { q.b.native.destroyRegion(r.handle) }

func (q *vulkanQueue) describe(r *Region) (*RegionDescription, error) {
	return parseDescription(q.b.native.describeRegion(r.handle))
}

// replay makes the caller's tensors ready, which for most replays is only to
// look at each, and then makes one native call.
func (q *vulkanQueue) replay(r *Region, times int) error {
	d := q.s.dev
	if err := q.prepare(r); err != nil {
		return err
	}
	value, err := q.b.native.replay(q.handle, r.handle, times)
	_ = q.submitting(err)
	d.mu.Lock()
	defer d.mu.Unlock()
	defer r.leave()
	if err != nil {
		q.s.fail(err)
		return err
	}
	q.replayed(r, times, value)
	return nil
}

// replayed notes replays that the timeline's value covers. dev.mu is held.
func (q *vulkanQueue) replayed(r *Region, times int, value uint64) {
	q.s.appended++
	r.enqueued(mark{q.s, q.s.appended}, times)
	for i := range r.uses {
		if u := &r.uses[i]; u.writes {
			u.st.onDevice()
		}
	}
	q.submittedUpTo(q.s.appended, value)
}

// profile waits in the native library, which for one replay is not long.
func (q *vulkanQueue) profile(_ context.Context, r *Region, spans []span) (span, error) {
	d := q.s.dev
	if err := q.prepare(r); err != nil {
		return span{}, err
	}
	whole, err := q.b.native.profile(q.handle, r.handle, spans)
	if errors.Is(err, ErrUnsupported) {
		d.mu.Lock()
		defer d.mu.Unlock()
		r.leave()
		return span{}, err
	}
	_ = q.submitting(err)
	value, _ := q.drained()
	d.mu.Lock()
	defer d.mu.Unlock()
	defer r.leave()
	if err != nil {
		q.s.fail(err) // and with it what the region writes: the replay may have run
	}
	q.replayed(r, 1, value)
	return whole, err
}

func (q *vulkanQueue) timeOps(timing timing) error {
	err := q.b.native.timeOps(q.handle, timing)
	if err == nil && timing != timeNothing {
		q.s.dev.mu.Lock()
		q.timed = true
		q.s.dev.mu.Unlock()
	}
	return err
}

// prepare brings to the device what the region needs, has its work come after
// that of other streams, and enters the region.
func (q *vulkanQueue) prepare(r *Region) error {
	d := q.s.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := 0; i < len(r.uses); i++ {
		u := &r.uses[i]
		if err := u.check(); err != nil {
			return err
		}
		if !q.unready(u) {
			continue
		}
		d.mu.Unlock()
		err := q.readyStorage(u.st, u.needs, u.writes)
		d.mu.Lock()
		if err != nil {
			return (&OpError{Op: u.op, Reason: "an operand of a captured op", Err: err})
		}
	}
	if r.closed {
		return errRegionClosed
	}
	r.users++
	return nil
}

// unready reports whether there is anything to do before a replay. dev.mu is
// held.
func (q *vulkanQueue) unready(u *regionUse) bool {
	st := u.st
	if w := st.writer.stream; w != nil && w != q.s && w.queue.(*vulkanQueue).closed {
		st.writer = mark{} // it was waited for, so that the next replay need not look
	}
	if st.busy || st.hostValid && !st.deviceValid && u.needs || q.mustFollow(st.writer) {
		return true
	}
	if !u.writes {
		return false
	}
	for _, m := range st.readers {
		if q.mustFollow(m) {
			return true
		}
	}
	return false
}
