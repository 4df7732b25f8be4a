package fallback

import (
	"math"

	"github.com/kompute-go/kompute-go/fallback/internal/simd"
	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/opdef"
	"github.com/kompute-go/kompute-go/internal/workers"
)

// projection multiplies rows with quantized matrices: the fused op of that name in
// csrc/ops/ops.def. Where they have few elements, every worker prepares the rows for
// itself, including the norm or SiLU, since waiting for others would take longer; else
// a loop before the products does. The results have the same bits as those of the ops
// that it replaces.
type projection struct {
	op       opdef.ProjectionParams
	dtype    array.DType // of the rows, however they are given, and of the products
	rows     int
	row      func(i int, buf []float32) []float32
	up       func(i int, buf []float32) []float32 // of SiLU(row)·up, else nil
	gain     *array.Array
	residual *array.Array
	matrices []*QuantizedRows
	outs     []array.Array // none with arg_max
	starts   []int         // the first unit of each matrix
	best     []float32     // with arg_max: the largest product of each block, then their places
	index    *array.Array
	shared   *PreparedRows // if not nil, what the loop before the products prepares
}

const (
	// projectionRows is how many rows projections have at most. More, those of prompts, are
	// better divided into blocks as well as columns.
	projectionRows = 64
	// projectionBlock is how many products are computed at a time.
	projectionBlock = 128
	// projectionAlign is the number of products in a line of the cache. It is less
	// than Grain, because a small matrix has few rows for many workers.
	projectionAlign = 16
	// argMaxBlock is how many products one entry of best covers; projectionBlock is a multiple of it.
	// It is also the smallest piece: with 256, workers waited for the last of them as long
	// as for three loops of a layer.
	argMaxBlock = 64
)

func projectionStages(a []array.Array, op opdef.ProjectionParams) *Stages {
	o := &opdef.Projection
	s := &Stages{Loops: []Loop{{Kernel: o.Name}}}
	x := &a[o.X.Index]
	rows := x.Size() / x.Dim(-1)
	together := rows > 1 && x.Size() > ownElements
	switch {
	case op.Epilogue == opdef.ProjectionArgMax: // of one row
		s.Loops = append(s.Loops, Loop{Kernel: "arg_max_join", First: o.Out.Index})
		s.Scratch = 2 * argMaxBlocks(a[o.W.Index].Dim(0))
	case together:
		s.Loops = []Loop{{Kernel: "projection_rows"}, {Kernel: o.Name, First: o.Residual.Index}}
		w := packed{Quantization: quantizationOf(op, &a[o.Scales.Index]), cols: x.Dim(-1)}
		s.Scratch = w.preparedSpace(rows)
	}
	s.Make = func(a []array.Array, scratch []float32) ([]workers.Part, error) {
		p, err := newProjection(a, op)
		switch {
		case err != nil:
			return nil, err
		case !together:
			p.best = scratch
			return p.parts(), nil
		}
		return append([]workers.Part{p.prepareFor(scratch)}, p.parts()...), nil
	}
	return s
}

func newProjection(a []array.Array, op opdef.ProjectionParams) (*projection, error) {
	o := &opdef.Projection
	p := &projection{op: op}
	p.rowsOf(&a[o.X.Index])
	if up := &a[o.Up.Index]; up.Present() {
		p.up = rowsIn(up)
	}
	p.gain, p.residual = &a[o.Gain.Index], &a[o.Residual.Index]
	for i := range opdef.ProjectionGroups {
		m := a[o.W.Index+i*opdef.ProjectionGroupSize:]
		if m[0].Present() {
			if err := p.add(m[0], m[1], m[2], m[3]); err != nil {
				return nil, err
			}
		}
	}
	return p, nil
}

// projection checks what the loops assume.
func (c *checker) projection(a []array.Array, op opdef.ProjectionParams) {
	o := &opdef.Projection
	x := &a[o.X.Index]
	if x.Size() == 0 || x.Size() > projectionRows*x.Dim(-1) {
		c.fail("x of shape %v has no rows, or more than %d", x.Shape, projectionRows)
		return
	}
	rows := x.Size() / x.Dim(-1)
	if rows > 1 && op.Epilogue == opdef.ProjectionArgMax {
		c.fail("the largest products of %d rows", rows)
	}
	c.asRows("x", x, rows)
	if up := &a[o.Up.Index]; up.Present() {
		if rows > 1 { // all workers would compute all of them
			c.fail("SiLU of %d rows", rows)
		}
		c.shape("up", up, x.Shape)
		c.asRow("up", up)
	}
	if op.Epilogue == opdef.ProjectionResidual {
		c.asRows("residual", &a[o.Residual.Index], rows)
	}
	for i := range opdef.ProjectionGroups {
		if m := a[o.W.Index+i*opdef.ProjectionGroupSize:]; m[0].Present() {
			c.asRows("out", &m[3], rows)
		}
	}
}

// argMaxBlocks counts the blocks of n products.
func argMaxBlocks(n int) int { return (n + argMaxBlock - 1) / argMaxBlock }

// add adds a matrix and its result, if it has one of its own.
func (p *projection) add(w, scales, biases, out array.Array) error {
	m, err := NewQuantizedRows(w, scales, biases, quantizationOf(p.op, &scales))
	if err != nil {
		return err
	}
	p.starts = append(p.starts, p.units())
	p.matrices = append(p.matrices, m)
	p.outs = append(p.outs, out)
	return nil
}

// quantizationOf returns the quantization of matrices with such scales.
func quantizationOf(op opdef.ProjectionParams, scales *array.Array) Quantization {
	q := Quantization{GroupSize: int(op.GroupSize), Bits: int(op.Bits)}
	switch {
	case scales.DType != array.Uint8:
	case q.Bits == 8:
		q.Mode = opdef.ModeMXFP8
	case q.GroupSize == 16:
		q.Mode = opdef.ModeNVFP4
	default:
		q.Mode = opdef.ModeMXFP4
	}
	return q
}

// units counts the columns of all matrices side by side. With SiLU, a unit is one
// column of each of the two.
func (p *projection) units() int {
	n := 0
	for i, m := range p.matrices {
		if i == 0 || p.op.Epilogue != opdef.ProjectionSiLUMul {
			n += m.N()
		}
	}
	return n
}

func (p *projection) parts() []workers.Part {
	cost, align := p.matrices[0].cost(p.rows), projectionAlign
	if !p.matrices[0].withRows(p.rows) {
		align = Grain
	}
	switch p.op.Epilogue {
	case opdef.ProjectionArgMax:
		p.index = &p.outs[0]
		n := p.matrices[0].N()
		return []workers.Part{
			{Units: n, Align: argMaxBlock, Cost: cost, Run: p.each(p.argMax)},
			{Units: 1, Cost: float64(len(p.best)) / 8, Run: p.joinArgMax},
		}
	case opdef.ProjectionSiLUMul:
		return []workers.Part{{Units: p.units(), Align: align, Cost: 2 * cost, Run: p.each(p.siLUMul)}}
	case opdef.ProjectionResidual:
		return []workers.Part{{Units: p.units(), Align: align, Cost: cost, Run: p.each(p.addResidual)}}
	}
	return []workers.Part{{Units: p.units(), Align: align, Cost: cost, Run: p.each(p.store)}}
}

// store stores units [lo, hi), maybe of several matrices.
func (p *projection) store(x *PreparedRows, lo, hi int, space []float32) {
	for i := range p.matrices {
		start := p.starts[i]
		from, to := max(lo-start, 0), min(hi-start, p.matrices[i].N())
		if from < to {
			sums := p.products(x, i, from, to, p.placeIn(i, from, to-from, space))
			p.storeTo(i, from, to-from, sums)
		}
	}
}

// placeIn returns where to compute n columns of a result.
func (p *projection) placeIn(matrix, first, n int, buf []float32) []float32 {
	if p.rows > 1 {
		return buf[:p.rows*n]
	}
	out := &p.outs[matrix]
	stride := out.Strides[len(out.Strides)-1]
	return place(out, out.Offset+first*stride, stride, n, buf)
}

// storeTo stores n columns of a result, one row after another.
func (p *projection) storeTo(matrix, first, n int, products []float32) {
	out := &p.outs[matrix]
	stride := out.Strides[len(out.Strides)-1]
	for i := range p.rows {
		storeFloats(out, out.Offset+(i*p.matrices[matrix].N()+first)*stride, stride, products[i*n:(i+1)*n])
	}
}

// products returns columns [lo, hi) of the rows' products with a matrix, in res.
func (p *projection) products(x *PreparedRows, matrix, lo, hi int, res []float32) []float32 {
	p.matrices[matrix].Multiply(res, hi-lo, x, lo, hi)
	return res
}

// addResidual is store of one matrix, to which the residual is added.
func (p *projection) addResidual(x *PreparedRows, lo, hi int, space []float32) {
	n := hi - lo
	sums := p.products(x, 0, lo, hi, cut(&space, p.rows*n))
	roundFloats(p.dtype, sums)
	stride := p.residual.Strides[len(p.residual.Strides)-1]
	for i := range p.rows {
		row := sums[i*n : (i+1)*n]
		for j, v := range floats(p.residual, p.residual.Offset+(i*p.matrices[0].N()+lo)*stride, stride, n, space) {
			row[j] += v
		}
	}
	p.storeTo(0, lo, n, sums)
}

// siLUMul stores SiLU of the first matrix's products times the second's.
func (p *projection) siLUMul(x *PreparedRows, lo, hi int, space []float32) {
	n := hi - lo
	gate := p.products(x, 0, lo, hi, cut(&space, p.rows*n))
	up := p.products(x, 1, lo, hi, cut(&space, p.rows*n))
	roundFloats(p.dtype, gate)
	roundFloats(p.dtype, up)
	res := p.placeIn(0, lo, n, space)
	simd.SiLUMul(res, gate, up)
	p.storeTo(0, lo, n, res)
}

// argMax finds the largest of each block; lo begins one.
func (p *projection) argMax(x *PreparedRows, lo, hi int, space []float32) {
	sums := p.products(x, 0, lo, hi, cut(&space, hi-lo))
	roundFloats(array.DType(p.op.Dtype), sums)
	for ; lo < hi; lo += argMaxBlock {
		some := cut(&sums, min(argMaxBlock, hi-lo))
		at, block := firstLargest(some), lo/argMaxBlock
		p.best[block], p.best[len(p.best)/2+block] = some[at], math.Float32frombits(uint32(lo+at))
	}
}

// firstLargest returns the place of the first NaN or, if there is none, of the first of
// the largest numbers.
func firstLargest(x []float32) int {
	largest := simd.Max(x) // NaN if there is one
	at := 0
	for x[at] != largest && (largest == largest || x[at] == x[at]) {
		at++
	}
	return at
}

// joinArgMax finds the largest of all blocks, the first of several equal ones.
func (p *projection) joinArgMax(*workers.Context, int, int) error {
	blocks := len(p.best) / 2
	storage[uint32](p.index)[p.index.Offset] = math.Float32bits(p.best[blocks+firstLargest(p.best[:blocks])])
	return nil
}
