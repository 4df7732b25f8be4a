package kompute

import (
	"context"
	"slices"
	"time"
)

func (q *vulkanQueue) submit(ticket uint64) error {
	d := q.s.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	if q.s.submitted >= ticket || q.closed {
		return nil
	}
	covered := q.s.appended
	q.users++
	d.mu.Unlock()
	value, err := q.b.native.flush(q.handle)
	_ = q.submitting(err)
	d.mu.Lock()
	q.leave()
	if err == nil {
		q.submittedUpTo(covered, value)
	}
	return err
}

// submitting returns the error of a native call that may have submitted what was
// pending. Pending work is then taken as lost, though some may have run: what was
// to go up has not, and results are not there, so that the stream is poisoned
// unless only uploads were pending. dev.mu is not held.
func (q *vulkanQueue) submitting(err error) error {
	if err == nil {
		return nil
	}
	value, known := q.drained()
	d, s := q.s.dev, q.s
	d.mu.Lock()
	defer d.mu.Unlock()
	q.losses++
	if s.appended <= s.submitted {
		return err
	}
	if !known && len(q.windows) > 0 {
		value = q.windows[len(q.windows)-1].value
	}
	uploads := uint64(len(q.uploads))
	for _, u := range q.uploads {
		if u.st.writer == (mark{s, u.ticket}) && u.st.hostValid {
			u.st.deviceValid = u.st.mapped
		}
	}
	onlyUploads := s.appended-s.submitted == uploads
	q.submittedUpTo(s.appended, value) // nothing of it will be submitted again
	if !onlyUploads && s != q.b.transfers && s.err == nil {
		s.err = err
	}
	return err
}

// drained returns the value that covers all that the driver took. A call that is
// refused loses its work, so that soon there is none left to refuse.
func (q *vulkanQueue) drained() (value uint64, known bool) {
	for range 3 {
		if value, err := q.b.native.flush(q.handle); err == nil {
			return value, true
		}
	}
	return 0, false
}

// submittedUpTo notes that the timeline reaches value when the work up to
// ticket is done. dev.mu is held.
func (q *vulkanQueue) submittedUpTo(ticket, value uint64) {
	if ticket <= q.s.submitted {
		return
	}
	q.s.submitted = ticket
	n := 0
	for n < len(q.uploads) && q.uploads[n].ticket <= ticket {
		n++
	}
	q.uploads = slices.Delete(q.uploads, 0, n)
	q.windows = append(q.windows, window{ticket, value})
	if len(q.windows) > mostWindows {
		q.windows = append(q.windows[:0], q.windows[mostWindows/2:]...)
	}
}

// enter returns the first window that covers ticket and keeps the queue from
// being freed; false if that has happened. dev.mu is held.
func (q *vulkanQueue) enter(ticket uint64) (window, bool) {
	if q.closed {
		return window{}, false
	}
	q.users++
	for _, w := range q.windows {
		if w.ticket >= ticket {
			return w, true
		}
	}
	return window{}, true // nothing was appended, so nothing is waited for
}

func (q *vulkanQueue) leave() {
	if q.users--; q.users == 0 && q.closed {
		q.s.dev.cond.Broadcast()
	}
}

// The slices in which a wait that can be cancelled asks whether it is.
const (
	firstSlice = time.Millisecond
	lastSlice  = 5 * time.Millisecond
)

func (q *vulkanQueue) wait(ctx context.Context, ticket uint64) error {
	d := q.s.dev
	d.mu.Lock()
	if q.s.done >= ticket {
		d.mu.Unlock()
		return nil
	}
	w, open := q.enter(ticket)
	d.mu.Unlock()
	if !open {
		return nil
	}
	err := q.waitFor(ctx, w.value)
	q.takeSpans()
	d.mu.Lock()
	defer d.mu.Unlock()
	q.leave()
	if err == nil && w.ticket > q.s.done {
		q.s.done = w.ticket
		q.trim()
	}
	return err
}

func (q *vulkanQueue) waitFor(ctx context.Context, value uint64) error {
	slice := firstSlice
	for {
		timeout := uint64(slice)
		if ctx.Done() == nil {
			timeout = ^uint64(0)
		}
		reached, err := q.b.native.wait(q.handle, value, timeout)
		if err != nil || reached {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		slice = min(2*slice, lastSlice)
	}
}

// trim forgets windows that are done, but for the last: other streams may
// still have to be told about it. dev.mu is held.
func (q *vulkanQueue) trim() {
	n := 0
	for n+1 < len(q.windows) && q.windows[n+1].ticket <= q.s.done {
		n++
	}
	q.windows = append(q.windows[:0], q.windows[n:]...)
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
	q.uploads, q.windows = nil, nil
	d.mu.Unlock()
	q.b.native.destroyStream(q.handle)
	q.seen, q.arrays = nil, nil // closed streams must not keep each other
}
