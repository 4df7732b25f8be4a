package fallback

import (
	"runtime"
	"slices"
	"sync"

	"github.com/kompute-go/kompute-go/fallback/internal/simd"
	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/opdef"
)

// QuantizedMatMul multiplies x [..., M, K] with a quantized matrix to out
// [..., M, N]. With transpose, w is [N, K*bits/32] uint32 with scales and biases
// [N, K/group], and out = x·wᵀ; without, w is [K, N*bits/32] with scales and
// biases [K, N/group], and out = x·w. x and out have one float type, independent
// of that of scales and biases. Sums run in float32. In the modes without biases
// scales are uint8, and biases absent.
//
// Errors: ErrInvalid for other shapes or types, or a format that does not exist.
func QuantizedMatMul(x, w, scales, biases, out array.Array, q Quantization, transpose bool) error {
	c := checker{op: "quantized_matmul"}
	a := c.packed(&w, &scales, &biases, q)
	c.rank("w", &w, 2)
	c.float("x", &x)
	c.float("out", &out)
	c.dtype("out", &out, x.DType)
	if c.err == nil && len(x.Shape) < 2 {
		c.fail("x has shape %v, less than 2 axes", x.Shape)
	}
	if c.err != nil {
		return c.err
	}
	k, n := w.Shape[0], a.cols
	if transpose {
		k, n = n, k
	}
	last := len(x.Shape) - 1
	if x.Shape[last] != k {
		c.fail("rows of x have %d elements, w takes %d", x.Shape[last], k)
	}
	c.shape("out", &out, append(slices.Clone(x.Shape[:last]), n))
	if c.err != nil || out.Size() == 0 {
		return c.err
	}
	rows := out.Size() / n
	if transpose {
		(&QuantizedRows{a}).products(&x, &out, rows)
		return nil
	}
	// All rows become one matrix, so that each tile of w is made once for all.
	flatX, flatOut := flatten(&x, rows), flatten(&out, rows)
	if flatX != nil && flatOut != nil {
		a.product(flatX, flatOut)
		return nil
	}
	a.product(&x, &out)
	return nil
}

// flatten views an array as a matrix of rows, or returns nil where that needs a
// copy.
func flatten(x *array.Array, rows int) *array.Array {
	l, err := x.Reshape(rows, x.Dim(-1))
	if err != nil {
		return nil
	}
	return &array.Array{DType: x.DType, Layout: l, Data: x.Data}
}

// products multiplies each row of x with w [N, K].
func (m *QuantizedRows) products(x, out *array.Array, rows int) {
	p := preparedRows.Get().(*PreparedRows)
	defer preparedRows.Put(p)
	m.Reset(p, rows)
	last := len(x.Shape) - 1
	l := newLoop(last, x, out)
	for again := true; again; again = p.Again() {
		l.each(0.3*float64(m.cols), func(at cursor, lo, hi int) {
			scratch := borrow(m.cols)
			defer scratch.release()
			for i := lo; i < hi; i++ {
				p.Set(i, floats(x, at.off[0], x.Strides[last], m.cols, scratch.f))
				at.next()
			}
		})
	}
	n, stride := m.N(), out.Strides[last]
	height, width := m.blocks(rows)
	across := (n + width - 1) / width
	down := (rows + height - 1) / height
	flat := flatten(out, rows)
	direct := flat != nil && flat.DType == array.Float32 && flat.Strides[1] == 1
	// Neighbouring units use the same rows of x, which then stay in a core's cache.
	parallel(down*across, m.cost(height)*float64(width), func(lo, hi int) {
		for unit := lo; unit < hi; unit++ {
			first, column := unit/across*height, unit%across*width
			end, columns := min(first+height, rows), min(column+width, n)
			if direct {
				to := storage[float32](flat)[flat.Offset+first*flat.Strides[0]+column:]
				m.MultiplyRows(to, flat.Strides[0], p, first, end, column, columns)
				continue
			}
			m.store(out, &l, p, first, end, column, columns, stride)
		}
	})
}

// blocks chooses how many rows of x and of w a unit of work has. With large units, x
// is read and w made into tiles less often; but each thread should have several.
func (m *QuantizedRows) blocks(rows int) (height, width int) {
	if rows <= maxLimbRows {
		return rows, Grain
	}
	height, width = min(2*chunk, rows), chunk
	if m.tiled() {
		height = min(chunk/2, rows)
		if m.cols > 1536 { // so that the tiles of x and of w fit in a core's cache
			width = chunk / 2
		}
	}
	height = (height + Grain - 1) / Grain * Grain
	const enough = 4 // units for each thread
	for threads := runtime.GOMAXPROCS(0); ; {
		switch units := (rows + height - 1) / height * ((m.N() + width - 1) / width); {
		case units >= enough*threads:
			return height, width
		case width > 2*Grain:
			width /= 2
		case height > 2*Grain:
			height = max(height/2/Grain*Grain, 2*Grain)
		case width > Grain:
			width /= 2
		case units < (enough-1)*threads && height > Grain:
			height = max(height/2/Grain*Grain, Grain)
		default:
			return height, width
		}
	}
}

// preparedRows are kept for reuse.
var preparedRows = sync.Pool{New: func() any { return new(PreparedRows) }}

// cost is what the products with one row of w take, in nanoseconds or so.
func (m *QuantizedRows) cost(rows int) float64 {
	cost := 0.03 * float64(m.cols) * float64(rows+2)
	if simd.Active() == simd.Generic {
		cost *= 16
	}
	return cost
}

// store computes rows [first, end) and columns [lo, hi) of out.
func (m *QuantizedRows) store(out *array.Array, l *loop, p *PreparedRows, first, end, lo, hi, stride int) {
	sums := borrow((end - first) * (hi - lo))
	defer sums.release()
	m.MultiplyRows(sums.f, hi-lo, p, first, end, lo, hi)
	at := l.seek(l.rank, first)
	for i := range end - first {
		storeFloats(out, at.off[1]+lo*stride, stride, sums.f[i*(hi-lo):(i+1)*(hi-lo)])
		at.next()
	}
}

// product multiplies with tiles of w [K, N] that are dequantized once for many
// rows.
func (a *packed) product(x, out *array.Array) {
	r := len(x.Shape)
	outLoop := newLoop(r-2, out)
	g := gemm{
		batches: outLoop.size, m: x.Shape[r-2], n: out.Shape[r-1], k: x.Shape[r-1],
		out: out, outLoop: &outLoop, tileCost: 1,
	}
	if g.k == 0 {
		g.a = func(int) rowMatrix { return rowMatrix{} }
	} else {
		var release func()
		g.a, release = floatMatrices(x)
		defer release()
	}
	var f factors
	if a.Mode == opdef.ModeAffine {
		f = a.factors()
		defer f.release()
	}
	g.tile = func(_, k0, kn, n0, nn int, buf []float32) rowMatrix {
		g0, g1 := n0/a.GroupSize, (n0+nn)/a.GroupSize
		if a.Mode != opdef.ModeAffine {
			for i := range kn {
				at := k0 + i
				a.values(buf[i*nn:], a.w.Offset+at*a.w.Strides[0], a.scales.Offset+at*a.scales.Strides[0], g0, g1)
			}
			return rowMatrix{buf, nn}
		}
		w := a.rows(&f, k0, k0+kn, g0, g1)
		simd.Dequantize(buf, nn, &w, kn)
		return rowMatrix{buf, nn}
	}
	g.run()
}
