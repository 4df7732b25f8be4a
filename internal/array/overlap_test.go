package array

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// drawOverlapping draws a view of a small storage.
func drawOverlapping(t *rapid.T, label string) Layout {
	l := Layout{Offset: rapid.IntRange(0, 30).Draw(t, label+" offset")}
	for range rapid.IntRange(0, 4).Draw(t, label+" rank") {
		l.Shape = append(l.Shape, rapid.IntRange(0, 4).Draw(t, label+" length"))
		l.Strides = append(l.Strides, rapid.IntRange(0, 20).Draw(t, label+" stride"))
	}
	return l
}

// elements counts the visits to every storage element.
func elements(l Layout) map[int]int {
	out := map[int]int{}
	var visit func(axis, at int)
	visit = func(axis, at int) {
		if axis == l.Rank() {
			out[at]++
			return
		}
		for i := range l.Shape[axis] {
			visit(axis+1, at+i*l.Strides[axis])
		}
	}
	visit(0, l.Offset)
	return out
}

func TestOverlap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawOverlapping(t, "a"), drawOverlapping(t, "b")
		shared, twice := false, false
		inB := elements(b)
		for at, n := range elements(a) {
			shared = shared || inB[at] > 0
			twice = twice || n > 1
		}
		require.Equal(t, shared, Overlap(a, b))
		require.Equal(t, twice, a.Repeats())
	})
}

// A view covers storage if each of the storage's elements is one of its own, once.
func TestCovers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawOverlapping(t, "view")
		if rapid.Bool().Draw(t, "permuted") {
			whole, err := Contiguous(l.Shape...)
			require.NoError(t, err)
			axes := make([]int, l.Rank())
			for i := range axes {
				axes[i] = i
			}
			l, err = whole.Transpose(rapid.Permutation(axes).Draw(t, "axes")...)
			require.NoError(t, err)
		}
		n := l.Size() + rapid.IntRange(0, 1).Draw(t, "more")
		own, covered := elements(l), 0
		for i := range n {
			if own[i] == 1 {
				covered++
			}
		}
		require.Equal(t, covered == n, Covers(l, n))
	})
}

func TestOverlapOfLargeSlices(t *testing.T) {
	base, err := Contiguous(8, 4096, 32, 128)
	require.NoError(t, err)
	slice := func(axis, start, stop int) Layout {
		l, err := base.Slice(axis, start, stop, 1)
		require.NoError(t, err)
		l, err = l.Transpose(0, 2, 1, 3)
		require.NoError(t, err)
		return l
	}
	require.False(t, Overlap(slice(1, 0, 1000), slice(1, 1000, 4096)))
	require.False(t, Overlap(slice(3, 0, 64), slice(3, 64, 128)))
	require.True(t, Overlap(slice(3, 0, 65), slice(3, 64, 128)))
	require.True(t, Overlap(slice(2, 5, 6), slice(1, 77, 78)))
	require.False(t, slice(0, 0, 8).Repeats())
}
