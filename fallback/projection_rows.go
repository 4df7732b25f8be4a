package fallback

import (
	"github.com/kompute-go/kompute-go/fallback/internal/simd"
	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/workers"
)

// ownElements is the largest number of elements that several rows of x may have if every worker
// prepares them for itself.
const ownElements = 4096

// rowOf returns row i of an array of rows.
func rowOf(x *array.Array, i int, buf []float32) []float32 {
	n, last := x.Dim(-1), len(x.Shape)-1
	return floats(x, x.Offset+i*n, x.Strides[last], n, buf)
}

// prepareFor returns the loop that prepares the rows for all workers, in space.
func (p *projection) prepareFor(space []float32) workers.Part {
	p.shared = new(preparedRows)
	p.matrices[0].resetIn(p.shared, p.rows, space)
	k := p.matrices[0].K()
	return workers.Part{Units: p.rows, Cost: 2 * float64(k), Run: func(c *workers.Context, lo, hi int) error {
		p.prefetchRows(lo, hi)
		p.prepare(p.shared, laneOf(c, 3*k).space, lo, hi)
		return nil
	}}
}

// prepare brings rows [lo, hi) into the form that the matrices multiply, with space for three rows.
func (p *projection) prepare(x *preparedRows, space []float32, lo, hi int) {
	k := p.matrices[0].K()
	var gain []float32
	if p.op.Norm != 0 {
		gain = vector(p.gain, cut(&space, k))
	}
	for i := lo; i < hi; i++ {
		space := space
		row := rowOf(p.x, i, cut(&space, k))
		if p.op.Norm != 0 {
			normed := cut(&space, k)
			normalize(normed, row, gain, p.op.Eps)
			roundFloats(p.dtype, normed)
			row = normed
		}
		if p.up.Present() {
			gated := cut(&space, k)
			simd.SiLUMul(gated, row, rowOf(p.up, i, cut(&space, k)))
			roundFloats(p.dtype, gated)
			row = gated
		}
		x.Set(i, row)
	}
}
