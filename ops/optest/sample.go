package optest

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/kompute-go/kompute-go/fallback"
	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/sample"
	"github.com/kompute-go/kompute-go/ops"
)

func runSampleOf[T kompute.Float](c *call) *kompute.View {
	step := ops.At(c.Params.Offset)
	if c.in["step"] != nil {
		step = ops.AtDevice(tensor[int32](c, "step"))
	}
	return ops.Sample(c.s, tensor[T](c, "logits"), tensor[uint32](c, "params"), step).View()
}

func runSample(c *call) *kompute.View {
	return byFloat(c.dtype("logits"), runSampleOf[float32], runSampleOf[array.F16], runSampleOf[array.BF16])(c)
}

// referenceSample goes by the definition: filters over sorted probabilities, then
// a running sum in float64.
func referenceSample(c *Case) []float64 {
	p, step := c.Params.Sampling, uint64(int64(c.Params.Offset))
	if s, ok := c.In["step"]; ok {
		step = uint64(int64(floats(s)[0]))
	}
	var out []float64
	rows(c.In["logits"], func(row []float64) {
		n := uint64(c.Params.First) + step
		r := fallback.Philox([4]uint32{uint32(n), uint32(n >> 32), uint32(len(out)), 0}, [2]uint32{uint32(p.Seed), uint32(p.Seed >> 32)})
		out = append(out, drawn(row, p, (float64(r[0])+float64(r[1])/(1<<32))/(1<<32)))
	})
	return out
}

// drawn returns the token of one row for a random number u in [0, 1).
func drawn(row []float64, p sample.Params, u float64) float64 {
	largest := slices.Max(row) // a NaN if there is one
	if math.IsNaN(largest) || math.IsInf(largest, 0) {
		return ops.NoToken
	}
	if p.Temperature == 0 {
		return float64(slices.Index(row, largest))
	}
	keep := keptTokens(row, largest, p)
	total := 0.0
	weight := func(i int) float64 {
		if !keep[i] {
			return 0
		}
		return math.Exp((row[i] - largest) / p.Temperature)
	}
	for i := range row {
		total += weight(i)
	}
	sum := 0.0
	for i := range row {
		if sum += weight(i); sum > u*total {
			return float64(i)
		}
	}
	return math.NaN() // the sums above are the same: it cannot be
}

// keptTokens tells which tokens pass the filters.
func keptTokens(row []float64, largest float64, p sample.Params) []bool {
	order, total := make([]int, len(row)), 0.0
	for i, v := range row {
		order[i] = i
		total += math.Exp(v - largest)
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case row[a] > row[b]:
			return -1
		case row[a] < row[b]:
			return 1
		}
		return 0
	})
	keep, above := make([]bool, len(row)), 0.0
	for rank, i := range order {
		part := math.Exp(row[i]-largest) / total
		keep[i] = (p.TopK == 0 || rank < p.TopK) && (p.TopP == 0 || p.TopP == 1 || above < p.TopP) &&
			math.Exp(row[i]-largest) >= p.MinP
		above += part
	}
	return keep
}

// sampling makes the parameters of a case.
func sampling(p sample.Params, first uint64) array.Array {
	words := p.Encode(first)
	a, err := array.Of(words, len(words))
	if err != nil {
		panic(err)
	}
	return a
}

func sampleCase(label string, logits array.Array, p sample.Params, first, step int) Case {
	return Case{
		Name: label, In: map[string]array.Array{"logits": logits, "params": sampling(p, uint64(first))},
		Params: Params{Sampling: p, First: first, Offset: step},
	}
}

// samplings are combinations of filters.
var samplings = []sample.Params{
	{},
	{Temperature: 1},
	{Temperature: 0.6, TopP: 0.95, TopK: 20, Seed: 1 << 40},
	{Temperature: 1.7, TopK: 3, Seed: 2},
	{Temperature: 1, TopP: 0.4013, Seed: 3},
	{Temperature: 30, MinP: 0.0501, Seed: 4},
	{Temperature: 0.05, TopP: 0.9917, MinP: 0.001, TopK: 1000, Seed: 5},
	{Temperature: 1e4, TopP: 0.99931, Seed: 6},
	{Temperature: 2, TopK: 1, Seed: 7},
}

func sampleCases() []Case {
	var cases []Case
	for d, dtype := range floatTypes {
		for i, p := range samplings {
			r := newSource(uint64(40 + i))
			for _, shape := range [][]int{{1}, {3, 2}, {0, 5}, {2, 3, 70}, {5000}, {70, 1000}} {
				cases = append(cases, sampleCase(name(dtype, "", shape)+" "+string(rune('a'+i)), r.normal(dtype, 2, shape...), p, i, 3))
			}
			if (i+1)%len(floatTypes) != d { // one type each: each stage is a kernel of its own, for each type
				continue
			}
			cases = append(cases, sampleCase(name(dtype, "vocabulary", nil)+" "+string(rune('a'+i)), r.normal(dtype, 3, 151936), p, i, -2))
		}
	}
	hot := samplings[4]
	equal := dense(array.Float32, make([]float64, 200000), 200000)
	masked := dense(array.Float32, slices.Repeat([]float64{math.Inf(-1)}, 200000), 200000)
	for i, at := range []int{5, 150000, 150001, 199999} {
		setter(masked)(at, float64(i)/3)
	}
	huge := dense(array.Float32, []float64{-3e38, 3e38, 3e38, -1e-40, 0, 1e38}, 2, 3)
	cases = append(cases,
		sampleCase("equal", equal, sample.Params{Temperature: 1, TopK: 77777, Seed: 9}, 0, 0),
		sampleCase("equal, few kept", equal, sample.Params{Temperature: 1, TopK: 3, TopP: 0.9, Seed: 10}, 0, 0),
		sampleCase("all but a few masked", masked, sample.Params{Temperature: 2, TopK: 5, TopP: 0.9, Seed: 11}, 0, 0),
		sampleCase("huge", huge, hot, 0, 0),
		sampleCase("tiny", newSource(1).normal(array.Float32, 1e-30, 50), hot, 0, 0),
		sampleCase("far from zero", plus(newSource(2).normal(array.Float32, 2, 50), -5000), hot, 0, 0))
	for i, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		for _, cols := range []int{3, 20000} {
			logits := dense(array.Float32, slices.Repeat([]float64{math.Inf(-1)}, 3*cols), 3, cols)
			set := setter(logits)
			set(cols/2, 1)
			set(cols+1, 1)
			set(cols+2, bad)
			for _, p := range []sample.Params{{}, hot} {
				cases = append(cases, sampleCase(name(array.Float32, "bad", []int{i, cols}), logits, p, 0, 0))
			}
		}
	}
	return cases
}

// plus adds a number to all elements.
func plus(a array.Array, v float64) array.Array {
	get, set := getter(a), setter(a)
	walk(a.Layout, func(i int) { set(i, get(i)+v) })
	return a
}

func randomSample(t *rapid.T) Case {
	dtype, shape, r := drawType(t, "type", floatTypes), drawRows(t), drawSource(t)
	if shape[len(shape)-1] == 0 {
		shape[len(shape)-1] = 1
	}
	if rapid.IntRange(0, 3).Draw(t, "long") == 0 { // rows that several workgroups share
		shape = []int{rapid.IntRange(1, 2).Draw(t, "rows"), rapid.IntRange(66000, 90000).Draw(t, "length")}
	}
	logits := r.normal(dtype, rapid.SampledFrom([]float64{0.01, 1, 5, 40}).Draw(t, "scale"), shape...)
	p := sample.Params{
		Temperature: rapid.SampledFrom([]float64{0, 0.01, 0.31, 1, 1.9, 100}).Draw(t, "temperature"),
		TopP:        rapid.SampledFrom([]float64{0, 0.0517, 0.50131, 0.9117, 0.99957, 1}).Draw(t, "topP"),
		MinP:        rapid.SampledFrom([]float64{0, 0.0001234, 0.0517, 0.7113}).Draw(t, "minP"),
		TopK:        rapid.IntRange(0, 90).Draw(t, "topK"),
		Seed:        rapid.Uint64().Draw(t, "sampling seed"),
	}
	first := rapid.IntRange(0, math.MaxInt32).Draw(t, "first")
	c := sampleCase("", drawLayout(t, "logits", logits), p, first, rapid.IntRange(math.MinInt32, math.MaxInt32).Draw(t, "step"))
	c.In["params"] = place(c.In["params"], rapid.SampledFrom(layouts).Draw(t, "params layout"))
	if rapid.Bool().Draw(t, "on device") {
		c.In["step"] = place(dense(array.Int32, []float64{float64(c.Params.Offset)}, 1), rapid.SampledFrom(layouts).Draw(t, "step layout"))
	}
	return c
}

func sampleSuite() suite {
	words := func(e *env) *kompute.Tensor[uint32] { return e.u32(ops.SampleParamsSize) }
	return suite{
		op: "sample", run: runSample, reference: referenceSample, cases: sampleCases, draw: randomSample,
		exact: func(*Case) bool { return true }, optional: []string{"step"}, thin: 30, along: sampleAlong,
		extra: func(t *testing.T, dev *kompute.Device) {
			drawsFollowWeights(t, dev)
			replaysAdvance(t, dev)
			rowsDrawAlone(t, dev)
			longRowsDraw(t, dev)
		},
		large: func(dtype array.DType, _ string, size int) Case {
			row := newSource(1).normal(dtype, 3, 1, 151936)
			row.Layout = must(row.Broadcast(max(size/151936, 1), 151936))
			return sampleCase("", row, samplings[2], 0, 0)
		},
		valid: func() Case {
			c := sampleCase("", newSource(1).normal(array.Float32, 1, 2, 3), samplings[1], 0, 0)
			c.In["step"] = dense(array.Int32, []float64{1}, 1)
			return c
		},
		rejects: []reject{
			{"rank 0", kompute.ErrShape, func(e *env) error { return ops.Sample(e.s, e.f32(), words(e), ops.At(0)).Err() }},
			{"no elements", kompute.ErrShape, func(e *env) error { return ops.Sample(e.s, e.f32(2, 0), words(e), ops.At(0)).Err() }},
			{"too many elements", kompute.ErrShape, func(e *env) error {
				return ops.Sample(e.s, e.repeated(2, 1<<24), words(e), ops.At(0)).Err()
			}},
			{"params", kompute.ErrShape, func(e *env) error { return ops.Sample(e.s, e.f32(2, 3), e.u32(3), ops.At(0)).Err() }},
			{"params of rows", kompute.ErrShape, func(e *env) error {
				return ops.Sample(e.s, e.f32(2, 3), e.u32(3, ops.SampleParamsSize), ops.At(0)).Err()
			}},
			{"params of rows of three axes", kompute.ErrShape, func(e *env) error {
				return ops.Sample(e.s, e.f32(2, 2, 3), e.u32(2, ops.SampleParamsSize), ops.At(0)).Err()
			}},
			{"step", kompute.ErrShape, func(e *env) error {
				return ops.Sample(e.s, e.f32(2, 3), words(e), ops.AtDevice(e.i32(2))).Err()
			}},
			{"nil step", kompute.ErrInvalid, func(e *env) error {
				return ops.Sample(e.s, e.f32(2, 3), words(e), ops.AtDevice(nil)).Err()
			}},
			{"host step", kompute.ErrInvalid, func(e *env) error {
				return ops.Sample(e.s, e.f32(2, 3), words(e), ops.At(wide(1<<31))).Err()
			}},
		},
	}
}
