package workers

import "time"

// Step is work that can run concurrently: its parts do not depend on each other.
type Step []Part

// Part is a loop over units.
type Part struct {
	Units int
	// Size, if not nil, is called when the step begins, and returns how many units
	// there are this time, at most Units.
	Size func() int
	// The loop may be cut at multiples of Align; 0 means 1.
	Align int
	// Cost is the approximate time of a unit in nanoseconds.
	Cost float64
	// Run runs units [lo, hi). The first error of a schedule ends it.
	Run func(c *Context, lo, hi int) error
	// Prefetch, if not nil, asks for memory that units [lo, hi) will probably read. Workers that
	// wait call that of a step's first part, while others may run any part of the schedule, and even
	// when the last run is over. So it must not load what a part writes, and must not panic. The
	// range may be empty, and counts up to Units, whatever Size returns.
	Prefetch func(lo, hi int)
}

// Context belongs to one worker of a schedule.
type Context struct {
	Local any // for the parts to keep anything
	// Worker differs from those of the other workers that are active.
	Worker int

	follows        bool
	unclocked      float64 // the cost of what the worker has done since it looked at the clock
	turn, prepared uint64  // prepared: the turn and the part of the last call of Prepared
	part, last     *part
}

// Prepared reports whether this worker has called it before in this run of the
// part. If so, what it has put into Local since is still there.
func (c *Context) Prepared() bool {
	if c.prepared == c.turn && c.last == c.part {
		return true
	}
	c.prepared, c.last = c.turn, c.part
	return false
}

// Follows reports whether the worker's last call of a Run was of the same step, and all
// that it has done since is to take these units, which are of its own share.
func (c *Context) Follows() bool { return c.follows }

// Forget makes Prepared false again, for parts that run others.
func (c *Context) Forget() { c.last = nil }

const (
	// worthwhile is the least work for which another worker is called, in
	// nanoseconds of a part's cost.
	worthwhile = 3000
	// pieceTime is the cost of the smallest piece that a part is cut into.
	pieceTime = 500
	// mostPieces bounds how many pieces one part is cut into.
	mostPieces = 1 << 14
)

// step is a Step whose parts are cut into pieces.
type step struct {
	parts []part
	small bool // every piece costs at most smallPiece
	// A step without Size is measured once, so that whoever opens it need not look at its parts.
	constant bool
	pieces   int
	cost     float64
}

// newStep cuts the parts that have units.
func newStep(from Step) step {
	s := step{small: true, constant: true}
	for _, p := range from {
		if p.Units > 0 {
			cut := part{Part: p}
			cut.cut(pieceTime)
			s.parts = append(s.parts, cut)
			s.small = s.small && p.Cost*float64(cut.length) <= smallPiece
			s.constant = s.constant && p.Size == nil
		}
	}
	if s.constant {
		s.pieces, s.cost = s.measure()
	}
	return s
}

// measure counts the pieces of this turn, and estimates their cost.
func (s *step) measure() (pieces int, cost float64) {
	for i := range s.parts {
		p := &s.parts[i]
		p.begin(pieces)
		pieces += p.pieces
		cost += p.Cost * float64(p.units)
	}
	return pieces, cost
}

// part is a Part cut into pieces.
type part struct {
	Part
	length int // units of a piece
	// The size in this turn; only the worker that opens a step writes it.
	units, first, pieces int
}

// cut chooses the length of a piece.
func (p *part) cut(least float64) {
	align := max(p.Align, 1)
	blocks := (p.Units + align - 1) / align
	each := max(p.Cost, 1e-3) * float64(align)
	per := max(int(min(least/each, float64(blocks))), (blocks+mostPieces-1)/mostPieces, 1)
	p.length = per * align
}

// begin counts the pieces of this turn; first is how many pieces the parts before have.
func (p *part) begin(first int) {
	units := p.Units
	if p.Size != nil {
		units = min(max(p.Size(), 0), p.Units)
	}
	pieces := (units + p.length - 1) / p.length
	if p.units == units && p.first == first && p.pieces == pieces {
		return // a store would take the line from every other core's cache
	}
	p.units, p.first, p.pieces = units, first, pieces
}

// run runs pieces [a, b), counted from the step's first.
func (p *part) run(c *Context, a, b int) error {
	lo := (a - p.first) * p.length
	hi := min((b-p.first)*p.length, p.units)
	c.part = p
	return p.Run(c, lo, hi)
}

var start = time.Now()

// now is the time of a monotonic clock.
func now() time.Duration { return time.Since(start) }
