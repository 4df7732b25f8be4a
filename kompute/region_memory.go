package kompute

import "slices"

// transient is storage that only a region's ops use. It needs memory from the
// first op that uses it to the last.
type transient struct {
	st          *storage
	first, last int // ops
	offset      int // in the region's arena
}

// arenaAlign is the alignment of transients in bytes.
const arenaAlign = 64

// transients returns the storages that belong to the region and hold nothing
// between replays, in the order of their first use. dev.mu is held.
func (c *capture) transients() []transient {
	var list []transient
	index := make(map[*storage]int)
	for i, op := range c.ops {
		for _, a := range op.Args {
			if a.View == nil {
				continue
			}
			st := a.View.st
			u := c.uses[c.index[st]]
			if !st.closed || u.needs || st.cpu.host != nil || st.bytes == 0 {
				continue
			}
			k, known := index[st]
			if !known {
				k = len(list)
				index[st] = k
				list = append(list, transient{st: st, first: i})
			}
			list[k].last = i
		}
	}
	return list
}

// planTransients gives each transient, in order of first use, the lowest offset
// that is free during its lifetime. It returns the bytes needed with and
// without sharing memory.
func planTransients(list []transient) (bytes, unplanned int) {
	var live []int // indices into list, by offset
	for i := range list {
		t := &list[i]
		live = slices.DeleteFunc(live, func(k int) bool { return list[k].last < t.first })
		size, at := t.size(), 0
		position := len(live)
		for n, k := range live {
			if list[k].offset-at >= size {
				position = n
				break
			}
			at = list[k].offset + list[k].size()
		}
		t.offset = at
		live = slices.Insert(live, position, i)
		bytes = max(bytes, at+size)
		unplanned += size
	}
	return bytes, unplanned
}

func (t *transient) size() int { return (t.st.bytes + arenaAlign - 1) / arenaAlign * arenaAlign }
