package fallback

import (
	"runtime"

	"github.com/kompute-go/kompute-go/internal/array"
)

// maxOperands is how many arrays one loop walks together.
const maxOperands = 4

// offsets are element positions in storage, one per operand.
type offsets [maxOperands]int

// loop walks arrays of one shape together, in row-major order, with as few axes
// as possible: neighbours that follow one another in every operand are merged.
type loop struct {
	size     int // elements
	operands int
	rank     int // at least 1
	shape    [array.MaxRank]int
	strides  [array.MaxRank]offsets
	start    offsets
}

// newLoop walks the first rank axes of the operands, all of which have the
// first operand's lengths there.
func newLoop(rank int, arrays ...*array.Array) loop {
	l := loop{size: 1, operands: len(arrays)}
	for k, a := range arrays {
		l.start[k] = a.Offset
	}
	for i, d := range arrays[0].Shape[:rank] {
		l.size *= d
		if d == 1 {
			continue
		}
		var strides offsets
		for k, a := range arrays {
			strides[k] = a.Strides[i]
		}
		if l.rank > 0 && l.follows(d, &strides) {
			l.shape[l.rank-1] *= d
			l.strides[l.rank-1] = strides
			continue
		}
		l.shape[l.rank], l.strides[l.rank] = d, strides
		l.rank++
	}
	if l.rank == 0 {
		l.rank, l.shape[0] = 1, 1
	}
	return l
}

// follows reports whether an axis continues the last one in every operand.
func (l *loop) follows(d int, strides *offsets) bool {
	for k := range l.operands {
		if l.strides[l.rank-1][k] != strides[k]*d {
			return false
		}
	}
	return true
}

// cursor is a place in a loop over the first axes.
type cursor struct {
	l    *loop
	rank int
	at   [array.MaxRank]int
	off  offsets
}

// seek returns the cursor at position i of the first rank axes.
func (l *loop) seek(rank, i int) cursor {
	c := cursor{l: l, rank: rank, off: l.start}
	for axis := rank - 1; axis >= 0; axis-- {
		c.at[axis] = i % l.shape[axis]
		i /= l.shape[axis]
		for k := range l.operands {
			c.off[k] += c.at[axis] * l.strides[axis][k]
		}
	}
	return c
}

// next moves to the next position.
func (c *cursor) next() {
	for axis := c.rank - 1; axis >= 0; axis-- {
		strides := &c.l.strides[axis]
		c.at[axis]++
		if c.at[axis] < c.l.shape[axis] {
			for k := range c.l.operands {
				c.off[k] += strides[k]
			}
			return
		}
		c.at[axis] = 0
		for k := range c.l.operands {
			c.off[k] -= (c.l.shape[axis] - 1) * strides[k]
		}
	}
}

// blockSize is the longest piece of a row in a call by blocks. Where that would give
// the threads few blocks each, the pieces are half as long.
const blockSize = 2048

// blocks calls run, in parallel, for pieces of the last axis: off is where the
// piece starts in each operand, n how long it is. cost is per element. The
// strides of the piece are inner().
func (l *loop) blocks(cost float64, run func(off offsets, n int)) {
	if l.size == 0 {
		return
	}
	length := l.shape[l.rank-1]
	longest := blockSize
	if l.size < 16*blockSize*runtime.GOMAXPROCS(0) {
		longest /= 2
	}
	perRow := (length + longest - 1) / longest
	count := l.size / length * perRow
	cost = cost*float64(l.size)/float64(count) + 5
	if count == 1 {
		run(l.start, length)
		return
	}
	inner := l.inner()
	parallel(count, cost, func(lo, hi int) {
		c := l.seek(l.rank-1, lo/perRow)
		piece := lo % perRow
		for range hi - lo {
			first := piece * longest
			off := c.off
			for k := range l.operands {
				off[k] += first * inner[k]
			}
			run(off, min(longest, length-first))
			if piece++; piece == perRow {
				piece = 0
				c.next()
			}
		}
	})
}

// inner returns the strides of the last axis.
func (l *loop) inner() offsets { return l.strides[l.rank-1] }

// each calls run, in parallel, for ranges of positions. c is at the first of n;
// run moves it. cost is per position.
func (l *loop) each(cost float64, run func(c cursor, lo, hi int)) {
	if l.size == 0 {
		return
	}
	parallel(l.size, cost, func(lo, hi int) {
		run(l.seek(l.rank, lo), lo, hi)
	})
}
