package kompute

import "slices"

// transient is memory that only a region's calls use. It is needed from the first
// level that uses it to the last.
type transient struct {
	st          *storage // nil: a call's own
	bytes       int
	first, last int // levels
	offset      int // in the region's arena
}

// arenaAlign is the alignment of transients in bytes.
const arenaAlign = 64

// planTransients gives each transient, in order of first use, the lowest offset
// that is free during its lifetime. It returns the bytes needed with and
// without sharing memory; without share, none is shared.
func planTransients(list []transient, share bool) (bytes, unplanned int) {
	var live []int // indices into list, by offset
	for i := range list {
		t := &list[i]
		live = slices.DeleteFunc(live, func(k int) bool { return list[k].last < t.first && share })
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

func (t *transient) size() int { return (t.bytes + arenaAlign - 1) / arenaAlign * arenaAlign }
