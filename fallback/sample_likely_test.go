package fallback

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// Tokens that are found without all weights are those that are found with them, for logits of all kinds: with few or many
// likely tokens, with ties, and with tokens that are impossible.
func TestLikely(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 2))
	found := 0
	const cases = 400
	for range cases {
		logits := make([]float32, 1+r.IntN(1<<(4+r.IntN(12))))
		scale, step := math.Exp(r.NormFloat64()*1.5), 0.0
		if r.IntN(3) == 0 {
			step = 0.5 // of ties
		}
		offset := r.NormFloat64() * 20
		for i := range logits {
			v := offset + r.NormFloat64()*scale
			if step > 0 {
				v = math.Round(v/step) * step
			}
			if logits[i] = float32(v); r.IntN(50) == 0 {
				logits[i] = float32(math.Inf(-1))
			}
		}
		logits[r.IntN(len(logits))] = float32(offset + scale*r.Float64()*10) // something is possible
		s := settings{heat: scale32(math.Exp(r.NormFloat64())), minP: farthest, key: [2]uint32{r.Uint32(), r.Uint32()}, counter: r.Uint64()}
		if r.IntN(2) == 0 {
			s.topK = uint32(1 + r.IntN(1<<r.IntN(13)))
		}
		if r.IntN(2) == 0 {
			s.topP = r.Uint32()>>r.IntN(20) | 1
		}
		if r.IntN(3) == 0 {
			s.minP = r.Uint32() >> r.IntN(12)
		}
		best, largest := uint32(0), float32(math.Inf(-1))
		for _, v := range logits {
			best, largest = max(best, sampleKey(v)), max(largest, v)
		}
		kept, known := s.likely(nil, logits, best, largest)
		if !known {
			continue
		}
		found++
		var want []candidate
		c, ties := s.filter(logits, best), uint32(0)
		for i, v := range logits {
			key := sampleKey(v)
			if key < c.key || key == c.key && ties == c.ties {
				continue
			}
			if key == c.key {
				ties++
			}
			if s.minP == farthest || exponentBelow(best, key, natural) <= s.minP {
				want = append(want, candidate{key, uint32(i)})
			}
		}
		for random := range uint64(20) {
			random *= math.MaxUint64 / 19
			require.Equal(t, s.draw(logits, best, c, random), s.drawOf(kept, best, random))
		}
		require.Equal(t, want, kept, "sorted by index") // drawOf has
	}
	require.Greater(t, found, cases/3)
}

// Draws from all tokens by estimated sums are those by exact ones, and few need these.
func TestEstimatedDraw(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 3))
	found := 0
	const cases, draws = 60, 20
	for range cases {
		logits := make([]float32, 1+r.IntN(1<<(4+r.IntN(12))))
		spread, offset := math.Exp(r.NormFloat64()), r.NormFloat64()*20
		for i := range logits {
			logits[i] = float32(offset + r.NormFloat64()*spread)
		}
		s := settings{heat: scale32(math.Exp(r.NormFloat64() / 2)), minP: farthest}
		largest := slices.Max(logits)
		for range draws {
			random := r.Uint64()
			if at, known := s.estimatedDraw(logits, largest, random); known {
				found++
				require.Equal(t, s.draw(logits, sampleKey(largest), bottom{}, random), at)
			}
		}
	}
	require.Greater(t, found, cases*draws/2)
	logits := []float32{0, 0, 0, 0}
	s := settings{heat: natural, minP: farthest}
	_, known := s.estimatedDraw(logits, 0, 1<<63) // exactly between two of them
	require.False(t, known)
	at, known := s.estimatedDraw(logits, 0, 0)
	require.True(t, known)
	require.Zero(t, at)
}

// Differences of logits that float32 cannot hold are not infinite at temperatures as high as that.
func TestEstimatedDrawOfFarLogits(t *testing.T) {
	logits := []float32{-math.MaxFloat32, math.MaxFloat32, -math.MaxFloat32}
	for exponent := range 128 {
		s := settings{heat: scale32(math.Ldexp(1, exponent)), minP: farthest}
		for random := range uint64(64) {
			random <<= 58
			if at, known := s.estimatedDraw(logits, math.MaxFloat32, random); known {
				require.Equal(t, s.draw(logits, sampleKey(math.MaxFloat32), bottom{}, random), at, "2^%d", exponent)
			}
		}
	}
}

// scale32 is a temperature's scale.
func scale32(temperature float64) scale {
	fraction, exponent := math.Frexp(math.Log2E / temperature)
	return scale{uint32(fraction * (1 << 32)), int32(exponent - 32)}
}

// A sum near the part of all probabilities that top-p asks for needs all weights, and is not estimated.
func TestNucleusNearTheEstimate(t *testing.T) {
	logits := []float32{0, 0, 0, 0}
	s := settings{heat: natural, topP: 1 << 31, minP: farthest} // exactly two of four
	best := sampleKey(0)
	_, known := s.likely(nil, logits, best, 0)
	require.False(t, known)
	require.Equal(t, bottom{best, 2}, s.filter(logits, best))
	s.topP += 1 << 20
	kept, known := s.likely(nil, logits, best, 0)
	require.True(t, known)
	require.Len(t, kept, 3)
}
