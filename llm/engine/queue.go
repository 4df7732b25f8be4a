package engine

import "slices"

// queue holds the sequences that wait, and hands them to the schedulers of the
// replicas. It is used under the engine's lock.
type queue struct {
	waiting    []*sequence // the next one first
	schedulers []*scheduler
	wake       func() // wakes the replicas: one of them may have got work
}

// last and first let a sequence wait, behind all others or before them.
func (w *queue) last(q *sequence)  { w.waiting = append(w.waiting, q) }
func (w *queue) first(q *sequence) { w.waiting = slices.Insert(w.waiting, 0, q) }

// remove takes a sequence out, if it waits.
func (w *queue) remove(q *sequence) {
	w.waiting = slices.DeleteFunc(w.waiting, func(r *sequence) bool { return r == q })
}

// admit lets waiting sequences run, one after the other, while a replica has fewer
// than Sequences and enough pages for the next one. One whose beginning is just being
// computed for another waits for that, and others pass it.
func (w *queue) admit() {
	for held := 0; held < len(w.waiting); {
		q := w.waiting[held]
		if q.pending > 0 {
			return // it gave its pages up; its last token comes soon
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

// runningCost is what a sequence that runs counts when replicas are compared, in tokens
// to be fed: so much of a prompt may be computed again in order to run beside fewer.
const runningCost = 64

// choose returns the scheduler of the replica that has the least to do before and for
// a sequence; nil if no replica has room. coming reports whether that one is about to
// have more of the sequence's beginning in its pages.
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

// busy reports whether any sequence waits or runs.
func (w *queue) busy() bool {
	return len(w.waiting) > 0 || slices.ContainsFunc(w.schedulers, func(s *scheduler) bool { return len(s.running) > 0 })
}
