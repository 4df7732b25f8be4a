package fallback

import "github.com/kompute-go/kompute-go/internal/workers"

// block is rows [first, end) and columns [lo, hi) of products with x, and has space for
// three times as many numbers.
type block struct {
	x                  *PreparedRows
	first, end, lo, hi int
	space              []float32
}

// numbers takes space for the products.
func (b *block) numbers() []float32 { return cut(&b.space, (b.end-b.first)*(b.hi-b.lo)) }

// blocks returns the loop that calls f for blocks, whose columns begin at multiples of align,
// once the rows are prepared. A unit is a column of the rows of one block.
func (p *projection) blocks(align int, f func(*block)) workers.Part {
	m := p.matrices[0]
	k, columns := m.K(), p.units()
	height, width := m.blockSize(p.rows)
	if !m.withRows(p.rows) {
		align = max(align, Grain)
	}
	across := (columns + align - 1) / align * align
	down := (p.rows + height - 1) / height
	run := func(c *workers.Context, unit, end int) error {
		l := laneOf(c, 3*max(k, height*width))
		x := p.shared
		if x == nil {
			if x = &l.prepared; !c.Prepared() {
				m.Reset(x, p.rows)
				p.prepare(x, l.space, 0, p.rows)
			}
		}
		for unit < end {
			first, lo := unit/across*height, unit%across
			hi := min(lo+width, lo+end-unit, across)
			if lo < columns {
				f(&block{x, first, min(first+height, p.rows), lo, min(hi, columns), l.space})
			}
			unit += hi - lo
		}
		return nil
	}
	return workers.Part{Units: down * across, Align: align, Cost: m.cost(height), Run: run}
}
