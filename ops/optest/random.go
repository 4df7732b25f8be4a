package optest

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/kompute-go/kompute-go/fallback"
	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/opdef"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/ops"
)

func runRandomOf[T kompute.Float](c *call) *kompute.View {
	p := c.Params
	if p.Kind == "normal" {
		return ops.Normal[T](c.s, tensor[uint32](c, "state"), p.Low, p.High, p.Shape...).View()
	}
	return ops.Uniform[T](c.s, tensor[uint32](c, "state"), p.Low, p.High, p.Shape...).View()
}

func runRandom(c *call) *kompute.View {
	return byFloat(c.To, runRandomOf[float32], runRandomOf[array.F16], runRandomOf[array.BF16])(c)
}

// referenceRandom makes the numbers one by one.
func referenceRandom(c *Case) []float64 {
	w := make([]uint32, 4)
	for i, v := range floats(c.In["state"]) {
		w[i] = uint32(v)
	}
	kind := uint32(1)
	if c.Params.Kind == "normal" {
		kind = 2
	}
	out := make([]float64, size(c.Params.Shape))
	for i := range out {
		r := fallback.Philox([4]uint32{uint32(i / 4), w[2], w[3], kind}, [2]uint32{w[0], w[1]})
		if kind == 1 {
			out[i] = uniformNumber(c, float32(r[i%4]>>8)/(1<<24))
			continue
		}
		a, b := r[i%4/2*2], r[i%4/2*2+1]
		radius := math.Sqrt(-2 * math.Log((float64(a>>8)+1)/(1<<24)))
		sin, cos := math.Sincos(2 * math.Pi * float64(b) / (1 << 32))
		out[i] = float64(c.Params.Low) + float64(c.Params.High)*radius*[]float64{cos, sin}[i%2]
	}
	return round(c.To, out)
}

// uniformNumber places u between the ends, as the element type has them.
func uniformNumber(c *Case, u float32) float64 {
	ends := round(c.To, []float64{float64(c.Params.Low), float64(c.Params.High)})
	low, high := float32(ends[0]), float32(ends[1])
	width := u * (high - low)
	v := round(c.To, []float64{float64(low + width)})[0]
	if v >= ends[1] { // the largest number below: half as far, as long as there are any between
		v = largestBelow(c.To, ends[1])
	}
	return v
}

// largestBelow finds the largest number of an element type below v by bisection.
func largestBelow(dtype array.DType, v float64) float64 {
	low, high := v-max(math.Abs(v), 1), v
	for range 200 {
		if middle := round(dtype, []float64{(low + high) / 2})[0]; middle < v {
			low = max(middle, math.Nextafter(low, high))
		} else {
			high = (low + high) / 2
		}
	}
	return round(dtype, []float64{low})[0]
}

func randomCase(label, kind string, dtype array.DType, low, high float32, shape []int, state ...uint64) Case {
	words := ops.RandomState(state[0], state[1])
	values := make([]float64, len(words))
	for i, w := range words {
		values[i] = float64(w)
	}
	return Case{
		Name: label, To: dtype, In: map[string]array.Array{"state": dense(array.Uint32, values, len(values))},
		Params: Params{Kind: kind, Low: low, High: high, Shape: shape},
	}
}

func randomCases() []Case {
	var cases []Case
	for _, dtype := range floatTypes {
		for _, shape := range [][]int{{}, {0}, {3, 0, 2}, {1}, {2}, {3}, {7, 3}, {4, 1, 256}, {1001}, {300, 701}} {
			for _, kind := range []string{"uniform", "normal"} {
				cases = append(cases, randomCase(name(dtype, kind, shape), kind, dtype, -1.5, 2, shape, 1<<40+3, uint64(len(shape))))
			}
		}
		cases = append(cases,
			randomCase(name(dtype, "unit", nil), "uniform", dtype, 0, 1, []int{5000}, 2, 1<<63),
			randomCase(name(dtype, "narrow", nil), "uniform", dtype, 1, 1.0625, []int{5000}, 3, 0),
			randomCase(name(dtype, "below zero", nil), "uniform", dtype, -2, 0, []int{5000}, 4, 0),
			randomCase(name(dtype, "wide", nil), "uniform", dtype, -30000, 30000, []int{5000}, 5, 0),
			randomCase(name(dtype, "constant", nil), "normal", dtype, 3, 0, []int{50}, 6, 0))
	}
	return cases
}

func randomRandom(t *rapid.T) Case {
	kind := rapid.SampledFrom([]string{"uniform", "normal"}).Draw(t, "kind")
	low := rapid.Float32Range(-100, 100).Draw(t, "low")
	high := low + rapid.Float32Range(2, 50).Draw(t, "width")
	if kind == "normal" {
		high = rapid.Float32Range(0, 10).Draw(t, "deviation")
	}
	c := randomCase("", kind, drawType(t, "type", floatTypes), low, high, drawShape(t, "shape", 0, 4, 3000),
		rapid.Uint64().Draw(t, "seed"), rapid.Uint64().Draw(t, "counter"))
	c.In["state"] = place(c.In["state"], rapid.SampledFrom(layouts).Draw(t, "state layout"))
	return c
}

// moments checks mean and variance of many numbers with a fixed seed, and by
// chi-square that as many fall between any two neighbouring quantiles.
func moments(t *testing.T, dev *kompute.Device, kind string, mean, variance float64, cumulative func(float64) float64) {
	const bins = 64
	n := largeSize(dev)
	c := randomCase("", kind, array.Float32, 0, 1, []int{n}, 7, 1)
	r := &runner{suite: randomSuite(), dev: dev}
	sum, squares := 0.0, 0.0
	var counts [bins]float64
	for _, v := range floats(r.result(t, dev, &c)) {
		sum += v
		squares += (v - mean) * (v - mean)
		counts[min(int(cumulative(v)*bins), bins-1)]++
	}
	count := float64(n)
	require.InDelta(t, mean, sum/count, 4*math.Sqrt(variance/count))
	require.InDelta(t, variance, squares/count, 4*math.Sqrt(2*variance*variance/count))
	chi, want := 0.0, count/bins
	for _, seen := range counts {
		chi += (seen - want) * (seen - want) / want
	}
	require.InDelta(t, bins-1.0, chi, 4*math.Sqrt(2*(bins-1)), "%s", kind)
}

// categoricalSamples checks that Categorical is Sample with the same state, and what it refuses.
func categoricalSamples(t *testing.T, dev *kompute.Device) {
	s, err := dev.NewStream()
	require.NoError(t, err)
	defer s.Close()
	scope := s.Scope()
	defer scope.Close()
	for _, shape := range [][]int{{5}, {0, 5}, {4, 3, 70}} {
		values := make([]float32, size(shape))
		for i := range values {
			values[i] = float32(i % 11)
		}
		logits := own(t, newTensor(t, dev, values, shape...))
		state := own(t, newTensor(t, dev, ops.RandomState(1<<33+5, 1<<34+7), ops.RandomStateSize))
		words := fallback.SamplePlain()
		copy(words[opdef.SampleSeed:], ops.RandomState(1<<33+5, 1<<34+7))
		params := own(t, newTensor(t, dev, words, ops.SampleParamsSize))
		got, err := ops.Categorical(s, logits, state).Read(t.Context())
		require.NoError(t, err)
		want, err := ops.Sample(s, logits, params, ops.At(0)).Read(t.Context())
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	require.Empty(t, s.Stats().Fallbacks)
}

func randomSuite() suite {
	state := func(e *env) *kompute.Tensor[uint32] { return e.u32(ops.RandomStateSize) }
	inf := float32(math.Inf(1))
	uniform := func(low, high float32) func(e *env) error {
		return func(e *env) error { return ops.Uniform[float32](e.s, state(e), low, high, 3).Err() }
	}
	normal := func(mean, deviation float32) func(e *env) error {
		return func(e *env) error { return ops.Normal[float32](e.s, state(e), mean, deviation, 3).Err() }
	}
	return suite{
		op: "random", run: runRandom, reference: referenceRandom, cases: randomCases, draw: randomRandom,
		exact: func(c *Case) bool { return c.Params.Kind == "uniform" },
		extra: func(t *testing.T, dev *kompute.Device) {
			moments(t, dev, "uniform", 0.5, 1.0/12, func(v float64) float64 { return v })
			moments(t, dev, "normal", 0, 1, func(v float64) float64 { return math.Erfc(-v/math.Sqrt2) / 2 })
			categoricalSamples(t, dev)
		},
		kinds: []string{"uniform", "normal"},
		large: func(dtype array.DType, kind string, size int) Case {
			return randomCase("", kind, dtype, 0, 1, []int{size}, 1, 2)
		},
		valid: func() Case { return randomCase("", "uniform", array.Float32, 0, 1, []int{3}, 1, 2) },
		rejects: []reject{
			{"state", kompute.ErrShape, func(e *env) error { return ops.Normal[float32](e.s, e.u32(3), 0, 1, 3).Err() }},
			{"shape", kompute.ErrShape, func(e *env) error { return ops.Normal[float32](e.s, state(e), 0, 1, -3).Err() }},
			{"equal ends", kompute.ErrInvalid, uniform(1, 1)},
			{"swapped ends", kompute.ErrInvalid, uniform(1, 0)},
			{"NaN end", kompute.ErrInvalid, uniform(0, float32(math.NaN()))},
			{"infinite end", kompute.ErrInvalid, uniform(0, inf)},
			{"too wide", kompute.ErrInvalid, uniform(-3e38, 3e38)},
			{"ends of a narrow type", kompute.ErrInvalid, func(e *env) error {
				return ops.Uniform[array.BF16](e.s, state(e), 1, 1.001, 3).Err()
			}},
			{"NaN mean", kompute.ErrInvalid, normal(float32(math.NaN()), 1)},
			{"infinite deviation", kompute.ErrInvalid, normal(0, inf)},
			{"negative deviation", kompute.ErrInvalid, normal(0, -1)},
			{"categorical rank 0", kompute.ErrShape, func(e *env) error { return ops.Categorical(e.s, e.f32(), state(e)).Err() }},
			{"categorical state", kompute.ErrShape, func(e *env) error { return ops.Categorical(e.s, e.f32(3), e.u32(3)).Err() }},
		},
	}
}
