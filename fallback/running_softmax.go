package fallback

import (
	"math"

	"github.com/kompute-go/kompute-go/fallback/internal/simd"
)

// runningSoftmax is softmax(scores)·values over keys that come block by block
// (Milakov and Gimelshein, 2018). For each row it keeps the largest score so far
// and, relative to it, the sum of the weights and the weighted sums of the values.
type runningSoftmax struct {
	largest, total []float32 // [rows]
	sums           []float32 // [rows, dv]; the caller adds the weighted values
	dv             int
}

// newRunningSoftmax returns one in memory cut from space, to be reset before use.
func newRunningSoftmax(space *[]float32, rows, dv int) runningSoftmax {
	return runningSoftmax{largest: cut(space, rows), total: cut(space, rows), sums: cut(space, rows*dv), dv: dv}
}

// runningSoftmaxSize is the size of the memory for newRunningSoftmax, in numbers.
func runningSoftmaxSize(rows, dv int) int { return rows * (2 + dv) }

// reset forgets all keys.
func (s *runningSoftmax) reset() {
	clear(s.total)
	clear(s.sums)
	for i := range s.largest {
		s.largest[i] = float32(math.Inf(-1))
	}
}

// rows returns the state of rows [lo, hi).
func (s *runningSoftmax) rows(lo, hi int) runningSoftmax {
	return runningSoftmax{largest: s.largest[lo:hi], total: s.total[lo:hi], sums: s.sums[lo*s.dv : hi*s.dv], dv: s.dv}
}

// of returns the weighted sums of a row.
func (s *runningSoftmax) of(row int) []float32 { return s.sums[row*s.dv : (row+1)*s.dv] }

// wholeVectors rounds a number of scores up to one for which weights is fast. The scores that
// this adds are to be -Inf, whose weights are 0.
func wholeVectors(n int) int { return (n + 15) / 16 * 16 }

// weights turns a row's scores of the next keys into weights relative to the largest
// score so far, and rescales the earlier sums.
func (s *runningSoftmax) weights(row int, scores []float32) {
	largest := max(s.largest[row], simd.Max(scores))
	if math.IsInf(float64(largest), -1) { // every key so far is masked
		clear(scores)
		return
	}
	if s.largest[row] != largest {
		f := simd.Exp32(s.largest[row] - largest)
		s.largest[row] = largest
		s.total[row] *= f
		simd.Scale(s.of(row), f)
	}
	s.total[row] += simd.ExpSum(scores, scores, largest)
}

// result divides a row's weighted sums by the sum of its weights, and returns them. They are zeros if no key was seen:
// the sums may then be NaNs, of zero weights times values that are not finite.
func (s *runningSoftmax) result(row int) []float32 {
	sums := s.of(row)
	if s.total[row] == 0 {
		clear(sums)
		return sums
	}
	simd.Scale(sums, 1/s.total[row])
	return sums
}
