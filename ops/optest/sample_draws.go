package optest

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/sample"
	"github.com/kompute-go/kompute-go/ops"
)

// drawsFollowWeights checks, with fixed seeds, that what a step, a row or a seed
// changes are independent draws, in the proportions asked for.
func drawsFollowWeights(t *testing.T, dev *kompute.Device) {
	const tokens = 40
	r := &runner{suite: sampleSuite(), dev: dev}
	rows, steps := 1000, 6
	if r.slow() { // the tables check that it draws what the CPU backend draws
		rows, steps = 500, 2
	}
	p := sample.Params{Temperature: 1.3, TopK: 25, Seed: 11}
	logits := newSource(3).normal(array.Float32, 1.5, tokens)
	row := floats(logits)
	keep := keptTokens(row, slices.Max(row), p)
	all := must(logits.Broadcast(rows, tokens))
	logits.Layout = all
	var counts [tokens]float64
	for step := range steps {
		c := sampleCase("", logits, p, 0, step)
		for _, token := range floats(r.result(t, dev, &c)) {
			counts[int(token)]++
		}
	}
	total, chi, freedom := 0.0, 0.0, -1
	for i, v := range row {
		if keep[i] {
			total += math.Exp(v / p.Temperature)
		}
	}
	for i, v := range row {
		if !keep[i] {
			require.Zero(t, counts[i])
			continue
		}
		want := math.Exp(v/p.Temperature) / total * float64(rows*steps)
		chi += (counts[i] - want) * (counts[i] - want) / want
		freedom++
	}
	// Its mean is the degrees of freedom, its variance twice that.
	require.InDelta(t, float64(freedom), chi, 4*math.Sqrt(2*float64(freedom)))
}

// replaysAdvance checks that one region draws as the device's step says.
func replaysAdvance(t *testing.T, dev *kompute.Device) {
	s, err := dev.NewStream()
	require.NoError(t, err)
	defer s.Close()
	p := sample.Params{Temperature: 1, TopP: 0.9, Seed: 5}
	r := rand.New(rand.NewPCG(1, 2))
	row := make([]float32, 20000)
	for i := range row {
		row[i] = float32(r.NormFloat64() * 3)
	}
	logits := own(t, newTensor(t, dev, row, len(row)))
	params := own(t, newTensor(t, dev, p.Encode(0), ops.SampleParamsSize))
	step := own(t, newTensor(t, dev, []int32{0}, 1))
	one := own(t, newTensor(t, dev, []int32{1}, 1))
	out := own(t, newTensor(t, dev, make([]uint32, 8), 8))
	region, err := s.Capture(func(s *kompute.Stream) {
		token := ops.Sample(s, logits, params, ops.AtDevice(step))
		ops.SliceUpdate(s, out, token.Reshape(1), ops.AtDevice(step))
		ops.SliceUpdate(s, step, ops.Add(s, step, one))
	})
	require.NoError(t, err)
	defer region.Close()
	require.NoError(t, region.ReplayN(t.Context(), 8))
	got, err := out.Read(t.Context())
	require.NoError(t, err)
	host, err := sample.New(p)
	require.NoError(t, err)
	for i, token := range got {
		want, err := host.Sample(row, uint64(i))
		require.NoError(t, err)
		require.Equal(t, want, token)
	}
}

func newTensor[T kompute.Element](t *testing.T, dev *kompute.Device, data []T, shape ...int) *kompute.Tensor[T] {
	x, err := kompute.New(dev, data, shape...)
	require.NoError(t, err)
	return x
}

// sampleAlong: rows are independent if the choice is greedy; a draw depends on the
// number of its row.
func sampleAlong(c *Case, axis int) map[string]int {
	if c.Params.Sampling.Temperature != 0 {
		return nil
	}
	return map[string]int{"logits": axis}
}

// rowsDrawAlone checks that a row with parameters of its own gives the token that
// it gives alone, in one workgroup and in many.
func rowsDrawAlone(t *testing.T, dev *kompute.Device) {
	s, err := dev.NewStream()
	require.NoError(t, err)
	defer s.Close()
	sc := s.Scope()
	defer sc.Close()
	for _, cols := range []int{700, 40_000} {
		logits := newSource(77).normal(array.Float32, 3, len(samplings), cols)
		var params, want []uint32
		for i, p := range samplings {
			words := p.Encode(uint64(i))
			params = append(params, words...)
			row := array.Storage[float32](logits)[i*cols : (i+1)*cols]
			alone := ops.Sample(s, kompute.Constant(s, row, 1, cols), kompute.Constant(s, words, ops.SampleParamsSize), ops.At(2))
			token, err := alone.Read(context.Background())
			require.NoError(t, err)
			want = append(want, token...)
		}
		all := kompute.Constant(s, array.Storage[float32](logits), len(samplings), cols)
		got, err := ops.Sample(s, all, kompute.Constant(s, params, len(samplings), ops.SampleParamsSize), ops.At(2)).Read(context.Background())
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}

// longRowsDraw checks rows that several workgroups share, by each of the ways to find which tokens are kept: the last two
// rows have more equal tokens than those workgroups list.
func longRowsDraw(t *testing.T, dev *kompute.Device) {
	cpu, err := kompute.Open("cpu")
	require.NoError(t, err)
	defer func() { require.NoError(t, cpu.Close()) }()
	r := &runner{suite: sampleSuite(), dev: dev, cpu: cpu}
	draw := func(logits array.Array, p sample.Params) {
		c := sampleCase("", logits, p, 0, 0)
		r.against(t, &c, r.oracle(t, &c))
	}
	for _, apart := range []float64{1.0 / 8, 1e-5} { // some of the likely tokens are equal, or all hardly differ
		for i, p := range []sample.Params{
			{Temperature: 1, TopP: 0.5},
			{Temperature: 0.7, TopP: 0.9, TopK: 120},
			{Temperature: 1.5, TopK: 60},
			{Temperature: 1, TopK: 3},
			{Temperature: 1, MinP: 0.3},
		} {
			p.Seed = uint64(12 + i)
			draw(fewLikely(apart), p)
		}
	}
	const equal = 400000
	logits := dense(array.Float32, make([]float64, equal), 1, equal)
	draw(logits, sample.Params{Temperature: 1, TopP: 0.5, Seed: 3})
	draw(logits, sample.Params{Temperature: 1, TopK: 3, Seed: 3})
}

// fewLikely returns rows in which 200 tokens are likely: eight each differ by a multiple of apart. So few are kept that one
// more or less would change most draws.
func fewLikely(apart float64) array.Array {
	const rows, cols, likely = 16, 70000, 200
	logits := newSource(3).normal(array.Float32, 1, 1, cols)
	set := setter(logits)
	for i := range likely {
		set((i*4127+i*i*31)%cols, 20+float64(i*7%(likely/8))*apart)
	}
	logits.Layout = must(logits.Broadcast(rows, cols))
	return logits
}
