package kompute

import "context"

// mostSubmissions bounds how many submissions of a stream may be under way before its callers
// wait: pending work pins its operands, which no budget counts once they are closed. It is
// what kMostInFlight in csrc/stream/submissions.hpp is for Vulkan.
const mostSubmissions = 32

// submitted records a submission that ends at value. Those that other streams start have no
// limit; the excess ones count as one, until the last of them is done. dev.mu is held.
func (q *cpuQueue) submitted(value uint64) {
	if n := len(q.ends); n > mostSubmissions {
		q.ends[n-1] = value
		return
	}
	q.ends = append(q.ends, value)
}

// dropEnds forgets the submissions that are done. dev.mu is held.
func (q *cpuQueue) dropEnds() {
	n := 0
	for n < len(q.ends) && q.ends[n] <= q.s.done {
		n++
	}
	if n > 0 {
		q.ends = q.ends[:copy(q.ends, q.ends[n:])]
	}
}

// excess returns how many submissions must end before that many more may begin. It is 0
// while the oldest waits for work of another stream, as on Vulkan behind a gate: that work may
// need this caller, such as an op that enqueues on the stream that waits for it. dev.mu is held.
func (q *cpuQueue) excess(more int) int {
	if q.held {
		return 0
	}
	return max(len(q.ends)+more-mostSubmissions, 0)
}

// waitForRoom implements queue.
func (q *cpuQueue) waitForRoom(ctx context.Context) error {
	q.s.dev.mu.Lock()
	n := q.excess(1)
	if n == 0 {
		q.s.dev.mu.Unlock()
		return nil
	}
	return q.sleep(ctx, cpuWaiter{value: q.ends[n-1], room: true})
}

// holding records whether the queue's goroutine waits for what the item depends on, and tells
// those who wait for room. dev.mu is not held.
func (q *cpuQueue) holding(item *cpuItem) (held bool) {
	if len(item.deps) == 0 {
		return false
	}
	d := q.s.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, dep := range item.deps {
		if dep.stream.dev != d || dep.pending() {
			q.held = true
			q.release()
			return true
		}
	}
	return false
}

// unheld ends what holding has begun. dev.mu is not held.
func (q *cpuQueue) unheld() {
	q.s.dev.mu.Lock()
	defer q.s.dev.mu.Unlock()
	q.held = false
}
