package fallback

import (
	"runtime"
	"sync"

	"github.com/kompute-go/kompute-go/fallback/internal/simd"
	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/opdef"
)

// QuantizedProducts runs calls of quantized_matmul, with operands in the order of its
// row in csrc/ops/ops.def, that have one x and params: x is prepared once for all of
// them, and the work of all is divided between the threads. It returns false, having
// done nothing, if it does not support this for such calls; the caller then runs each by
// itself.
func QuantizedProducts(calls [][]array.Array, params []byte) (bool, error) {
	o, p := &opdef.QuantizedMatMul, opdef.ParamsOf[opdef.QuantizedMatMulParams](params)
	if p.Transpose == 0 {
		return false, nil
	}
	q := Quantization{GroupSize: int(p.GroupSize), Bits: int(p.Bits), Mode: p.Mode}
	var all []rowProduct
	x := &calls[0][o.X.Index]
	for _, a := range calls {
		one, err := newRowProduct(x, &a[o.W.Index], &a[o.Scales.Index], &a[o.Biases.Index], &a[o.Out.Index], q)
		if err != nil {
			return true, err
		}
		if one.out.Size() == 0 || len(all) > 0 && !all[0].sharesRows(one.quantizedRows) {
			return false, nil
		}
		all = append(all, one)
	}
	multiply(x, all)
	return true, nil
}

// rowProduct is out = x·wᵀ.
type rowProduct struct {
	*quantizedRows
	out    *array.Array
	loop   loop         // over the rows of out
	flat   *array.Array // out as a matrix whose elements can be written in place, or nil
	across int          // columns of units
}

// newRowProduct checks the operands of a product with w [N, K].
func newRowProduct(x, w, scales, biases, out *array.Array, q Quantization) (rowProduct, error) {
	c := checker{op: "quantized_matmul"}
	a := c.packed(w, scales, biases, q)
	c.product(x, w, out)
	if c.err == nil {
		c.productShape(x, out, a.cols, w.Shape[0])
	}
	if c.err != nil {
		return rowProduct{}, c.err
	}
	p := rowProduct{quantizedRows: &quantizedRows{a, a.narrowFactors()}, out: out, loop: newLoop(len(x.Shape)-1, x, out)}
	if out.DType == array.Float32 && out.Size() > 0 {
		if flat := flatten(out, out.Size()/out.Dim(-1)); flat != nil && flat.Strides[1] == 1 {
			p.flat = flat
		}
	}
	return p, nil
}

// preparedPool are kept for reuse.
var preparedPool = sync.Pool{New: func() any { return new(preparedRows) }}

// multiply computes products of one x; all of them have elements.
func multiply(x *array.Array, all []rowProduct) {
	p := preparedPool.Get().(*preparedRows)
	defer preparedPool.Put(p)
	rows := all[0].loop.size
	all[0].prepare(p, x)
	height, width := unitSize(all, rows)
	across := 0
	for i := range all {
		all[i].across = (all[i].N() + width - 1) / width
		across += all[i].across
	}
	down := (rows + height - 1) / height
	// Neighbouring units use the same rows of x, which then stay in a core's cache.
	parallel(down*across, all[0].cost(height)*float64(width), func(lo, hi int) {
		for unit := lo; unit < hi; unit++ {
			first, column, i := unit/across*height, unit%across, 0
			for ; column >= all[i].across; i++ {
				column -= all[i].across
			}
			column *= width
			all[i].unit(p, first, min(first+height, rows), column, min(column+width, all[i].N()))
		}
	})
}

// prepare sets the rows of p to those of x.
func (o *rowProduct) prepare(p *preparedRows, x *array.Array) {
	o.Reset(p, o.loop.size)
	stride := x.Strides[len(x.Shape)-1]
	o.loop.each(float64(o.cols), func(at cursor, lo, hi int) {
		scratch := borrow(o.cols)
		defer scratch.release()
		for i := lo; i < hi; i++ {
			p.Set(i, floats(x, at.off[0], stride, o.cols, scratch.f))
			at.next()
		}
	})
}

// blockSize returns how many rows of x and of w are multiplied together at most. With many,
// x is read and w converted less often.
func (a *packed) blockSize(rows int) (height, width int) {
	height, width = 2*chunk, chunk
	switch {
	case a.withRows(rows):
		return rows, chunk
	case a.form(rows) == tileForm: // the tiles of x and of w should fit in a core's cache
		height = chunk
		if a.cols > 1536 && rows > chunk/2 {
			width = chunk / 2
		}
	}
	return min(height, (rows+grain-1)/grain*grain), width
}

// unitSize chooses how many rows of x and of w a unit of work has: as many as are useful, but
// each thread should have several units.
func unitSize(all []rowProduct, rows int) (height, width int) {
	m, columns := &all[0], 0
	if m.withRows(rows) {
		return rows, grain
	}
	for i := range all {
		columns += all[i].N()
	}
	height, width = m.blockSize(rows)
	const enough = 4 // units for each thread
	for threads := runtime.GOMAXPROCS(0); ; {
		switch units := (rows + height - 1) / height * ((columns + width - 1) / width); {
		case units >= enough*threads:
			return height, width
		case width > 2*grain:
			width /= 2
		case height > 2*grain:
			height = max(height/2/grain*grain, 2*grain)
		case width > grain:
			width /= 2
		case units < (enough-1)*threads && height > grain:
			height = max(height/2/grain*grain, grain)
		default:
			return height, width
		}
	}
}

// cost is the approximate time of the products with one row of w, in nanoseconds.
func (m *quantizedRows) cost(rows int) float64 {
	cost := 0.03 * float64(m.cols) * float64(rows+2)
	if simd.Active() == simd.Generic {
		cost *= 16
	}
	return cost
}

// unit computes rows [first, end) and columns [lo, hi) of out.
func (o *rowProduct) unit(p *preparedRows, first, end, lo, hi int) {
	if o.flat != nil {
		stride := o.flat.Strides[0]
		o.multiplyRows(storage[float32](o.flat)[o.flat.Offset+first*stride+lo:], stride, p, first, end, lo, hi)
		return
	}
	sums := borrow((end - first) * (hi - lo))
	defer sums.release()
	o.multiplyRows(sums.f, hi-lo, p, first, end, lo, hi)
	stride := o.out.Strides[len(o.out.Strides)-1]
	at := o.loop.seek(o.loop.rank, first)
	for i := range end - first {
		storeFloats(o.out, at.off[1]+lo*stride, stride, sums.f[i*(hi-lo):(i+1)*(hi-lo)])
		at.next()
	}
}
