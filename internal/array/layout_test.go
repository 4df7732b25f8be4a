package array

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// places lists where the elements of a layout are, in row-major order: the simplest
// implementation of what a Layout means.
func places(l Layout) []int {
	out := []int{l.Offset}
	for i, d := range l.Shape {
		next := make([]int, 0, len(out)*d)
		for _, at := range out {
			for k := range d {
				next = append(next, at+k*l.Strides[i])
			}
		}
		out = next
	}
	return out
}

func drawLayout(rt *rapid.T) Layout {
	l, err := Contiguous(rapid.SliceOfN(rapid.IntRange(0, 4), 0, 4).Draw(rt, "shape")...)
	require.NoError(rt, err)
	for range rapid.IntRange(0, 4).Draw(rt, "views") {
		l = drawView(rt, l)
	}
	return l
}

func drawView(rt *rapid.T, l Layout) Layout {
	op := rapid.IntRange(0, 3).Draw(rt, "view")
	var out Layout
	var err error
	switch {
	case op == 0:
		out, err = l.Transpose(rapid.Permutation(count(l.Rank())).Draw(rt, "axes")...)
	case op == 1 && l.Rank() > 0:
		a := rapid.IntRange(0, l.Rank()-1).Draw(rt, "axis")
		start := rapid.IntRange(0, l.Shape[a]).Draw(rt, "start")
		out, err = l.Slice(a, start, rapid.IntRange(start, l.Shape[a]).Draw(rt, "stop"), rapid.IntRange(1, 3).Draw(rt, "step"))
	case op == 2 && l.Rank() < 6:
		out, err = l.Broadcast(append([]int{rapid.IntRange(0, 3).Draw(rt, "front")}, l.Shape...)...)
	case op == 3 && l.Rank() < 6:
		out, err = l.ExpandDims(rapid.IntRange(-l.Rank()-1, l.Rank()).Draw(rt, "at"))
	default:
		return l
	}
	require.NoError(rt, err)
	return out
}

func count(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

func TestContiguous(t *testing.T) {
	l, err := Contiguous(2, 3, 4)
	require.NoError(t, err)
	require.Equal(t, Layout{Shape: []int{2, 3, 4}, Strides: []int{12, 4, 1}}, l)
	require.Equal(t, count(24), places(l))
	require.Equal(t, 24, l.Size())
	require.Equal(t, 3, l.Rank())
	require.Equal(t, []int{4, 2, 0, 0}, []int{l.Dim(-1), l.Dim(0), l.Dim(3), l.Dim(-4)})

	l, err = Contiguous()
	require.NoError(t, err)
	require.Equal(t, 1, l.Size())
	require.True(t, l.IsContiguous())

	shape := []int{2, 3}
	l, err = Contiguous(shape...)
	require.NoError(t, err)
	shape[0] = 9
	require.Equal(t, []int{2, 3}, l.Shape, "a copy")

	for _, shape := range [][]int{{-1}, {2, -3}, {math.MaxInt, 2}, {math.MaxInt/2 + 1, math.MaxInt/2 + 1}, make([]int, MaxRank+1)} {
		_, err := Contiguous(shape...)
		require.ErrorIs(t, err, ErrLayout, shape)
	}
	_, err = Contiguous(math.MaxInt, 0, 5)
	require.ErrorIs(t, err, ErrLayout, "its strides overflow")
}

func TestExtentHoldsAllElements(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		l := drawLayout(rt)
		lo, hi := l.Extent()
		all := places(l)
		require.Equal(rt, len(all), l.Size())
		if len(all) == 0 {
			require.Equal(rt, lo, hi)
			return
		}
		require.Equal(rt, slices.Min(all), lo)
		require.Equal(rt, slices.Max(all)+1, hi)
	})
	lo, hi := Layout{Shape: []int{3}, Strides: []int{-2}, Offset: 10}.Extent()
	require.Equal(t, []int{6, 11}, []int{lo, hi})
}

func TestIsContiguous(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		l := drawLayout(rt)
		want := true
		for i, at := range places(l) {
			want = want && at == l.Offset+i
		}
		require.Equal(rt, want, l.IsContiguous())
	})
}

func TestCollapseKeepsTheElements(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		l := drawLayout(rt)
		c := l.Collapse()
		require.Equal(rt, places(l), places(c))
		require.LessOrEqual(rt, c.Rank(), l.Rank())
		if l.IsContiguous() && l.Size() > 0 {
			require.LessOrEqual(rt, c.Rank(), 1)
		}
		require.Equal(rt, c, c.Collapse())
	})
}

// A reshape either keeps the elements in their order, or fails; a reshape of a
// contiguous layout to a shape of its size never fails.
func TestReshape(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		l := drawLayout(rt)
		shape := factors(rt, l.Size())
		want := slices.Clone(shape)
		if i := rapid.IntRange(-1, len(shape)-1).Draw(rt, "free"); i >= 0 && l.Size() > 0 {
			shape[i] = -1
		}
		out, err := l.Reshape(shape...)
		if err != nil {
			require.ErrorIs(rt, err, ErrLayout)
			require.False(rt, l.IsContiguous())
			return
		}
		require.True(rt, slices.Equal(want, out.Shape))
		require.Equal(rt, places(l), places(out))
	})
}

// factors draws a shape of n elements.
func factors(rt *rapid.T, n int) []int {
	if n == 0 {
		return []int{2, 0}
	}
	var shape []int
	for n > 1 && len(shape) < MaxRank-1 {
		d := rapid.IntRange(1, n).Filter(func(d int) bool { return n%d == 0 }).Draw(rt, "d")
		shape = append(shape, d)
		n /= d
	}
	return append(shape, n)
}

// A reshape that needs no copy must be a view: splitting and merging axes of a
// transposed or broadcast layout.
func TestReshapeOfStridedLayouts(t *testing.T) {
	l, _ := Contiguous(4, 6)
	tr, _ := l.Transpose()
	split, err := tr.Reshape(2, 3, 2, 2)
	require.NoError(t, err)
	require.Equal(t, []int{3, 1, 12, 6}, split.Strides)
	_, err = tr.Reshape(24)
	require.ErrorIs(t, err, ErrLayout)
	require.ErrorContains(t, err, "shape [6 4] with strides [1 6] cannot be viewed as [24]; copy it first")
	row, _ := Contiguous(1, 6)
	wide, _ := row.Broadcast(4, 6)
	split, err = wide.Reshape(2, 2, 3, 2)
	require.NoError(t, err)
	require.Equal(t, []int{0, 0, 2, 1}, split.Strides)
}

func TestReshapeInfersAndRefuses(t *testing.T) {
	l, _ := Contiguous(2, 6)
	out, err := l.Reshape(-1, 4)
	require.NoError(t, err)
	require.Equal(t, []int{3, 4}, out.Shape)
	empty, _ := Contiguous(0, 3)
	out, err = empty.Reshape(-1)
	require.NoError(t, err)
	require.Equal(t, []int{0}, out.Shape)
	for _, shape := range [][]int{{5}, {-1, 5}, {-1, -1}, {-2, 6}, {math.MaxInt, math.MaxInt}, {}, make([]int, 9)} {
		_, err := l.Reshape(shape...)
		require.ErrorIs(t, err, ErrLayout, shape)
	}
	_, err = empty.Reshape(0, -1)
	require.ErrorIs(t, err, ErrLayout, "it could be anything")
}

func TestSlice(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		l := drawLayout(rt)
		if l.Rank() == 0 {
			rt.Skip("no axis")
		}
		a := rapid.IntRange(-l.Rank(), l.Rank()-1).Draw(rt, "axis")
		axis, err := l.Axis(a)
		require.NoError(rt, err)
		start := rapid.IntRange(0, l.Shape[axis]).Draw(rt, "start")
		stop := rapid.IntRange(start, l.Shape[axis]).Draw(rt, "stop")
		step := rapid.SampledFrom([]int{1, 2, 3, 100, math.MaxInt}).Draw(rt, "step")
		out, err := l.Slice(a, start, stop, step)
		require.NoError(rt, err)
		n := 0
		for k := start; k < stop && k >= start; k += step {
			one, err := l.Slice(a, k, k+1, 1)
			require.NoError(rt, err)
			again, err := out.Slice(a, n, n+1, 1)
			require.NoError(rt, err)
			require.Equal(rt, places(one), places(again))
			n++
		}
		require.Equal(rt, n, out.Shape[axis])
	})
	l, _ := Contiguous(4, 5)
	for _, c := range [][4]int{{2, 0, 1, 1}, {-3, 0, 1, 1}, {0, -1, 1, 1}, {0, 3, 2, 1}, {0, 0, 5, 1}, {0, 0, 4, 0}, {0, 0, 4, -1}} {
		_, err := l.Slice(c[0], c[1], c[2], c[3])
		require.ErrorIs(t, err, ErrLayout, c)
	}
}

func TestTranspose(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		l := drawLayout(rt)
		axes := rapid.Permutation(count(l.Rank())).Draw(rt, "axes")
		out, err := l.Transpose(axes...)
		require.NoError(rt, err)
		inverse := make([]int, len(axes))
		for i, a := range axes {
			require.Equal(rt, l.Shape[a], out.Shape[i])
			inverse[a] = i
		}
		back, err := out.Transpose(inverse...)
		require.NoError(rt, err)
		require.Equal(rt, places(l), places(back))
	})
	l, _ := Contiguous(2, 3, 4)
	out, err := l.Transpose()
	require.NoError(t, err)
	require.Equal(t, Layout{Shape: []int{4, 3, 2}, Strides: []int{1, 4, 12}}, out)
	out, err = l.Transpose(-1, 0, 1)
	require.NoError(t, err)
	require.Equal(t, []int{4, 2, 3}, out.Shape)
	for _, axes := range [][]int{{0}, {0, 1, 1}, {0, 1, 3}, {0, 1, -1, 2}} {
		_, err := l.Transpose(axes...)
		require.ErrorIs(t, err, ErrLayout, axes)
	}
}

func TestBroadcast(t *testing.T) {
	l, _ := Contiguous(3, 1)
	out, err := l.Broadcast(2, 3, 4)
	require.NoError(t, err)
	require.Equal(t, []int{0, 1, 0}, out.Strides)
	require.Equal(t, []int{0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2}, places(out)[:12])
	for _, shape := range [][]int{{4, 4}, {3}, {-1, 3, 1}, {3, -1}, {1, 1, 1, 1, 1, 1, 1, 3, 1}} {
		_, err := l.Broadcast(shape...)
		require.ErrorIs(t, err, ErrLayout, shape)
	}
	one, _ := Contiguous(1, 1)
	_, err = one.Broadcast(math.MaxInt/2+1, math.MaxInt/2+1)
	require.ErrorIs(t, err, ErrLayout, "its size overflows")
}

func TestBroadcastShapes(t *testing.T) {
	for _, c := range []struct{ a, b, want []int }{
		{[]int{2, 3}, []int{3}, []int{2, 3}},
		{[]int{2, 1}, []int{1, 3}, []int{2, 3}},
		{nil, []int{2}, []int{2}},
		{[]int{0, 1}, []int{1, 5}, []int{0, 5}},
		{[]int{1}, []int{0}, []int{0}},
		{[]int{2}, []int{3}, nil},
		{[]int{0}, []int{2}, nil},
	} {
		for _, ab := range [][2][]int{{c.a, c.b}, {c.b, c.a}} {
			got, err := BroadcastShapes(ab[0], ab[1])
			if c.want == nil {
				require.ErrorIs(t, err, ErrLayout)
				continue
			}
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		shape := rapid.SliceOfN(rapid.IntRange(0, 3), 0, 4)
		a, b := shape.Draw(rt, "a"), shape.Draw(rt, "b")
		common, err := BroadcastShapes(a, b)
		if err != nil {
			return
		}
		for _, s := range [][]int{a, b} {
			l, err := Contiguous(s...)
			require.NoError(rt, err)
			_, err = l.Broadcast(common...)
			require.NoError(rt, err)
		}
	})
}

func TestExpandAndSqueeze(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		l := drawLayout(rt)
		if l.Rank() == MaxRank {
			rt.Skip("no room")
		}
		at := rapid.IntRange(-l.Rank()-1, l.Rank()).Draw(rt, "at")
		out, err := l.ExpandDims(at)
		require.NoError(rt, err)
		require.Equal(rt, 1, out.Dim(at))
		require.Equal(rt, places(l), places(out))
		back, err := out.Squeeze(at)
		require.NoError(rt, err)
		require.True(rt, slices.Equal(l.Shape, back.Shape) && slices.Equal(l.Strides, back.Strides))
	})
	l, _ := Contiguous(2, 1)
	for _, axis := range []int{0, 2, -3} {
		_, err := l.Squeeze(axis)
		require.ErrorIs(t, err, ErrLayout, axis)
	}
	for _, axis := range []int{3, -4} {
		_, err := l.ExpandDims(axis)
		require.ErrorIs(t, err, ErrLayout, axis)
		require.ErrorContains(t, err, fmt.Sprintf("axis %d", axis))
	}
	full, _ := Contiguous(1, 1, 1, 1, 1, 1, 1, 1)
	_, err := full.ExpandDims(0)
	require.ErrorIs(t, err, ErrLayout)
	require.ErrorContains(t, err, "rank 9 exceeds 8")
}

// Views must not share slices with the layout that they come from.
func TestViewsAreIndependent(t *testing.T) {
	l, _ := Contiguous(2, 1, 3)
	views := []func() (Layout, error){
		func() (Layout, error) { return l.Reshape(2, 1, 3) },
		func() (Layout, error) { return l.Transpose(0, 1, 2) },
		func() (Layout, error) { return l.Slice(0, 0, 2, 1) },
		func() (Layout, error) { return l.Broadcast(2, 1, 3) },
		func() (Layout, error) { return l.ExpandDims(0) },
		func() (Layout, error) { return l.Squeeze(1) },
		func() (Layout, error) { return l.Collapse(), nil },
	}
	for _, view := range views {
		v, err := view()
		require.NoError(t, err)
		v.Shape[0], v.Strides[0] = 77, 78
		_ = append(v.Shape, 5)
	}
	require.Equal(t, Layout{Shape: []int{2, 1, 3}, Strides: []int{3, 3, 1}}, l)
}

func TestViewsAllocateOnce(t *testing.T) {
	l, _ := Contiguous(2, 3, 4)
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() {
		_, _ = l.Reshape(6, 4)
	}), 1.0)
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() {
		_, _ = l.Transpose(1, 0, 2)
		_, _ = l.Slice(0, 0, 1, 1)
		_, _ = Contiguous(1, 2, 3)
		_, _ = l.Broadcast(5, 2, 3, 4)
	}), 4.0)
}
