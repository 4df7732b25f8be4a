package fallback

import (
	"slices"

	"github.com/kompute-go/kompute-go/fallback/internal/simd"
	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/opdef"
	"github.com/kompute-go/kompute-go/internal/workers"
)

// QuantizedMatMul multiplies x [..., M, K] with a quantized matrix to out
// [..., M, N] = x·w: w is [K, N*bits/32] uint32 with scales and biases [K, N/group].
// x and out have one float type, independent of that of scales and biases. Sums run
// in float32. In the modes without biases scales are uint8, and biases absent.
//
// Errors: ErrInvalid for other shapes or types, or a format that does not exist.
func QuantizedMatMul(x, w, scales, biases, out array.Array, q Quantization) error {
	c := checker{op: "quantized_matmul"}
	a := c.packed(&w, &scales, &biases, q)
	c.product(&x, &w, &out)
	if c.err == nil {
		c.productShape(&x, &out, w.Shape[0], a.cols)
	}
	if c.err != nil || out.Size() == 0 {
		return c.err
	}
	// All rows become one matrix, so that each tile of w is made once for all.
	rows := out.Size() / a.cols
	flatX, flatOut := flatten(&x, rows), flatten(&out, rows)
	if flatX != nil && flatOut != nil {
		a.product(flatX, flatOut)
		return nil
	}
	a.product(&x, &out)
	return nil
}

// QuantizedMatMulTransposed is QuantizedMatMul for x·wᵀ: w is [N, K*bits/32] with
// scales and biases [N, K/group].
func QuantizedMatMulTransposed(x, w, scales, biases, out array.Array, q Quantization) error {
	p, err := newRowProduct(&x, &w, &scales, &biases, &out, q)
	if err == nil && out.Size() > 0 {
		multiply(&x, []rowProduct{p})
	}
	return err
}

// product checks the ranks and types of a product's operands.
func (c *checker) product(x, w, out *array.Array) {
	c.rank("w", w, 2)
	c.float("x", x)
	c.float("out", out)
	c.dtype("out", out, x.DType)
	if c.err == nil && len(x.Shape) < 2 {
		c.fail("x has shape %v, less than 2 axes", x.Shape)
	}
}

// productShape checks the shapes of a product of rows of k elements with n columns.
func (c *checker) productShape(x, out *array.Array, k, n int) {
	last := len(x.Shape) - 1
	if x.Shape[last] != k {
		c.fail("rows of x have %d elements, w takes %d", x.Shape[last], k)
	}
	c.shape("out", out, append(slices.Clone(x.Shape[:last]), n))
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

// productStages are the stages of a quantized_matmul of one row. For more rows
// there are none, because one thread prepares them for all.
func productStages(a []array.Array, op opdef.QuantizedMatMulParams) *Stages {
	o := &opdef.QuantizedMatMul
	x := &a[o.X.Index]
	if op.Transpose == 0 || op.Mode != opdef.ModeAffine || x.Size() == 0 || x.Size() != x.Dim(-1) {
		return nil
	}
	s := &Stages{Loops: []Loop{{Kernel: o.Name}}}
	s.Make = func(a []array.Array, _ []float32) ([]workers.Part, error) {
		p := projectionOf(&a[o.X.Index], opdef.ProjectionParams{GroupSize: op.GroupSize, Bits: op.Bits})
		if err := p.add(a[o.W.Index], a[o.Scales.Index], a[o.Biases.Index], a[o.Out.Index]); err != nil {
			return nil, err
		}
		return p.parts(), nil
	}
	return s
}
