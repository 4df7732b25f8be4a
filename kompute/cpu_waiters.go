package kompute

import (
	"context"
	"runtime"
	"slices"
)

// cpuWaiter is a goroutine that waits for the first value items of a queue.
type cpuWaiter struct {
	value uint64
	room  bool // or until the queue is held
	ready chan struct{}
}

func (q *cpuQueue) wait(ctx context.Context, value uint64) error {
	d := q.s.dev
	d.mu.Lock()
	if q.s.done >= value {
		d.mu.Unlock()
		return nil
	}
	return q.sleep(ctx, cpuWaiter{value: value})
}

// sleep waits for what w tells. dev.mu is held, and given up.
func (q *cpuQueue) sleep(ctx context.Context, w cpuWaiter) error {
	d := q.s.dev
	ready := make(chan struct{})
	w.ready = ready
	q.waiters = append(q.waiters, w)
	d.mu.Unlock()
	select {
	case <-ready:
		return nil
	case <-ctx.Done():
		d.mu.Lock()
		defer d.mu.Unlock()
		q.waiters = slices.DeleteFunc(q.waiters, func(w cpuWaiter) bool { return w.ready == ready })
		return ctx.Err()
	}
}

// wake wakes those that wait for what is done, and lets them run before the next
// items: with its helpers, the queue's goroutine has every processor while there is
// work, so they, and whom they wake in turn, would wait until the runtime interrupts it
// after 10 ms. It gives way twice, because Go's scheduler takes the goroutine that has
// just given way before all others once in 61 times. dev.mu is held, but not meanwhile.
func (q *cpuQueue) wake() {
	if q.release() > 0 {
		q.s.dev.mu.Unlock()
		runtime.Gosched()
		runtime.Gosched()
		q.s.dev.mu.Lock()
	}
}

// release wakes those who need not wait any more, and returns how many. dev.mu is held.
func (q *cpuQueue) release() int {
	kept := q.waiters[:0]
	for _, w := range q.waiters {
		if w.value <= q.s.done || w.room && q.held {
			close(w.ready)
		} else {
			kept = append(kept, w)
		}
	}
	woken := len(q.waiters) - len(kept)
	clear(q.waiters[len(kept):])
	q.waiters = kept
	return woken
}
