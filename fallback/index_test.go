package fallback

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/array"
)

var indexTypes = []array.DType{array.Int32, array.Uint32}

// index draws an index of an axis, sometimes outside it.
func (g *gen) index(n int) float64 { return float64(g.rng.IntN(2*n+3) - n - 1) }

func TestGather(t *testing.T) {
	check(t, func(g *gen) {
		dtype, shape := g.dtype("type", allTypes), g.shape(1, 5)
		axis := g.int("axis", 0, len(shape)-1)
		picks := g.shape(0, 3)
		outShape := slices.Concat(shape[:axis], picks, shape[axis+1:])
		for i, size := 0, 1; i < len(outShape); i++ { // not too large
			outShape[i] = min(outShape[i], max(1, 1<<15/size))
			size *= max(outShape[i], 1)
		}
		copy(shape, outShape[:axis])
		copy(picks, outShape[axis:])
		copy(shape[axis+1:], outShape[axis+len(picks):])
		x := g.array(dtype, shape, func() float64 { return float64(g.rng.IntN(256)) })
		index := g.array(g.dtype("index type", indexTypes), picks, func() float64 { return g.index(shape[axis]) })
		out := g.output(dtype, outShape)
		given := axis
		if g.bool("from the end") {
			given -= len(shape)
		}
		g.agree(func(in []array.Array, out array.Array) error {
			defer func() { given = axis }() // the copies count the axis from the front
			return Gather(in[0], in[1], out, given)
		}, out, 0, 0, x, index)
	})
	x, index := must(t, []float32{1, 2}, 2), must(t, []int32{1}, 1)
	require.ErrorIs(t, Gather(x, x, x, 0), ErrInvalid)
	require.ErrorIs(t, Gather(x, index, x, 0), ErrInvalid)
	require.ErrorIs(t, Gather(x, index, must(t, []float32{0}, 1), 1), ErrInvalid)
	require.ErrorIs(t, Gather(x, index, index, 0), ErrInvalid)
}

func TestSliceUpdate(t *testing.T) {
	check(t, func(g *gen) {
		dtype, shape := g.dtype("type", allTypes), g.shape(0, 8)
		part := slices.Clone(shape)
		for i, d := range part {
			part[i] = g.int("part", 0, d)
		}
		dst := g.output(dtype, shape)
		update := g.array(dtype, part, func() float64 { return float64(g.rng.IntN(256)) })
		starts := g.array(array.Int32, []int{len(shape)}, func() float64 { return float64(g.rng.IntN(9) - 3) })
		var given []int
		if g.bool("from the host") { // the copies then get theirs from an array
			for _, at := range values(starts) {
				given = append(given, int(at))
			}
		}
		g.agree(func(in []array.Array, out array.Array) error {
			host := given
			given = nil
			if host != nil {
				return SliceUpdate(out, in[0], array.Array{}, host)
			}
			return SliceUpdate(out, in[0], in[1], nil)
		}, dst, 0, 0, update, starts)
	})
	x, start := must(t, []float32{1, 2}, 2), must(t, []int32{1}, 1)
	none := array.Array{}
	require.ErrorIs(t, SliceUpdate(x, start, none, []int{0}), ErrInvalid)
	require.ErrorIs(t, SliceUpdate(x, must(t, []float32{1, 2, 3}, 3), none, []int{0}), ErrInvalid)
	require.ErrorIs(t, SliceUpdate(x, x, none, nil), ErrInvalid)
	require.ErrorIs(t, SliceUpdate(x, x, x, nil), ErrInvalid)
	require.ErrorIs(t, SliceUpdate(x, must(t, []float32{1}), start, nil), ErrInvalid)
}
