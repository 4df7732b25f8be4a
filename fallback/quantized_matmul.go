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
	// One matrix of all rows: a tile of w serves every one of them.
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
	l.each(0.3*float64(m.cols), func(at cursor, lo, hi int) {
		scratch := borrow(m.cols)
		defer scratch.release()
		for i := lo; i < hi; i++ {
			p.Set(i, floats(x, at.off[0], x.Strides[last], m.cols, scratch.f))
			at.next()
		}
	})
	n, stride := m.N(), out.Strides[last]
	unit := Grain
	if rows > maxLimbRows { // the more columns, the less often x is read
		unit = min(max(n/(2*runtime.GOMAXPROCS(0))/Grain*Grain, Grain), chunk)
	}
	flat := flatten(out, rows)
	direct := flat != nil && flat.DType == array.Float32 && flat.Strides[1] == 1
	parallel((n+unit-1)/unit, m.cost(rows)*float64(unit), func(lo, hi int) {
		for lo, hi := lo*unit, min(hi*unit, n); lo < hi; lo += chunk {
			end := min(lo+chunk, hi)
			if direct {
				m.Multiply(storage[float32](flat)[flat.Offset+lo:], flat.Strides[0], p, lo, end)
				continue
			}
			m.store(out, &l, p, lo, end, stride)
		}
	})
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

// store computes columns [lo, hi) of out.
func (m *QuantizedRows) store(out *array.Array, l *loop, p *PreparedRows, lo, hi, stride int) {
	sums := borrow(p.rows * (hi - lo))
	defer sums.release()
	m.Multiply(sums.f, hi-lo, p, lo, hi)
	at := l.seek(l.rank, 0)
	for i := range p.rows {
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
