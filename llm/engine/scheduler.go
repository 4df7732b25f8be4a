package engine

import (
	"cmp"
	"slices"
)

// piece is what a step feeds of one sequence.
type piece struct {
	*sequence
	first, count int // of its tokens
}

// last reports whether a token is chosen behind the piece.
func (p *piece) last() bool { return p.first+p.count == len(p.tokens) }

// scheduler decides what each step feeds. It is used under the engine's lock.
type scheduler struct {
	config  *Config
	pages   *allocator
	queue   []*sequence // wait, the next one first
	running []*sequence // in the order in which they were admitted
	rows    []int       // of the page table, that are free
	tables  bool        // whether the page table has changed
	plans   uint64      // so far

	shared, preempted uint64 // tokens that were not computed again; requests that gave their pages up
}

func newScheduler(c *Config) *scheduler {
	s := &scheduler{config: c, pages: newAllocator(c.pagesFor(c.CacheTokens), c.PageTokens)}
	for i := c.Sequences - 1; i >= 0; i-- {
		s.rows = append(s.rows, i)
	}
	return s
}

// plan returns what the next step feeds: one token of each sequence that
// generates, and up to ChunkTokens tokens of prompts, those first that were not
// fed for the longest time. It has pages for all of them.
func (s *scheduler) plan() []piece {
	s.admit()
	s.plans++
	order := slices.Clone(s.running)
	slices.SortStableFunc(order, func(a, b *sequence) int {
		return cmp.Or(min(a.waiting(), 2)-min(b.waiting(), 2), cmp.Compare(a.turn, b.turn))
	})
	var pieces []piece
	room := s.config.ChunkTokens
	for _, q := range order {
		count := q.waiting()
		if count > 1 {
			count = min(count, room)
			room -= count
		}
		if count > 0 && slices.Contains(s.running, q) && s.reserve(q, q.fed+count) {
			pieces = append(pieces, piece{q, q.fed, count})
			q.turn = s.plans
		}
	}
	// Some may have given their pages up for others behind them.
	return slices.DeleteFunc(pieces, func(p piece) bool { return !slices.Contains(s.running, p.sequence) })
}

// admit lets waiting sequences run while there is a row of the table for them and
// pages for all that they are to be fed, and one more.
func (s *scheduler) admit() {
	for len(s.queue) > 0 && len(s.rows) > 0 {
		q := s.queue[0]
		shared := s.pages.share(q.tokens)
		if s.config.pagesFor(len(q.tokens)+1)-len(shared) > s.pages.available() && len(s.running) > 0 {
			s.pages.release(shared)
			return
		}
		s.queue = s.queue[1:]
		n := len(s.rows) - 1
		q.row, s.rows = s.rows[n], s.rows[:n]
		q.pages, q.fed = shared, len(shared)*s.config.PageTokens
		s.shared += uint64(q.fed)
		s.tables = s.tables || len(shared) > 0
		s.running = append(s.running, q)
	}
}

// reserve sees to it that q has pages for n tokens. Where there are none left, the
// sequences that came last give theirs up; it reports false if that was q itself.
func (s *scheduler) reserve(q *sequence, n int) bool {
	for len(q.pages) < s.config.pagesFor(n) {
		if p := s.pages.take(); p != nil {
			q.pages = append(q.pages, p)
			s.tables = true
			continue
		}
		latest := s.running[len(s.running)-1]
		s.preempt(latest)
		if latest == q {
			return false
		}
	}
	return true
}

// preempt sends a running sequence back to the queue, as the next one. What was
// generated is computed again as if it belonged to the prompt.
func (s *scheduler) preempt(q *sequence) {
	s.leave(q)
	q.fed = 0
	s.queue = append([]*sequence{q}, s.queue...)
	s.preempted++
}

// leave ends a running sequence's part in the steps.
func (s *scheduler) leave(q *sequence) {
	s.running = slices.DeleteFunc(s.running, func(r *sequence) bool { return r == q })
	s.pages.release(q.pages)
	q.pages = nil
	s.rows = append(s.rows, q.row)
}

// fed notes that a piece is in the pages, and lets others find those that are
// full.
func (s *scheduler) fed(p piece) {
	size := s.config.PageTokens
	from := p.fed / size
	p.sequence.fed += p.count
	for i := from; (i+1)*size <= p.sequence.fed; i++ {
		var before *page
		if i > 0 {
			before = p.pages[i-1]
		}
		s.pages.publish(p.pages[i], before, p.tokens[i*size:(i+1)*size])
	}
}
