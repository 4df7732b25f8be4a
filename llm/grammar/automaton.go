package grammar

import (
	"container/heap"
	"math"
)

// set is a set of bytes.
type set [4]uint64

func (s *set) add(lo, hi byte) {
	for b := int(lo); b <= int(hi); b++ {
		s[b>>6] |= 1 << (b & 63)
	}
}

func (s *set) has(b byte) bool { return s[b>>6]>>(b&63)&1 != 0 }

// keep removes the bytes that are not in other, if b is in it, and otherwise those that are.
func (s *set) keep(b byte, other *set) {
	has := other.has(b)
	for i := range s {
		if has {
			s[i] &= other[i]
		} else {
			s[i] &^= other[i]
		}
	}
}

// element is one step of an alternative: a byte of a set, or a text of a rule.
type element struct {
	set  *set
	rule int
	at   uint32 // its place in the grammar
}

// rule lists alternatives.
type rule [][]element

// state is what may come after a text: each of its stacks has a set of bytes on top.
type state struct {
	*stacks
	next       [256]*state
	known      set // which entries of next are known; a known nil: that byte may not follow
	mask       []uint64
	generation int // of all that is known
}

// automaton finds states, as a generalized LL parser does (Scott and Johnstone, 2010). It
// forgets all that it knows when that takes too much memory; matchers keep their states.
type automaton struct {
	rules []rule
	empty []bool // by rule: whether a text of it may be empty
	ranks []int  // by rule: a rule comes before those that its texts may begin with

	unique     map[string]*stacks
	merged     map[string]*stacks // by the numbers of what was merged
	states     map[*stacks]*state
	ids        uint64
	bytes      int // roughly what is known
	generation int
	work       int // since begin: roughly, how many stacks were looked at or made
	limit      int // of work: beyond it, states are incomplete, and must be forgotten
}

// mostBytes bounds what an automaton knows while it is not looking for a mask.
const mostBytes = 16 << 20

// mostWork bounds the work of a mask or of following a byte, and so the time and memory that it takes.
const mostWork = 2 << 20

// stateWork is the work of making a state, which takes as much memory as that many stacks.
const stateWork = 50

func (a *automaton) forget() {
	a.unique, a.merged, a.states = map[string]*stacks{}, map[string]*stacks{}, map[*stacks]*state{}
	a.bytes = 0
	a.generation++
}

// begin counts the work of something that a caller waits for. Until end, there is a limit.
func (a *automaton) begin() { a.work, a.limit = 0, mostWork }

// end reports whether the work was within the limit. If not, it forgets the states found, which may be incomplete.
func (a *automaton) end() bool {
	a.limit = math.MaxInt
	if a.work > mostWork {
		a.forget()
		return false
	}
	return true
}

// trim forgets what is known if that takes too much memory.
func (a *automaton) trim() {
	if a.bytes > mostBytes {
		a.forget()
	}
}

// start returns the state before a text that the root, a rule, allows.
func (a *automaton) start(root []element) *state {
	s := a.step()
	s.begin(root, a.of(true))
	return s.state()
}

// next returns the state after a byte, or nil if the byte may not follow. The same state follows
// all bytes that are in the same sets of the state.
func (a *automaton) next(from *state, b byte) *state {
	from.renew(a)
	if from.known.has(b) {
		return from.next[b]
	}
	s, same := a.step(), set{}
	same.add(0, 255)
	for _, t := range from.tops {
		same.keep(b, t.rest[0].set)
		if t.rest[0].set.has(b) {
			s.begin(t.rest[1:], t.below)
		}
	}
	a.work += len(from.tops)
	to := s.state()
	for other := range from.next {
		if same.has(byte(other)) {
			from.known.add(byte(other), byte(other))
			from.next[other] = to
		}
	}
	return to
}

// renew makes the state forget what the automaton has forgotten, whose memory it would otherwise
// hold. Its stacks, which matchers read without the lock, stay.
func (s *state) renew(a *automaton) {
	if s.generation != a.generation {
		s.next, s.known, s.mask, s.generation = [256]*state{}, set{}, nil, a.generation
	}
}

// step collects the stacks of a state.
type step struct {
	a     *automaton
	tops  []top // with a set of bytes on top
	empty bool
	calls map[int][]*stacks // by rule: what follows its texts
	queue byRank            // of these rules, those that were not expanded
	ended map[*stacks]struct{}
}

func (a *automaton) step() *step {
	return &step{a: a, calls: map[int][]*stacks{}, ended: map[*stacks]struct{}{}}
}

// begin adds what may come next in a stack.
func (s *step) begin(rest []element, below *stacks) {
	if s.first(rest, below) {
		s.end(below)
	}
}

// end is begin after the end of a rule.
func (s *step) end(below *stacks) {
	if _, known := s.ended[below]; known {
		return
	}
	s.ended[below] = struct{}{}
	s.empty = s.empty || below.empty
	for _, t := range below.tops {
		s.begin(t.rest, t.below)
	}
}

// first adds what the rest may begin with, and reports whether it may be empty.
func (s *step) first(rest []element, below *stacks) (empty bool) {
	for i, e := range rest {
		if s.a.work++; s.a.work > s.a.limit {
			return false
		}
		if e.set != nil {
			s.tops = append(s.tops, top{rest[i:], below})
			return false
		}
		s.call(e.rule, rest[i+1:], below)
		if !s.a.empty[e.rule] {
			return false
		}
	}
	return true
}

// call adds a rule, and the rest that follows it.
func (s *step) call(rule int, rest []element, below *stacks) {
	if len(rest) > 0 {
		below = s.a.of(false, top{rest, below})
	}
	if len(s.calls[rule]) == 0 {
		heap.Push(&s.queue, ranked{s.a.ranks[rule], rule})
	}
	s.calls[rule] = append(s.calls[rule], below)
}

// state expands the rules, each after all those that may begin with it, so that each is
// expanded once, with everything that follows it. That a rule may be empty has been
// considered where it was called.
func (s *step) state() *state {
	for len(s.queue) > 0 {
		r := heap.Pop(&s.queue).(ranked).rule
		below := s.a.merge(s.calls[r])
		for _, alternative := range s.a.rules[r] {
			s.first(alternative, below)
		}
	}
	if len(s.tops) == 0 && !s.empty {
		return nil
	}
	unique := s.a.gather(s.empty, s.tops)
	out := s.a.states[unique]
	if out == nil {
		out = &state{stacks: unique, generation: s.a.generation}
		s.a.states[unique] = out
		s.a.bytes += 2500
		s.a.work += stateWork
	}
	return out
}

// byRank is a heap of rules.
type byRank []ranked

type ranked struct{ rank, rule int }

func (q byRank) Len() int           { return len(q) }
func (q byRank) Less(i, j int) bool { return q[i].rank < q[j].rank }
func (q byRank) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *byRank) Push(x any)        { *q = append(*q, x.(ranked)) }
func (q *byRank) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}
