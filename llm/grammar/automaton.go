package grammar

import (
	"slices"
	"unsafe"
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
}

// rule lists alternatives.
type rule [][]element

// frame is a stack: what comes next, and below it what follows.
type frame struct {
	rest  []element // not empty
	below *frame
	id    uint32
}

// state is a set of stacks, each with a set of bytes on top.
type state struct {
	frames   []*frame // by id
	complete bool     // whether one of the stacks is empty
	next     [256]*state
	known    set // which entries of next are known; a known nil: that byte may not follow
	mask     []uint64
}

type frameKey struct {
	rest  *element
	below *frame
}

// automaton finds states. Known ones are discarded when there are too many; matchers
// keep theirs.
type automaton struct {
	rules  []rule
	frames map[frameKey]*frame
	states map[string]*state
	ids    uint32
}

const (
	mostFrames = 1 << 16
	mostStates = 1 << 12
)

func (a *automaton) forget() {
	a.frames, a.states = map[frameKey]*frame{}, map[string]*state{}
}

// frame returns the unique stack with that top and rest.
func (a *automaton) frame(rest []element, below *frame) *frame {
	key := frameKey{unsafe.SliceData(rest), below}
	f := a.frames[key]
	if f == nil {
		a.ids++
		f = &frame{rest, below, a.ids}
		a.frames[key] = f
	}
	return f
}

// expand adds the stacks that have a set of bytes on top.
func (a *automaton) expand(s *state, rest []element, below *frame) {
	for len(rest) == 0 {
		if below == nil {
			s.complete = true
			return
		}
		rest, below = below.rest, below.below
	}
	if rest[0].set != nil {
		s.frames = append(s.frames, a.frame(rest, below))
		return
	}
	if len(rest) > 1 {
		below = a.frame(rest[1:], below)
	}
	for _, alternative := range a.rules[rest[0].rule] {
		a.expand(s, alternative, below)
	}
}

// known returns the unique state with these stacks.
func (a *automaton) known(s *state) *state {
	slices.SortFunc(s.frames, func(a, b *frame) int { return int(a.id) - int(b.id) })
	s.frames = slices.Compact(s.frames)
	if len(s.frames) == 0 && !s.complete {
		return nil
	}
	ids := make([]uint32, 1, len(s.frames)+1)
	if s.complete {
		ids[0] = 1
	}
	for _, f := range s.frames {
		ids = append(ids, f.id)
	}
	key := string(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(ids))), 4*len(ids)))
	if found := a.states[key]; found != nil {
		return found
	}
	if len(a.states) >= mostStates || len(a.frames) >= mostFrames {
		a.forget()
	}
	a.states[key] = s
	return s
}

// next returns the state after a byte, or nil if the byte may not follow.
func (a *automaton) next(s *state, b byte) *state {
	if s.known.has(b) {
		return s.next[b]
	}
	out := &state{}
	for _, f := range s.frames {
		if f.rest[0].set.has(b) {
			a.expand(out, f.rest[1:], f.below)
		}
	}
	s.known.add(b, b)
	s.next[b] = a.known(out)
	return s.next[b]
}
