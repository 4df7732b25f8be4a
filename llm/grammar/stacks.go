package grammar

import (
	"cmp"
	"encoding/binary"
	"slices"
)

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

// merge returns the stacks of all of these, at least one, which it sorts. It merges them at
// once. If it added one after the other, all results on the way would be kept as well, and their
// size would grow with the square of the number.
func (a *automaton) merge(all []*stacks) *stacks {
	slices.SortFunc(all, func(x, y *stacks) int { return cmp.Compare(x.id, y.id) })
	if all = slices.Compact(all); len(all) == 1 {
		return all[0]
	}
	var key []byte
	for _, s := range all {
		key = binary.NativeEndian.AppendUint64(key, s.id)
	}
	if known := a.merged[string(key)]; known != nil {
		return known
	}
	var tops []top
	empty := false
	for _, s := range all {
		tops, empty = append(tops, s.tops...), empty || s.empty
	}
	out := a.gather(empty, tops)
	a.merged[string(key)] = out
	a.bytes += 50 + len(key)
	return out
}

// gather returns the unique set with these tops, which it sorts. Those at the same place become
// one.
func (a *automaton) gather(empty bool, tops []top) *stacks {
	a.work += len(tops)
	slices.SortFunc(tops, func(x, y top) int { return cmp.Compare(x.rest[0].at, y.rest[0].at) })
	out := tops[:0]
	for n := 0; len(tops) > 0; tops = tops[n:] {
		one := tops[0]
		for n = 1; n < len(tops) && tops[n].rest[0].at == one.rest[0].at; n++ {
		}
		if n > 1 {
			belows := make([]*stacks, n)
			for i := range belows {
				belows[i] = tops[i].below
			}
			one.below = a.merge(belows)
		}
		out = append(out, one)
	}
	return a.of(empty, out...)
}
