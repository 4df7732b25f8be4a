package fallback

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every form of attention propagates NaNs of scores and ignores hidden keys, whichever
// block they are in.
func TestRunningSoftmaxOfSpecialScores(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	space := make([]float32, runningSoftmaxSize(1, 1))
	s := newRunningSoftmax(&space, 1, 1)
	// attend returns the attention of scores, in blocks, over values that are all 1.
	attend := func(blocks ...[]float32) float32 {
		s.reset()
		for _, scores := range blocks {
			s.weights(0, scores)
			for _, w := range scores {
				s.sums[0] += w
			}
		}
		return s.result(0)[0]
	}
	require.Equal(t, float32(1), attend([]float32{1, 2}, []float32{-3, 4}, []float32{0}))
	require.Equal(t, float32(1), attend([]float32{-inf, -inf}, []float32{5}, []float32{-inf}))
	require.Zero(t, attend([]float32{-inf}, []float32{-inf, -inf}), "no key is seen")
	for _, blocks := range [][][]float32{{{nan}}, {{nan, 1}, {2}}, {{1}, {2, nan}}, {{-inf}, {nan}}, {{inf}}, {{1}, {inf}, {2}}} {
		require.True(t, math.IsNaN(float64(attend(blocks...))), "%v", blocks)
	}
}
