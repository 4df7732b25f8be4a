package fallback

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/array"
)

var indexTypes = []array.DType{array.Int32, array.Uint32}

// index draws an index of an axis, at times outside it.
func (g *gen) index(n int) float64 { return float64(g.rng.IntN(2*n+3) - n - 1) }

// resolve returns the place that an index stands for, and whether there is one.
func resolve(dtype array.DType, i float64, n int) (int, bool) {
	if dtype == array.Int32 && i < 0 {
		i += float64(n)
	}
	return int(i), i >= 0 && i < float64(n)
}

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
		require.NoError(g, Gather(x, index, out, given))
		var want []float64
		each(outShape, func(at []int) {
			i, ok := resolve(index.DType, value(index, at[axis:axis+len(picks)]...), shape[axis])
			if !ok {
				want = append(want, 0)
				return
			}
			want = append(want, value(x, slices.Concat(at[:axis], []int{i}, at[axis+len(picks):])...))
		})
		requireSame(g, want, out)
		untouched(g, out)
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
		at := make([]int, len(shape), 8)
		start := array.Array{}
		starts := g.array(array.Int32, []int{len(shape)}, func() float64 { return float64(g.rng.IntN(9) - 3) })
		for i := range at {
			at[i] = int(value(starts, i))
		}
		given := at
		if g.bool("from an array") {
			start, given = starts, nil
		}
		want := values(dst)
		require.NoError(g, SliceUpdate(dst, update, start, given))
		i := 0
		each(shape, func(place []int) {
			from, inside := make([]int, len(place)), true
			for k := range place {
				from[k] = place[k] - min(max(at[k], 0), shape[k]-part[k])
				inside = inside && from[k] >= 0 && from[k] < part[k]
			}
			if inside {
				want[i] = value(update, from...)
			}
			i++
		})
		requireSame(g, want, dst)
		untouched(g, dst)
	})
	x, start := must(t, []float32{1, 2}, 2), must(t, []int32{1}, 1)
	none := array.Array{}
	require.ErrorIs(t, SliceUpdate(x, start, none, []int{0}), ErrInvalid)
	require.ErrorIs(t, SliceUpdate(x, must(t, []float32{1, 2, 3}, 3), none, []int{0}), ErrInvalid)
	require.ErrorIs(t, SliceUpdate(x, x, none, nil), ErrInvalid)
	require.ErrorIs(t, SliceUpdate(x, x, x, nil), ErrInvalid)
	require.ErrorIs(t, SliceUpdate(x, must(t, []float32{1}), start, nil), ErrInvalid)
}
