package optest

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/ops"
)

func orientation(transpose bool) ops.Orientation {
	if transpose {
		return ops.Transposed
	}
	return ops.AsStored
}

func runQuantizedMatMulOf[T kompute.Float, S ops.Scale](c *call) *kompute.View {
	return ops.QuantizedMatMul(c.s, tensor[T](c, "x"), tensor[uint32](c, "w"), tensor[S](c, "scales"), tensor[S](c, "biases"),
		c.quantization(), orientation(c.Params.Transpose)).View()
}

func runQuantizedMatMulOn[T kompute.Float](c *call) *kompute.View {
	return byScale(c.dtype("scales"), runQuantizedMatMulOf[T, float32], runQuantizedMatMulOf[T, array.F16], runQuantizedMatMulOf[T, array.BF16], runQuantizedMatMulOf[T, uint8])(c)
}

func runQuantizedMatMul(c *call) *kompute.View {
	return byFloat(c.dtype("x"), runQuantizedMatMulOn[float32], runQuantizedMatMulOn[array.F16], runQuantizedMatMulOn[array.BF16])(c)
}

func referenceQuantizedMatMul(c *Case) []float64 {
	w := unpack(c)
	n := c.In["w"].Dim(0)
	k := len(w) / max(n, 1)
	if !c.Params.Transpose { // w is [k, n]
		n, k = k, n
	}
	var out []float64
	rows(c.In["x"], func(x []float64) {
		for j := range n {
			sum := 0.0
			for i, v := range x {
				if c.Params.Transpose {
					sum += v * w[j*k+i]
				} else {
					sum += v * w[i*n+j]
				}
			}
			out = append(out, sum)
		}
	})
	return round(c.dtype("x"), out)
}

// quantizedProduct makes a case: x [lead…, k] times a matrix to [lead…, n].
func quantizedProduct(f form, r source, dtype, scales array.DType, transpose bool, k, n int, lead ...int) Case {
	grouped, other := k, n
	if !transpose {
		grouped, other = n, k
	}
	in := f.quantized(r, scales, grouped, other)
	in["x"] = r.normal(dtype, 1, append(lead[:len(lead):len(lead)], k)...)
	p := f.params()
	p.Transpose = transpose
	label := fmt.Sprintf("%v/%v/%v/%dx%d", f, scales, map[bool]string{true: "transposed", false: "plain"}[transpose], k, n)
	return Case{Name: name(dtype, label, lead), In: in, Params: p}
}

func quantizedMatMulCases() []Case {
	var cases []Case
	for i, f := range forms() {
		for j, dtype := range floatTypes {
			for l, m := range []int{1, 2, 8, 9, 16, 33} {
				scales := floatTypes[(i+j+l)%3]
				r := newSource(uint64(i*100 + l))
				cases = append(cases,
					quantizedProduct(f, r, dtype, scales, true, 256, 11+l, m),
					quantizedProduct(f, r, dtype, scales, false, 13+l, 128*(1+l%2), m))
			}
		}
	}
	f, r := form{4, 64, ops.ModeAffine}, newSource(1)
	wide := form{4, 128, ops.ModeAffine}
	cases = append(cases,
		quantizedProduct(f, r, array.Float32, array.BFloat16, true, 64, 9, 2, 3, 2),
		quantizedProduct(f, r, array.Float32, array.BFloat16, false, 9, 64, 2, 3, 2),
		quantizedProduct(f, r, array.Float32, array.Float32, true, 64, 1, 1),
		quantizedProduct(f, r, array.Float32, array.Float32, true, 64, 5, 0),
		quantizedProduct(f, r, array.Float32, array.Float32, true, 64, 0, 3),
		quantizedProduct(wide, r, array.Float32, array.BFloat16, true, 9728, 16, 1),
		quantizedProduct(wide, r, array.BFloat16, array.BFloat16, true, 9728, 16, 3),
		quantizedProduct(wide, r, array.Float32, array.BFloat16, false, 3000, 128, 1),
		quantizedProduct(wide, r, array.Float32, array.BFloat16, true, 256, 2048, 1),
		quantizedProduct(wide, r, array.BFloat16, array.BFloat16, true, 256, 512, 65),
		quantizedProduct(form{8, 32, ops.ModeAffine}, r, array.Float16, array.Float16, true, 1024, 70, 130))
	return append(cases, promptProducts()...)
}

// promptProducts are products of many rows, as those of prompts: at the edges of
// tiles, in every form, and with rows of any magnitude.
func promptProducts() []Case {
	var cases []Case
	for i, f := range forms() {
		r, dtype := newSource(uint64(i)), floatTypes[i%3]
		cases = append(cases,
			quantizedProduct(f, r, dtype, floatTypes[(i+1)%3], true, 3*f.group, 63+i%5, 32+i%3),
			quantizedProduct(f, r, array.Float32, floatTypes[i%3], true, 256, 65, 64+i%2))
	}
	r, f := newSource(2), form{4, 128, ops.ModeAffine}
	for _, dtype := range floatTypes {
		product := func(label string, k, m int, change func(row int, x []float64)) {
			c := quantizedProduct(f, r, dtype, array.Float32, true, k, 40, m)
			c.Name = name(dtype, label, []int{m})
			cases = append(cases, changeRows(c, "x", change))
		}
		product("rows of zeros and of every magnitude", 384, 45, func(row int, x []float64) {
			scale(x, math.Pow(10, float64(row%9)-4)*float64(min(row, 1)))
		})
		for _, m := range []int{1, 2, 4, 12, 37} {
			product("rows with infinities and NaNs", 256, m, func(row int, x []float64) {
				special := []float64{math.Inf(1), math.Inf(-1), math.NaN(), math.Inf(1)}
				if row%5 < 4 {
					x[row*7] = special[row%5]
				}
				if row%5 == 3 { // also two that have one sign, or the other, in some of the results
					x[(row*7+100)%256] = math.Inf(-1)
				}
			})
		}
		if dtype != array.Float16 {
			product("rows near 1e30", 384, 40, func(_ int, x []float64) { scale(x, 1e30) })
			product("rows near 1e-30", 384, 40, func(_ int, x []float64) { scale(x, 1e-30) })
		}
	}
	return append(cases,
		quantizedProduct(f, r, array.Float32, array.BFloat16, true, 1024, 200, 2, 3, 40),
		quantizedProduct(f, r, array.Float32, array.BFloat16, true, 3072, 96, 33))
}

// RunFragmentProducts tests quantized products that quantized_matmul_fragments takes, on dev, which
// stays open: at the edges of tiles, by one workgroup and by several for a tile, and with rows of
// either operand that float16 cannot hold.
func RunFragmentProducts(t *testing.T, dev *kompute.Device) {
	r := &runner{suite: quantizedMatMulSuite(), dev: dev, cpu: dev}
	r.cases = fragmentProducts
	r.table(t)
}

func fragmentProducts() []Case {
	var cases []Case
	special := []float64{math.Inf(1), math.Inf(-1), math.NaN()}
	for i, f := range []form{{4, 32, ops.ModeAffine}, {4, 64, ops.ModeAffine}, {4, 128, ops.ModeAffine},
		{4, 32, ops.ModeMXFP4}, {4, 16, ops.ModeNVFP4}, {8, 32, ops.ModeMXFP8}} {
		r := newSource(uint64(i + 40))
		for j, dtype := range floatTypes {
			add := func(label string, k, n, m int, change func(c Case) Case) {
				c := change(quantizedProduct(f, r, dtype, array.BFloat16, true, k, n, m))
				c.Name = name(dtype, fmt.Sprintf("%v/%s", f, label), []int{m})
				cases = append(cases, c)
			}
			same := func(c Case) Case { return c }
			whole := 384 - max(f.group, 32)%128 // too few columns for several workgroups; some are not whole chunks
			infinite := func(by float64) func(c Case) Case {
				return func(c Case) Case {
					return changeRows(c, "x", func(row int, x []float64) {
						if dtype != array.Float16 {
							scale(x, by)
						}
						if row%3 == 0 {
							x[row*7%len(x)] = special[row/3%3]
						}
					})
				}
			}
			flagged := func(c Case) Case {
				if f.mode == ops.ModeMXFP8 {
					c = changeRows(c, "w", nanCodes)
				}
				return changeRows(c, "scales", specialScales(f))
			}
			add("edges", whole+128, 131+4*j, 70+i, same)
			add("several for a tile", 1024, 68+64*j, 150-64*(i%2), same)
			add("rows of x", whole, 130, 77, infinite(1e-30))
			add("rows of x, several for a tile", 1024, 132, 77, infinite(1e29))
			if f.mode == ops.ModeNVFP4 || f.mode == ops.ModeMXFP8 { // others have kernels of their own for so few rows
				add("one tile of rows and a half", whole, 131, 24, same)
				add("few rows", 1024, 132, 60, infinite(1))
			}
			add("rows of w", whole, 131, 77, flagged)
			add("rows of w by fours", whole, 132, 77, flagged)
			add("rows of w, several for a tile", 1024, 132, 77, flagged)
		}
	}
	return cases
}

// nanCodes makes an E4M3 code of some rows NaN.
func nanCodes(row int, words []float64) {
	if row%7 == 2 {
		words[row%len(words)] = float64(0x7f000000 | uint32(words[row%len(words)])&0xffffff)
	}
}

// specialScales makes scales of some rows too far apart for float16, and others NaN or, as E8M0, infinite. E4M3 scales
// are never too far apart.
func specialScales(f form) func(row int, scales []float64) {
	return func(row int, scales []float64) {
		switch {
		case row%5 == 1 && f.affine():
			scales[row%len(scales)] *= 1e-12
		case row%5 == 1 && f.group != 16:
			scales[row%len(scales)] = 30
		case row%5 == 3 && f.affine():
			scales[row%len(scales)] = math.NaN()
		case row%5 == 3:
			scales[row%len(scales)] = 127 // NaN as E4M3, 1 as E8M0
		case row%5 == 4 && !f.affine() && f.group != 16:
			scales[row%len(scales)] = 255
		}
	}
}

func scale(x []float64, by float64) {
	for i := range x {
		x[i] *= by
	}
}

// changeRows changes the rows of an operand.
func changeRows(c Case, operand string, change func(row int, x []float64)) Case {
	var values []float64
	row := 0
	rows(c.In[operand], func(x []float64) {
		change(row, x)
		values = append(values, x...)
		row++
	})
	c.In[operand] = dense(c.dtype(operand), values, c.In[operand].Shape...)
	return c
}

func randomQuantizedMatMul(t *rapid.T) Case {
	f, r := drawForm(t), drawSource(t)
	dtype := drawType(t, "type", floatTypes)
	lead := append(drawShape(t, "batch", 0, 3, 6), rapid.OneOf(rapid.IntRange(0, 20), rapid.IntRange(1, 70)).Draw(t, "rows"))
	grouped, other := f.group*rapid.IntRange(1, 4).Draw(t, "groups"), rapid.IntRange(1, 40).Draw(t, "other")
	transpose := rapid.Bool().Draw(t, "transpose")
	k, p := grouped, f.params()
	if p.Transpose = transpose; !transpose {
		k = other
	}
	in := drawQuantized(t, r, f, grouped, other)
	in["x"] = drawLayout(t, "x", r.normal(dtype, 1, append(lead, k)...))
	return Case{In: in, Params: p}
}

// quantizedMatMulAlong: rows of x are independent, and so are those of a
// transposed matrix, whose groups run along them.
func quantizedMatMulAlong(c *Case, axis int) map[string]int {
	switch {
	case axis < c.In["x"].Rank()-1:
		return map[string]int{"x": axis}
	case c.Params.Transpose:
		return map[string]int{"w": 0, "scales": 0, "biases": 0}
	}
	return nil
}

func quantizedMatMulSuite() suite {
	rejects := quantizedRejects(func(e *env, w *kompute.Tensor[uint32], s, b *kompute.Tensor[float32], q ops.Quantization) error {
		return ops.QuantizedMatMul(e.s, e.f32(2, 64), w, s, b, q, ops.Transposed).Err()
	}, func(e *env, w *kompute.Tensor[uint32], s, b *kompute.Tensor[uint8], q ops.Quantization) error {
		return ops.QuantizedMatMul(e.s, e.f32(2, 64), w, s, b, q, ops.Transposed).Err()
	})
	q := ops.Quantization{GroupSize: 32, Bits: 4}
	product := func(x []int, transpose bool) func(e *env) error {
		return func(e *env) error {
			return ops.QuantizedMatMul(e.s, e.f32(x...), e.u32(3, 8), e.f32(3, 2), e.f32(3, 2), q, orientation(transpose)).Err()
		}
	}
	return suite{
		op: "quantized_matmul", run: runQuantizedMatMul, reference: referenceQuantizedMatMul, cases: quantizedMatMulCases,
		draw: randomQuantizedMatMul, thin: 60,
		// On the CPU, the last rows of a storage may be summed one by one, not by four.
		reorders: func(dev *kompute.Device) bool { return dev.Backend() == "cpu" },
		bound: func(c *Case) bound {
			return sumBound(c.dtype("x"), c.In["x"].Dim(-1), largest(floats(c.In["x"]))*largestElement(c))
		},
		along: quantizedMatMulAlong, regroups: true,
		kinds:    []string{"affine", "mxfp4", "nvfp4", "mxfp8"},
		withRows: func(c *Case, rows int) { c.In["x"] = blank(c.In["x"].DType, rows, c.In["x"].Shape[1]) },
		flop: func(c *Case) float64 {
			return 2 * float64(size(c.In["x"].Shape)) * float64(c.In["w"].Shape[0])
		},
		large: func(dtype array.DType, kind string, size int) Case {
			f := formOf(kind)
			in, p := f.blank(array.BFloat16, 1024, size/1024), f.params()
			in["x"], p.Transpose = blank(dtype, 512, 1024), true
			return Case{Params: p, In: in}
		},
		valid: func() Case {
			return quantizedProduct(form{4, 32, ops.ModeAffine}, newSource(1), array.Float32, array.Float32, true, 64, 3, 2)
		},
		rejects: append(rejects,
			reject{"inner", kompute.ErrShape, product([]int{2, 63}, true)},
			reject{"orientation", kompute.ErrInvalid, func(e *env) error {
				return ops.QuantizedMatMul(e.s, e.f32(2, 64), e.u32(3, 8), e.f32(3, 2), e.f32(3, 2), q, ops.Orientation(2)).Err()
			}},
			reject{"inner untransposed", kompute.ErrShape, product([]int{2, 64}, false)},
			reject{"vector", kompute.ErrShape, product([]int{64}, true)},
			reject{"rank 0", kompute.ErrShape, product(nil, true)},
			reject{"matrix of rank 3", kompute.ErrShape, func(e *env) error {
				return ops.QuantizedMatMul(e.s, e.f32(2, 64), e.u32(2, 3, 8), e.f32(2, 3, 2), e.f32(2, 3, 2), q, ops.Transposed).Err()
			}}),
	}
}
