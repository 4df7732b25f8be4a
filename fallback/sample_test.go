package fallback

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/opdef"
)

// The known answers published with the reference implementation, Random123.
func TestPhiloxKnownAnswers(t *testing.T) {
	const ones = math.MaxUint32
	for _, c := range []struct {
		counter [4]uint32
		key     [2]uint32
		want    [4]uint32
	}{
		{want: [4]uint32{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
		{[4]uint32{ones, ones, ones, ones}, [2]uint32{ones, ones}, [4]uint32{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
		{
			[4]uint32{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
			[2]uint32{0xa4093822, 0x299f31d0},
			[4]uint32{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1},
		},
	} {
		require.Equal(t, c.want, Philox(c.counter, c.key))
	}
}

// Weights are what their comment says, for all sorts of logits and temperatures.
func TestSampleWeights(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200_000 {
		size := math.Ldexp(1, r.IntN(60)-40)
		best, v := float32(r.NormFloat64()*size), float32(r.NormFloat64()*size)
		if r.IntN(2) == 0 { // close to each other
			v = best - float32(r.ExpFloat64()*20)
		}
		if v > best {
			best, v = v, best
		}
		factor := math.Log2E / math.Exp(r.NormFloat64()*3)
		fraction, exponent := math.Frexp(factor)
		c := scale{uint32(fraction * (1 << 32)), int32(exponent - 32)}
		exact := math.Exp2(-(float64(best)-float64(v))*math.Ldexp(float64(c.mantissa), int(c.exponent))) * (1 << weightBits)
		// The difference is cut off 7 bits below the larger number's last one.
		blur := math.Max(math.Abs(float64(best)), math.Abs(float64(v))) * math.Exp2(-29) * factor * math.Ln2
		got := weightOf(exponentBelow(sampleKey(best), sampleKey(v), c))
		require.InDelta(t, exact, float64(got), 1+exact*(2e-8+blur), "%v %v %v", best, v, factor)
	}
	require.EqualValues(t, uint64(1)<<weightBits, weightOf(0))
	require.Zero(t, weightOf(farthest))
}

// Keys order as the numbers do.
func TestSampleKeys(t *testing.T) {
	inf := float32(math.Inf(1))
	order := []float32{-inf, -math.MaxFloat32, -1.5, -1, -math.SmallestNonzeroFloat32, 0, math.SmallestNonzeroFloat32, 1, 1.5, math.MaxFloat32, inf}
	for i := 1; i < len(order); i++ {
		require.Less(t, sampleKey(order[i-1]), sampleKey(order[i]))
	}
	require.Equal(t, sampleKey(0), sampleKey(float32(math.Copysign(0, -1))))
	require.EqualValues(t, unlikeliest, sampleKey(-inf))
	require.EqualValues(t, uint32(beyondNumbers), sampleKey(inf))
	require.Greater(t, sampleKey(float32(math.NaN())), sampleKey(inf))
}

func TestSampleRefuses(t *testing.T) {
	floats := make([]float32, 6)
	logits, err := array.Of(floats, 2, 3)
	require.NoError(t, err)
	params, err := array.Of(make([]uint32, opdef.SampleParamsSize), opdef.SampleParamsSize)
	require.NoError(t, err)
	out, err := array.Of(make([]uint32, 2), 2)
	require.NoError(t, err)
	step, err := array.Of(make([]int32, 2), 2)
	require.NoError(t, err)
	none := array.Array{}
	require.NoError(t, Sample(logits, params, none, out, 0))
	require.ErrorIs(t, Sample(params, params, none, out, 0), ErrInvalid)
	require.ErrorIs(t, Sample(logits, out, none, out, 0), ErrInvalid)
	require.ErrorIs(t, Sample(logits, params, step, out, 0), ErrInvalid)
	require.ErrorIs(t, Sample(logits, params, none, params, 0), ErrInvalid)
	require.ErrorIs(t, Sample(none, params, none, out, 0), ErrInvalid)
	empty := logits
	empty.Layout.Shape = []int{2, 0}
	require.ErrorIs(t, Sample(empty, params, none, out, 0), ErrInvalid)
}
