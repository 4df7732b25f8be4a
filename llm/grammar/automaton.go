package grammar

import (
	"cmp"
	"container/heap"
	"encoding/binary"
	"slices"
)

// set is a set of bytes.
type set [4]uint64

func (s *set) add(lo, hi byte) {
	for b := int(lo); b <= int(hi); b++ {
		s[b>>6] |= 1 << (b & 63)
	}
}

func (s *set) has(b byte) bool { return s[b>>6]>>(b&63)&1 != 0 }

// element is one step of an alternative: a byte of a set, or a text of a rule.
type element struct {
	set  *set
	rule int
	at   uint32 // its place in the grammar
}

// rule lists alternatives.
type rule [][]element

// stacks is a set of stacks of what may come next. Those with the same top are one entry, with
// the set of what is below any of them: a grammar with several ways to read a text has as many
// stacks as there are combinations of these ways, but few entries.
type stacks struct {
	tops  []top // in the order of their places
	empty bool  // whether one of the stacks is empty: the text may end
	id    uint64
}

type top struct {
	rest  []element // not empty
	below *stacks
}

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
	unions     map[[2]*stacks]*stacks
	states     map[*stacks]*state
	ids        uint64
	bytes      int // roughly what is known
	generation int
}

// mostBytes bounds what an automaton knows.
const mostBytes = 16 << 20

func (a *automaton) forget() {
	a.unique, a.unions, a.states = map[string]*stacks{}, map[[2]*stacks]*stacks{}, map[*stacks]*state{}
	a.bytes = 0
	a.generation++
}

// of returns the unique set with these tops, which are in the order of their places.
func (a *automaton) of(empty bool, tops ...top) *stacks {
	key := make([]byte, 1, 1+12*len(tops))
	if empty {
		key[0] = 1
	}
	for _, t := range tops {
		key = binary.NativeEndian.AppendUint32(key, t.rest[0].at)
		key = binary.NativeEndian.AppendUint64(key, t.below.id)
	}
	if known := a.unique[string(key)]; known != nil {
		return known
	}
	a.ids++
	out := &stacks{slices.Clone(tops), empty, a.ids}
	a.unique[string(key)] = out
	a.bytes += 100 + 50*len(tops)
	return out
}

// union returns the stacks of both; x may be nil.
func (a *automaton) union(x, y *stacks) *stacks {
	if x == nil || x == y {
		return y
	}
	key := [2]*stacks{x, y}
	if x.id > y.id {
		key = [2]*stacks{y, x}
	}
	if known := a.unions[key]; known != nil {
		return known
	}
	tops := make([]top, 0, len(x.tops)+len(y.tops))
	p, q := x.tops, y.tops
	for len(p) > 0 && len(q) > 0 {
		switch order := cmp.Compare(p[0].rest[0].at, q[0].rest[0].at); {
		case order < 0:
			tops, p = append(tops, p[0]), p[1:]
		case order > 0:
			tops, q = append(tops, q[0]), q[1:]
		default:
			tops = append(tops, top{p[0].rest, a.union(p[0].below, q[0].below)})
			p, q = p[1:], q[1:]
		}
	}
	out := a.of(x.empty || y.empty, append(append(tops, p...), q...)...)
	a.unions[key] = out
	a.bytes += 50
	return out
}

// start returns the state before a text that the root, a rule, allows.
func (a *automaton) start(root []element) *state {
	s := a.step()
	s.begin(root, a.of(true))
	return s.state()
}

// next returns the state after a byte, or nil if the byte may not follow.
func (a *automaton) next(from *state, b byte) *state {
	if a.bytes > mostBytes {
		a.forget()
	}
	from.renew(a)
	if from.known.has(b) {
		return from.next[b]
	}
	s := a.step()
	for _, t := range from.tops {
		if t.rest[0].set.has(b) {
			s.begin(t.rest[1:], t.below)
		}
	}
	from.known.add(b, b)
	from.next[b] = s.state()
	return from.next[b]
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
	tops  map[uint32]top // with a set of bytes on top, by their places
	empty bool
	calls map[int]*stacks // by rule: what follows its texts
	queue byRank          // of these rules, those that were not expanded
	ended map[*stacks]struct{}
}

func (a *automaton) step() *step {
	return &step{a: a, tops: map[uint32]top{}, calls: map[int]*stacks{}, ended: map[*stacks]struct{}{}}
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
		if e.set != nil {
			s.tops[e.at] = top{rest[i:], s.a.union(s.tops[e.at].below, below)}
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
	known := s.calls[rule]
	if known == nil {
		heap.Push(&s.queue, ranked{s.a.ranks[rule], rule})
	}
	s.calls[rule] = s.a.union(known, below)
}

// state expands the rules, each after all those that may begin with it, so that it does so
// once. That a rule may be empty has been considered where it was called.
func (s *step) state() *state {
	for len(s.queue) > 0 {
		r := heap.Pop(&s.queue).(ranked).rule
		for _, alternative := range s.a.rules[r] {
			s.first(alternative, s.calls[r])
		}
	}
	if len(s.tops) == 0 && !s.empty {
		return nil
	}
	tops := make([]top, 0, len(s.tops))
	for _, t := range s.tops {
		tops = append(tops, t)
	}
	slices.SortFunc(tops, func(a, b top) int { return cmp.Compare(a.rest[0].at, b.rest[0].at) })
	unique := s.a.of(s.empty, tops...)
	out := s.a.states[unique]
	if out == nil {
		out = &state{stacks: unique, generation: s.a.generation}
		s.a.states[unique] = out
		s.a.bytes += 2500
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
