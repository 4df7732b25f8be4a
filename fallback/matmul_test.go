package fallback

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/fallback/internal/simd"
	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/opdef"
)

// magnitude returns the largest sum of magnitudes in a product of matrices, to
// which rounding errors are in proportion.
func (g *gen) magnitude(a, b array.Array) float64 {
	defer simd.Use(simd.Use(simd.Generic))
	sizes := func(x array.Array) array.Array {
		out, err := array.New(array.Float32, x.Shape...)
		require.NoError(g, err)
		require.NoError(g, Cast(x, out))
		require.NoError(g, Unary(opdef.UnaryAbs, out, out))
		return out
	}
	r := a.Rank() - 1
	sums, err := array.New(array.Float32, append(slices.Clone(a.Shape[:r]), b.Shape[r])...)
	require.NoError(g, err)
	require.NoError(g, MatMul(sizes(a), sizes(b), sums))
	return slices.Max(append(values(sums), 0))
}

// length draws a matrix dimension: often small, at times beyond a tile.
func (g *gen) length(name string, large int) int {
	switch g.int(name+" kind", 0, 10) {
	case 0:
		return g.int(name, 0, 1)
	case 1, 2:
		return g.int(name, 1, large)
	}
	return g.int(name, 1, 20)
}

func TestMatMul(t *testing.T) {
	check(t, func(g *gen) {
		dtype := g.dtype("type", floatTypes)
		var batch []int
		for range g.int("batch axes", 0, 3) {
			batch = append(batch, g.int("batch", 1, 3))
		}
		m, n, k := g.length("m", 70), g.length("n", 300), g.length("k", 700)
		m = min(m, max(1, 1<<19/max(n*k, 1)))
		a := g.array(dtype, append(slices.Clone(batch), m, k), g.normal)
		b := g.array(dtype, append(slices.Clone(batch), k, n), g.normal)
		if g.bool("columns") {
			b = g.array(dtype, append(slices.Clone(batch), n, k), g.normal)
			r := len(batch)
			axes := append(indices(r), r+1, r)
			l, err := b.Transpose(axes...)
			require.NoError(g, err)
			b.Layout = l
		}
		out := g.output(dtype, append(slices.Clone(batch), m, n))
		require.NoError(g, MatMul(a, b, out))
		untouched(g, out)
		g.likeGeneric(func(in []array.Array, out array.Array) error {
			return MatMul(in[0], in[1], out)
		}, out, sumError(k), g.magnitude(a, b), g.copies([]array.Array{a, b}))
	})
}

// sumError is the relative error of summing k float32 numbers: equal numbers, as
// of broadcast operands, are all rounded in the same direction.
func sumError(k int) float64 { return 2e-6 + 4e-8*float64(k) }

func TestMatMulErrors(t *testing.T) {
	x := must(t, []float32{1, 2, 3, 4}, 2, 2)
	require.ErrorIs(t, MatMul(x, must(t, []float32{1, 2}, 2), x), ErrInvalid)
	require.ErrorIs(t, MatMul(must(t, []float32{1, 2}, 2), x, x), ErrInvalid)
	require.ErrorIs(t, MatMul(x, must(t, []float32{1, 2}, 1, 2), x), ErrInvalid)
	require.ErrorIs(t, MatMul(x, x, must(t, []float32{1, 2}, 1, 2)), ErrInvalid)
	require.ErrorIs(t, MatMul(x, must(t, make([]array.F16, 4), 2, 2), x), ErrInvalid)
	i := must(t, []int32{1, 2, 3, 4}, 2, 2)
	require.ErrorIs(t, MatMul(i, i, i), ErrInvalid)
}

// quantized is a random quantized matrix.
type quantized struct {
	w, scales, biases array.Array
	q                 Quantization
}

func (g *gen) quantized(rows, groups int, q Quantization) quantized {
	words := groups * q.GroupSize * q.Bits / 32
	scaleType := g.dtype("scale type", floatTypes)
	small := func() float64 { return g.normal() / math.Exp2(float64(q.Bits)) }
	return quantized{
		w:      g.array(array.Uint32, []int{rows, words}, func() float64 { return float64(g.rng.Uint32()) }),
		scales: g.array(scaleType, []int{rows, groups}, small),
		biases: g.array(scaleType, []int{rows, groups}, g.normal),
		q:      q,
	}
}

func eachFormat(t *testing.T, f func(t *testing.T, q Quantization)) {
	for _, bits := range []int{2, 3, 4, 5, 6, 8} {
		for _, group := range []int{32, 64, 128} {
			q := Quantization{GroupSize: group, Bits: bits}
			t.Run(fmt.Sprintf("bits=%d/group=%d", bits, group), func(t *testing.T) { f(t, q) })
		}
	}
}

func TestQuantizedMatMul(t *testing.T) {
	eachFormat(t, func(t *testing.T, q Quantization) {
		for _, transpose := range []bool{true, false} {
			t.Run(fmt.Sprint("transpose=", transpose), func(t *testing.T) {
				sample(t, func(g *gen) { quantizedMatMulCase(g, q, transpose) })
			})
		}
	})
	check(t, func(g *gen) { quantizedMatMulCase(g, g.format(), g.bool("transpose")) })
}

// format draws a quantization.
func (g *gen) format() Quantization {
	return Quantization{GroupSize: 32 << g.int("group", 0, 2), Bits: []int{2, 3, 4, 5, 6, 8}[g.int("bits", 0, 5)]}
}

func quantizedMatMulCase(g *gen, q Quantization, transpose bool) {
	m, other := g.length("m", 70), g.length("n", 90)
	groups := g.int("groups", 0, max(1, 640/q.GroupSize))
	m = min(m, max(1, 20*20*8/max(other*groups, 1)))
	w := g.quantized(other, groups, q)
	k, n := groups*q.GroupSize, other
	if !transpose {
		k, n = n, k
	}
	var batch []int
	if g.bool("batched") {
		batch = []int{g.int("batch", 1, 3)}
	}
	dtype := g.dtype("type", floatTypes)
	x := g.array(dtype, append(slices.Clone(batch), m, k), g.normal)
	out := g.output(dtype, append(slices.Clone(batch), m, n))
	weights, err := array.New(array.Float32, other, groups*q.GroupSize)
	require.NoError(g, err)
	require.NoError(g, Dequantize(w.w, w.scales, w.biases, weights, q))
	product := QuantizedMatMul
	if transpose {
		product = QuantizedMatMulTransposed
		weights.Layout, err = weights.Transpose(1, 0)
		require.NoError(g, err)
	}
	weights.Layout, err = weights.Broadcast(append(slices.Clone(batch), k, n)...)
	require.NoError(g, err)
	g.agree(func(in []array.Array, out array.Array) error {
		return product(in[0], in[1], in[2], in[3], out, q)
	}, out, sumError(k), g.magnitude(x, weights), x, w.w, w.scales, w.biases)
}

func TestDequantize(t *testing.T) {
	property := func(g *gen, q Quantization) {
		rows, groups := g.int("rows", 0, 9), g.int("groups", 0, 5)
		w := g.quantized(rows, groups, q)
		out := g.output(g.dtype("type", floatTypes), []int{rows, groups * q.GroupSize})
		g.agree(func(in []array.Array, out array.Array) error {
			return Dequantize(in[0], in[1], in[2], out, q)
		}, out, 3e-7, 1, w.w, w.scales, w.biases)
	}
	eachFormat(t, func(t *testing.T, q Quantization) { sample(t, func(g *gen) { property(g, q) }) })
	check(t, func(g *gen) { property(g, g.format()) })
}

func TestQuantizedGather(t *testing.T) {
	property := func(g *gen, q Quantization) {
		rows, groups := g.int("rows", 1, 9), g.int("groups", 0, 3)
		w := g.quantized(rows, groups, q)
		index := g.array(g.dtype("index type", indexTypes), []int{g.int("a", 0, 4), g.int("b", 1, 4)}, func() float64 { return g.index(rows) })
		out := g.output(g.dtype("type", floatTypes), append(slices.Clone(index.Shape), groups*q.GroupSize))
		g.agree(func(in []array.Array, out array.Array) error {
			return QuantizedGather(in[0], in[1], in[2], in[3], out, q)
		}, out, 3e-7, 1, w.w, w.scales, w.biases, index)
	}
	eachFormat(t, func(t *testing.T, q Quantization) { sample(t, func(g *gen) { property(g, q) }) })
	check(t, func(g *gen) { property(g, g.format()) })
}

func TestDequantizeRanks(t *testing.T) {
	w := must(t, []uint32{0x76543210, 0xfedcba98, 0, 0}, 4)
	s, b := must(t, []float32{2}, 1), must(t, []array.F16{array.F16FromFloat32(-1)}, 1)
	out := must(t, make([]float32, 32), 32)
	require.NoError(t, Dequantize(w, s, b, out, Quantization{GroupSize: 32, Bits: 4}))
	require.Equal(t, []float64{-1, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, -1}, values(out)[:17])
}

func TestQuantizedErrors(t *testing.T) {
	q := Quantization{GroupSize: 32, Bits: 4}
	w := must(t, make([]uint32, 8), 2, 4)
	s := must(t, make([]float32, 2), 2, 1)
	x, out := must(t, make([]float32, 32), 1, 32), must(t, make([]float32, 2), 1, 2)
	wide := must(t, make([]float32, 64), 2, 32)
	require.NoError(t, QuantizedMatMulTransposed(x, w, s, s, out, q))
	require.NoError(t, Dequantize(w, s, s, wide, q))

	require.ErrorContains(t, Dequantize(w, s, s, wide, Quantization{GroupSize: 48, Bits: 4}), "group size 48")
	require.ErrorContains(t, Dequantize(w, s, s, wide, Quantization{GroupSize: 32, Bits: 7}), "7 bits")
	require.ErrorIs(t, Dequantize(w, s, s, wide, Quantization{GroupSize: 32, Bits: 8}), ErrInvalid)
	require.ErrorIs(t, Dequantize(wide, s, s, wide, q), ErrInvalid)
	require.ErrorIs(t, Dequantize(w, w, s, wide, q), ErrInvalid)
	require.ErrorIs(t, Dequantize(w, s, must(t, []float32{1}, 1, 1), wide, q), ErrInvalid)
	require.ErrorIs(t, Dequantize(w, must(t, []float32{1}, 1), s, wide, q), ErrInvalid)
	require.ErrorIs(t, Dequantize(must(t, []uint32{0}), s, s, wide, q), ErrInvalid)
	require.ErrorIs(t, Dequantize(w, s, s, x, q), ErrInvalid)

	require.ErrorIs(t, QuantizedMatMul(x, w, s, s, out, q), ErrInvalid)
	require.ErrorIs(t, QuantizedMatMulTransposed(out, w, s, s, out, q), ErrInvalid)
	require.ErrorIs(t, QuantizedMatMulTransposed(must(t, make([]float32, 32), 32), w, s, s, out, q), ErrInvalid)
	require.ErrorIs(t, QuantizedMatMulTransposed(must(t, make([]array.F16, 32), 1, 32), w, s, s, out, q), ErrInvalid)
	require.ErrorIs(t, QuantizedMatMulTransposed(w, w, s, s, out, q), ErrInvalid)

	index := must(t, []int32{0, 1}, 2)
	require.NoError(t, QuantizedGather(w, s, s, index, wide, q))
	require.ErrorIs(t, QuantizedGather(w, s, s, s, wide, q), ErrInvalid)
	require.ErrorIs(t, QuantizedGather(w, s, s, index, x, q), ErrInvalid)
	row := must(t, make([]uint32, 4), 4)
	require.ErrorIs(t, QuantizedGather(row, must(t, []float32{1}, 1), must(t, []float32{1}, 1), index, wide, q), ErrInvalid)
}
