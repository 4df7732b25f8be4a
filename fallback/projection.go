package fallback

import (
	"math"

	"github.com/kompute-go/kompute-go/fallback/internal/simd"
	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/opdef"
	"github.com/kompute-go/kompute-go/internal/workers"
)

// projection multiplies rows with quantized matrices: the fused op of that name in
// csrc/ops/ops.def. Every worker prepares a single row, or several of at most ownElements
// elements, for itself, including the norm or SiLU, since waiting for others would take
// longer. More are prepared once, by a loop before the products. The results have the same
// bits as those of the ops that it replaces.
type projection struct {
	op       opdef.ProjectionParams
	dtype    array.DType // of x and of the products; attention_projection's x is rounded to it
	rows     int
	x        *array.Array
	up       *array.Array // of SiLU(x)·up, or absent
	gain     *array.Array
	residual *array.Array
	matrices []*quantizedRows
	outs     []array.Array
	strides  []int     // of outs
	starts   []int     // the first column of each matrix
	best     []float32 // with findsLargest: the largest product of each block, then their places
	index    *array.Array
	shared   *preparedRows // if not nil, what the loop before the products prepares
}

const (
	// projectionAlign is less than grain, because a small matrix has few rows for many workers. Two
	// workers may share a line of the cache, of 16 products, where their pieces meet, which costs less
	// than waiting for larger pieces.
	projectionAlign = 8
	// argMaxBlock is how many products one entry of best covers; chunk is a multiple of it.
	// It is also the smallest piece: with 256, workers waited for the last of them as long
	// as for three loops of a layer.
	argMaxBlock = 64
)

// projectionStages are the products, with a loop before them that prepares many elements of x, or
// one after them that puts the parts of arg_max together.
func projectionStages(a []array.Array, op opdef.ProjectionParams) *Stages {
	o := &opdef.Projection
	s := &Stages{Loops: []Loop{{Kernel: o.Name}}}
	x := &a[o.X.Index]
	rows := x.Size() / x.Dim(-1)
	together := rows > 1 && x.Size() > ownElements
	switch {
	case findsLargest(op): // of one row
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

// projectionOf returns a projection of rows x without any other operands.
func projectionOf(x *array.Array, op opdef.ProjectionParams) *projection {
	absent := &array.Array{}
	return &projection{op: op, x: x, dtype: x.DType, rows: x.Size() / max(x.Dim(-1), 1), up: absent, gain: absent, residual: absent}
}

// newProjection takes the operands of a call.
func newProjection(a []array.Array, op opdef.ProjectionParams) (*projection, error) {
	o := &opdef.Projection
	p := projectionOf(&a[o.X.Index], op)
	p.up, p.gain, p.residual = &a[o.Up.Index], &a[o.Gain.Index], &a[o.Residual.Index]
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
	if x.Size() == 0 {
		c.fail("x of shape %v has no rows", x.Shape)
		return
	}
	rows := x.Size() / x.Dim(-1)
	if rows > 1 && findsLargest(op) {
		c.fail("the largest products of %d rows", rows)
	}
	c.asRows("x", x, rows)
	if up := &a[o.Up.Index]; up.Present() {
		c.shape("up", up, x.Shape)
		c.asRows("up", up, rows)
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

// findsLargest reports whether the result is where the largest product is.
func findsLargest(op opdef.ProjectionParams) bool {
	return op.Epilogue == opdef.ProjectionArgMax || op.Epilogue == opdef.ProjectionGreedy
}

// argMaxBlocks counts the blocks of n products.
func argMaxBlocks(n int) int { return (n + argMaxBlock - 1) / argMaxBlock }

// add adds a matrix and its result, if it has one of its own.
func (p *projection) add(w, scales, biases, out array.Array) error {
	m, err := newQuantizedRows(w, scales, biases, quantizationOf(p.op, &scales))
	if err != nil {
		return err
	}
	if len(p.matrices) > 0 && !p.matrices[0].sharesRows(m) {
		c := checker{op: opdef.Projection.Name}
		c.fail("matrices of %d and %d columns are not multiplied with the same rows", p.matrices[0].K(), m.K())
		return c.err
	}
	p.starts = append(p.starts, p.columns())
	p.matrices = append(p.matrices, m)
	p.outs, p.strides = append(p.outs, out), append(p.strides, strideOf(&out))
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

// columns counts the columns of all matrices side by side; with SiLU, those of one of the two.
func (p *projection) columns() int {
	n := 0
	for i, m := range p.matrices {
		if i == 0 || p.op.Epilogue != opdef.ProjectionSiLUMul {
			n += m.N()
		}
	}
	return n
}

func (p *projection) parts() []workers.Part {
	switch p.op.Epilogue {
	case opdef.ProjectionArgMax, opdef.ProjectionGreedy:
		p.index = &p.outs[0]
		products := p.loop(argMaxBlock, p.argMax)
		return []workers.Part{products, {Units: 1, Cost: float64(len(p.best)) / 8, Run: p.joinArgMax}}
	case opdef.ProjectionSiLUMul:
		products := p.loop(projectionAlign, p.siLUMul)
		products.Cost *= 2
		return []workers.Part{products}
	case opdef.ProjectionResidual:
		return []workers.Part{p.loop(projectionAlign, p.addResidual)}
	}
	return []workers.Part{p.loop(projectionAlign, p.store)}
}

// store stores a block, whose columns may be of several matrices.
func (p *projection) store(b block) {
	for i := range p.matrices {
		if from, to := p.columnsOf(i, b.lo, b.hi); from < to {
			part := b
			part.lo, part.hi = from, to
			p.storeTo(&part, i, p.products(&part, i, p.placeIn(&part, i)))
		}
	}
}

// columnsOf returns which of columns [lo, hi) of all are those of a matrix; with SiLU, both have them.
func (p *projection) columnsOf(matrix, lo, hi int) (from, to int) {
	if p.op.Epilogue == opdef.ProjectionSiLUMul {
		return lo, hi
	}
	start := p.starts[matrix]
	return max(lo-start, 0), min(hi-start, p.matrices[matrix].N())
}

// placeIn returns where to compute a block of a result.
func (p *projection) placeIn(b *block, matrix int) []float32 {
	if p.rows > 1 {
		return b.take()
	}
	out, stride := &p.outs[matrix], p.strides[matrix]
	return place(out, out.Offset+b.lo*stride, stride, b.hi-b.lo, b.space)
}

// strideOf returns how far apart the elements of a result or residual are. Those of a contiguous one
// follow one another, whatever stride an axis of one element has: the last axis may be one.
func strideOf(a *array.Array) int {
	if !a.Present() || a.IsContiguous() {
		return 1
	}
	return a.Strides[len(a.Strides)-1]
}

// storeTo stores a block of a result.
func (p *projection) storeTo(b *block, matrix int, products []float32) {
	out, stride, n := &p.outs[matrix], p.strides[matrix], b.hi-b.lo
	for i := b.first; i < b.end; i++ {
		storeFloats(out, out.Offset+(i*p.matrices[matrix].N()+b.lo)*stride, stride, cut(&products, n))
	}
}

// products returns a block of the products with a matrix, in res.
func (p *projection) products(b *block, matrix int, res []float32) []float32 {
	p.matrices[matrix].multiplyRows(res, b.hi-b.lo, b.x, b.first, b.end, b.lo, b.hi)
	return res
}

// addResidual is store of one matrix, to which the residual is added.
func (p *projection) addResidual(b block) {
	n := b.hi - b.lo
	sums := p.products(&b, 0, b.take())
	roundFloats(p.dtype, sums)
	stride := strideOf(p.residual)
	for i := b.first; i < b.end; i++ {
		row := sums[(i-b.first)*n:][:n]
		binaryFloatRow(opdef.BinaryAdd, row, row, floats(p.residual, p.residual.Offset+(i*p.matrices[0].N()+b.lo)*stride, stride, n, b.space))
	}
	p.storeTo(&b, 0, sums)
}

// siLUMul stores SiLU of the first matrix's products times the second's.
func (p *projection) siLUMul(b block) {
	gate := p.products(&b, 0, b.take())
	up := p.products(&b, 1, b.take())
	roundFloats(p.dtype, gate)
	roundFloats(p.dtype, up)
	res := p.placeIn(&b, 0)
	simd.SiLUMul(res, gate, up)
	p.storeTo(&b, 0, res)
}

// argMax finds the largest of every argMaxBlock products of one row; b begins at a multiple of them.
func (p *projection) argMax(b block) {
	sums := p.products(&b, 0, b.take())
	roundFloats(array.DType(p.op.Dtype), sums)
	for lo := b.lo; lo < b.hi; lo += argMaxBlock {
		some := cut(&sums, min(argMaxBlock, b.hi-lo))
		at, entry := firstLargest(some), lo/argMaxBlock
		p.best[entry], p.best[len(p.best)/2+entry] = some[at], math.Float32frombits(uint32(lo+at))
	}
}

// joinArgMax finds the largest of all blocks, the first of several equal ones, and stores its place,
// or with greedy what stands for none.
func (p *projection) joinArgMax(*workers.Context, int, int) error {
	blocks := len(p.best) / 2
	at := firstLargest(p.best[:blocks])
	place := math.Float32bits(p.best[blocks+at])
	if p.op.Epilogue == opdef.ProjectionGreedy {
		place = greedyToken(p.best[at], place)
	}
	storage[uint32](p.index)[p.index.Offset] = place
	return nil
}
