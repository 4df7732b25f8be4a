package fallback

import (
	"math/rand/v2"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/kompute-go/kompute-go/internal/array"
)

// gen draws the operands of a test, from rapid or, without it, at random.
type gen struct {
	require.TestingT
	rapid *rapid.T
	rng   *rand.Rand
}

func (g *gen) int(name string, lo, hi int) int {
	if g.rapid == nil {
		return lo + g.rng.IntN(hi-lo+1)
	}
	return rapid.IntRange(lo, hi).Draw(g.rapid, name)
}

func (g *gen) bool(name string) bool { return g.int(name, 0, 1) == 1 }

func (g *gen) dtype(name string, of []array.DType) array.DType {
	return of[g.int(name, 0, len(of)-1)]
}

// order draws a permutation of n axes.
func (g *gen) order(n int) []int {
	if g.rapid == nil {
		return g.rng.Perm(n)
	}
	return rapid.Permutation(indices(n)).Draw(g.rapid, "order")
}

// shape draws a shape; now and then it is large, or empty.
func (g *gen) shape(minRank, maxRank int) []int {
	rank := g.int("rank", minRank, maxRank)
	shape, size := make([]int, rank), 1
	for i := range shape {
		hi := 5
		switch g.int("length", 0, 12) {
		case 0:
			hi = 40
		case 1:
			hi = 2500
		}
		shape[i] = g.int("dim", 1, max(1, min(hi, 6000/size)))
		if g.int("empty", 0, 40) == 0 {
			shape[i] = 0
		}
		size *= max(shape[i], 1)
	}
	return shape
}

// layout draws a layout: permuted, stepped, with gaps and an offset and, if
// repeat is set, perhaps broadcast along some axes.
func (g *gen) layout(shape []int, repeat bool) (array.Layout, int) {
	l, err := array.Contiguous(shape...)
	require.NoError(g, err)
	if g.int("plain", 0, 2) == 0 {
		return l, l.Size()
	}
	order := g.order(len(shape))
	if g.bool("ordered") {
		order = indices(len(shape))
	}
	stride := 1
	for i := len(order) - 1; i >= 0; i-- {
		axis := order[i]
		if repeat && g.int("repeat", 0, 6) == 0 {
			l.Strides[axis] = 0
			continue
		}
		stride *= []int{1, 1, 1, 1, 2, 3}[g.int("step", 0, 5)]
		l.Strides[axis] = stride
		stride *= max(shape[axis], 1)
		stride += g.int("gap", 0, 1) * g.int("gap size", 0, 3)
	}
	l.Offset = g.int("offset", 0, 3)
	_, hi := l.Extent()
	return l, hi + g.int("rest", 0, 2)
}

func indices(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// array draws an operand filled with numbers from value.
func (g *gen) array(dtype array.DType, shape []int, value func() float64) array.Array {
	l, n := g.layout(shape, true)
	return g.fill(array.Array{DType: dtype, Layout: l}, n, value)
}

// output draws an output filled with junk.
func (g *gen) output(dtype array.DType, shape []int) array.Array {
	l, n := g.layout(shape, false)
	return g.fill(array.Array{DType: dtype, Layout: l}, n, func() float64 { return 77 })
}

func (g *gen) fill(a array.Array, n int, value func() float64) array.Array {
	flat, err := array.New(a.DType, n)
	require.NoError(g, err)
	for i := range n {
		setAt(flat, i, value())
	}
	a.Data = flat.Data
	return a
}

// normal draws from a normal distribution.
func (g *gen) normal() float64 { return g.rng.NormFloat64() }

// small draws small whole numbers, also negative ones.
func (g *gen) small() float64 { return float64(g.rng.IntN(9) - 4) }
