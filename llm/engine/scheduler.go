package engine

import (
	"cmp"
	"slices"
)

// piece is the part of a sequence that a step feeds.
type piece struct {
	*sequence
	first, count int    // of its tokens
	since        uint64 // the sequence's admission number when the step was planned
	// chosen is how many tokens are chosen after its last rows, and at the first of
	// them among those of the step. draw counts the tokens chosen before it.
	chosen, at int
	draw       int
	// draft are tokens after the first that are only guessed: one is chosen after
	// each of them too, and those count up to the first that was guessed wrong.
	draft []int32
	// source is where the device keeps the last token that is fed, if the host did not
	// know that token when the step was planned.
	source int
	// err is why the tokens that may come next are not known at place errAt of those that are chosen.
	err   error
	errAt int
}

// promptTokens returns how many tokens of the piece are of the prompt, or are fed again. The others
// are an answer's, fed for the first time: a token is chosen after each of them.
func (p *piece) promptTokens() int {
	return max(min(p.count, p.prompt-p.first), p.count-p.chosen)
}

// scheduler decides what each step of a replica feeds. It is guarded by the engine's
// lock.
type scheduler struct {
	config     *Config
	queue      *queue
	pages      *allocator
	open       bool        // the replica can run steps
	running    []*sequence // in the order in which they were admitted
	plans      uint64      // so far
	admissions uint64
	order      []*sequence // working memory of plan

	drafted           uint64
	shared, preempted uint64 // tokens that were not computed again; requests that gave up their pages
}

func newScheduler(c *Config, w *queue) *scheduler {
	s := &scheduler{config: c, queue: w, open: true, pages: newAllocator(c.pagesFor(c.CacheTokens), c.PageTokens)}
	w.schedulers = append(w.schedulers, s)
	return s
}

// plan sets the pieces of the next step: one token of each sequence that generates,
// and tokens of prompts until there are ChunkTokens in all, those first that were
// not fed for the longest time. It has pages for all of them. It returns false if
// there is nothing to feed, or nothing until the steps in flight are done.
func (s *scheduler) plan(f *pendingStep) bool {
	f.pieces = f.pieces[:0]
	if slices.ContainsFunc(s.running, (*sequence).undecided) {
		return false
	}
	s.queue.admit()
	s.plans++
	s.order = append(s.order[:0], s.running...)
	slices.SortStableFunc(s.order, func(a, b *sequence) int {
		return cmp.Or(s.class(a)-s.class(b), cmp.Compare(a.turn, b.turn))
	})
	// Kernels process rows in tiles, so a few more than a round number would cost a whole tile.
	room, least := s.config.ChunkTokens, s.config.promptShare()
	for _, q := range s.order {
		count := q.waiting()
		if count > 1 {
			count = max(0, min(count, max(room, least)))
			least -= count
		}
		room -= count
		if count > 0 && q.on == s && s.reserve(q, q.fed+count) {
			f.pieces = append(f.pieces, piece{sequence: q, first: q.fed, count: count, since: q.admission})
			q.turn, q.begun = s.plans, true
		}
	}
	// Some may have given up their pages for others after them.
	f.pieces = slices.DeleteFunc(f.pieces, func(p piece) bool { return p.on != s })
	s.draft(f)
	s.number(f)
	for i := range f.pieces {
		s.enqueue(&f.pieces[i])
	}
	return len(f.pieces) > 0
}

// class orders sequences in a step: those that generate, then prompts. One that was
// begun and has little left goes before other prompts, which have most of the step's
// tokens left.
func (s *scheduler) class(q *sequence) int {
	n := q.waiting()
	switch {
	case n < 2:
		return n
	case q.begun && n <= s.config.ChunkTokens/4:
		return 2
	}
	return 3
}

// draft adds guesses to the pieces of a step without prompts, as far as there is
// room in its rows and in the sequences' pages.
func (s *scheduler) draft(f *pendingStep) {
	if s.config.Draft == 0 || slices.ContainsFunc(f.pieces, func(p piece) bool { return p.count > 1 }) {
		return
	}
	room := s.draftRoom()
	for i := range f.pieces {
		p := &f.pieces[i]
		if p.lookup == nil || p.pending > 0 || p.first+1 != len(p.tokens) {
			continue
		}
		n := min(s.config.Draft, room, len(p.pages)*s.config.PageTokens-len(p.tokens), p.limit-p.generated()-1)
		if n < 1 {
			continue
		}
		p.draft = p.lookup.draft(p.tokens, n)
		p.count += len(p.draft)
		room -= len(p.draft)
		s.drafted += uint64(len(p.draft))
	}
}

// draftRoom returns how many guesses a step of all running sequences has rows for.
func (s *scheduler) draftRoom() int { return s.config.Sequences - len(s.running) }

// number orders the pieces, first those whose states the host needs, then those whose
// logits it needs, and numbers the chosen tokens.
func (s *scheduler) number(f *pendingStep) {
	order := func(p piece) int {
		switch {
		case p.embed != nil:
			return 0
		case p.needsLogits():
			return 1
		}
		return 2
	}
	slices.SortStableFunc(f.pieces, func(a, b piece) int { return order(a) - order(b) })
	f.rows, f.chosen, f.onHost, f.embedded = 0, 0, 0, 0
	for i := range f.pieces {
		p := &f.pieces[i]
		f.rows += p.count
		if p.embed != nil {
			f.embedded = f.rows
		} else if p.first+p.count == len(p.tokens)+p.pending+len(p.draft) {
			p.chosen, p.at = 1+len(p.draft), f.chosen
			f.chosen += p.chosen
			if p.needsLogits() {
				f.onHost = f.chosen
			}
		}
	}
}

// enqueue records that a piece is in flight, and lets others find the pages that
// it fills, which they will read only in a later step.
func (s *scheduler) enqueue(p *piece) {
	q := p.sequence
	p.source, p.draw = q.at, q.generated()+q.pending
	q.fed += p.count
	if p.chosen > 0 {
		q.pending, q.at, q.flying, q.guessed = q.pending+p.chosen, p.at, s, len(p.draft) > 0
	}
	s.publish(q)
}

// admit starts a waiting sequence. It is fed after those that have waited longer.
func (s *scheduler) admit(q *sequence) {
	s.admissions++
	first := q.admission == 0
	q.admission, q.turn, q.begun, q.on, q.row = s.admissions, s.plans, false, s, s.freeRow()
	if q.pages = nil; q.shares() {
		q.pages = s.pages.share(q.tokens)
	}
	if q.embed != nil {
		q.embed.begin()
	}
	q.published, q.fed, q.hidden = len(q.pages), len(q.pages)*s.config.PageTokens, false
	s.shared += uint64(q.fed)
	if first {
		q.stream.begin(q.fed)
	}
	s.running = append(s.running, q)
}

// freeRow returns the least row that no running sequence has.
func (s *scheduler) freeRow() int {
	taken := make([]bool, len(s.running)+1)
	for _, q := range s.running {
		if q.row < len(taken) {
			taken[q.row] = true
		}
	}
	return slices.Index(taken, false)
}

// fits reports whether there are pages for all tokens that a sequence must be fed,
// and one more, besides those that running sequences still need. It may reuse found
// pages, some of which are idle.
func (s *scheduler) fits(q *sequence, found, idle int) bool {
	return len(s.running) == 0 || s.lacks(q)-found+idle+s.lackedByRunning() <= s.pages.available()
}

// lacks returns how many more pages a sequence needs for its tokens and one more.
func (s *scheduler) lacks(q *sequence) int {
	return max(s.config.pagesFor(len(q.tokens)+1)-len(q.pages), 0)
}

func (s *scheduler) lackedByRunning() (pages int) {
	for _, q := range s.running {
		pages += s.lacks(q)
	}
	return pages
}

// reserve makes sure that q has pages for n tokens. If there are none left, the
// sequences that came last give up theirs; it returns false if that includes q
// itself.
func (s *scheduler) reserve(q *sequence, n int) bool {
	for len(q.pages) < s.config.pagesFor(n) {
		if p := s.pages.take(); p != nil {
			q.pages = append(q.pages, p)
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

// soon returns how many pages with the beginning of tokens there will be once the
// prompts that are being fed are in their pages.
func (s *scheduler) soon(tokens []int32) (pages int) {
	size := s.config.PageTokens
	for _, q := range s.running {
		if q.waiting() < 2 || q.hidden {
			continue // its whole prompt is in its pages, or no more of them will be found
		}
		same, most := 0, min(len(tokens)-1, len(q.tokens))
		for same < most && tokens[same] == q.tokens[same] {
			same++
		}
		if same/size > q.published {
			pages = max(pages, same/size)
		}
	}
	return pages
}

// preempt sends a running sequence back to the queue, as the next one. What was
// generated is computed again as if it belonged to the prompt.
func (s *scheduler) preempt(q *sequence) {
	s.leave(q)
	q.fed = 0
	s.queue.first(q)
	s.preempted++
}

// leave removes a running sequence. Steps in flight may still write to its pages, but
// their next users write later.
func (s *scheduler) leave(q *sequence) {
	s.running = slices.DeleteFunc(s.running, func(r *sequence) bool { return r == q })
	q.on = nil
	s.pages.release(q.pages)
	q.pages = nil
}

// lose sends all running sequences back to the queue, in their order, and discards
// the results of steps in flight: the pages are lost, and no step can run until the
// scheduler is open again.
func (s *scheduler) lose() {
	for len(s.running) > 0 {
		q := s.running[len(s.running)-1]
		s.leave(q)
		q.fed, q.pending = 0, 0
		s.queue.first(q)
	}
	for _, q := range s.queue.waiting {
		if q.flying == s {
			q.pending = 0
		}
	}
	s.open = false
	s.pages = newAllocator(s.config.pagesFor(s.config.CacheTokens), s.config.PageTokens)
}

// publish lets others find the pages that are full of tokens that the host knows.
func (s *scheduler) publish(q *sequence) {
	size := s.config.PageTokens
	for valid := min(q.fed, len(q.tokens)); (q.published+1)*size <= valid; q.published++ {
		i := q.published
		var before *page
		if i > 0 {
			before = q.pages[i-1]
		}
		q.hidden = !s.pages.publish(q.pages[i], before, q.tokens[i*size:(i+1)*size])
	}
}
