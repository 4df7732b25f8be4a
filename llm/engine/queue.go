package engine

import "slices"

// queue holds the waiting sequences, and assigns them to the schedulers of the
// replicas. It is guarded by the engine's lock.
type queue struct {
	waiting    []*sequence // the next one first
	schedulers []*scheduler
	wake       func() // wakes the replicas, one of which may have new work
}

// last and first add a waiting sequence, after or before all others.
func (w *queue) last(q *sequence)  { w.waiting = append(w.waiting, q) }
func (w *queue) first(q *sequence) { w.waiting = slices.Insert(w.waiting, 0, q) }

// remove removes a sequence if it is waiting.
func (w *queue) remove(q *sequence) {
	w.waiting = slices.DeleteFunc(w.waiting, func(r *sequence) bool { return r == q })
}

// admit lets waiting sequences run, one after the other, while a replica has fewer
// than Sequences and enough pages for the next one. One whose beginning is currently
// being computed for another sequence waits for that, and others overtake it.
func (w *queue) admit() {
	for held := 0; held < len(w.waiting); {
		q := w.waiting[held]
		if q.pending > 0 {
			return // it has given up its pages; its last token comes soon
		}
		if held > 0 && q.asksAs(w.waiting[held-1]) {
			held++ // it waits for the same pages; comparing long prompts takes time
			continue
		}
		s, coming := w.choose(q)
		if coming {
			held++
			continue
		}
		if s == nil {
			return
		}
		w.waiting = slices.Delete(w.waiting, held, held+1)
		s.admit(q)
		if len(w.schedulers) > 1 {
			w.wake()
		}
	}
}

// runningCost is the cost of a running sequence when replicas are compared, in tokens
// to be fed: that much of a prompt may be computed again in order to run with fewer
// other sequences.
const runningCost = 64

// choose returns the scheduler of the replica that has the least to do before and for
// a sequence; nil if no replica has room. coming reports whether that replica will
// soon have more of the sequence's beginning in its pages.
func (w *queue) choose(q *sequence) (best *scheduler, coming bool) {
	least := 0
	for _, s := range w.schedulers {
		if !s.open || len(s.running) >= s.config.Sequences {
			continue
		}
		found, idle, soon := 0, 0, 0
		if q.shares() {
			found, idle = s.pages.find(q.tokens)
			soon = s.soon(q.tokens)
		}
		if !s.fits(q, found, idle) {
			continue
		}
		cost := len(q.tokens) - max(found, soon)*s.config.PageTokens
		for _, r := range s.running {
			cost += runningCost + r.waiting()
		}
		if best == nil || cost < least {
			best, least, coming = s, cost, soon > found
		}
	}
	return best, coming
}

// places returns how many more sequences could run. Some of the waiting ones are about
// to. A device that is being replaced counts: those that ran on it wait for it.
func (w *queue) places() (n int) {
	for _, s := range w.schedulers {
		n += s.config.Sequences - len(s.running)
	}
	return n
}

// busy reports whether any sequence waits or runs.
func (w *queue) busy() bool {
	return len(w.waiting) > 0 || slices.ContainsFunc(w.schedulers, func(s *scheduler) bool { return len(s.running) > 0 })
}
