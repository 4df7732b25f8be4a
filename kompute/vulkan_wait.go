package kompute

import (
	"context"
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
	d.mu.Lock()
	q.leave()
	if err == nil {
		q.submittedUpTo(covered, value)
	}
	return err
}

// submittedUpTo notes that the timeline reaches value when the work up to
// ticket is done. dev.mu is held.
func (q *vulkanQueue) submittedUpTo(ticket, value uint64) {
	if ticket <= q.s.submitted {
		return
	}
	q.s.submitted = ticket
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
	d.mu.Unlock()
	q.b.native.destroyStream(q.handle)
}
