package fallback

import "github.com/kompute-go/kompute-go/internal/workers"

// block is rows [first, end) and columns [lo, hi) of products with x. There is space for
// three times as many numbers as it has.
type block struct {
	x                  *preparedRows
	first, end, lo, hi int
	space              []float32
}

// take takes space for a number for each product.
func (b *block) take() []float32 { return cut(&b.space, (b.end-b.first)*(b.hi-b.lo)) }

// loop returns the loop that calls f for blocks, whose columns begin at multiples of align,
// once the rows are prepared. A unit is one column of a row of blocks. f gets a copy: a pointer
// that is passed to a function that the compiler does not know would be allocated.
func (p *projection) loop(align int, f func(block)) workers.Part {
	m := p.matrices[0]
	k, columns := m.K(), p.columns()
	height, width := m.blockSize(p.rows)
	if !m.withRows(p.rows) {
		align = max(align, grain)
	}
	across := (columns + align - 1) / align * align // so that all rows of blocks begin at a multiple of align
	down := (p.rows + height - 1) / height
	run := func(c *workers.Context, unit, end int) error {
		l := laneOf(c, 3*max(k, height*width))
		x := p.shared
		if x == nil {
			if x = &l.prepared; !c.Prepared() {
				p.prefetchRows(0, p.rows)
				p.prefetch(unit%across, min(end, columns))
				m.Reset(x, p.rows)
				p.prepare(x, l.space, 0, p.rows)
			}
		}
		p.prefetchResults(unit%across, min(end, columns))
		for unit < end {
			first, lo := unit/across*height, unit%across
			hi := min(lo+width, lo+end-unit, across)
			f(block{x: x, first: first, end: min(first+height, p.rows), lo: lo, hi: min(hi, columns), space: l.space})
			unit += hi - lo
		}
		return nil
	}
	part := workers.Part{Units: down * across, Align: align, Cost: m.cost(height), Run: run}
	if down == 1 {
		part.Prefetch = func(lo, hi int) { p.prefetch(lo, min(hi, columns)) }
	}
	return part
}
