package optest

import (
	"math"

	"pgregory.net/rapid"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/ops"
)

func runPenalize(c *call) *kompute.View {
	return ops.Penalize(c.s, tensor[float32](c, "logits"), tensor[uint32](c, "counts"), tensor[float32](c, "penalties"), tensor[int32](c, "rows")).View()
}

// referencePenalize rounds each operation, as the op promises.
func referencePenalize(c *Case) []float64 {
	counts, penalty := c.In["counts"], elements(c.In["penalties"])
	logit, count, rows := elements(c.In["logits"]), elements(counts), floats(c.In["rows"])
	f32 := func(v float64) float64 { return float64(float32(v)) }
	return build(c.In["logits"].Shape, func(at []int) float64 {
		from, v := int(rows[at[0]]), logit(at)
		if from < 0 || from >= counts.Dim(0) || count([]int{from, at[1]}) == 0 {
			return v
		}
		factor := penalty([]int{from, 1})
		if v > 0 {
			factor = penalty([]int{from, 0})
		}
		v = f32(v * factor)
		if times := math.Mod(count([]int{from, at[1]}), 1<<31); times > 0 {
			v = f32(v - f32(penalty([]int{from, 2})+f32(penalty([]int{from, 3})*times)))
		}
		return v
	})
}

// penalizeCase has n rows of logits, and counts of that many texts, some of them 0.
func penalizeCase(r source, n, rows, cols int) Case {
	counts, penalties := make([]float64, rows*cols), make([]float64, 0, rows*ops.PenaltiesSize)
	for i := range counts {
		counts[i] = []float64{0, 0, 0, 1, 2, 300, 1 << 31, 1<<31 + 7}[r.IntN(8)]
	}
	for range rows {
		repetition := 0.5 + r.Float64()
		penalties = append(penalties, 1/repetition, repetition, r.NormFloat64(), r.NormFloat64())
	}
	return Case{
		Name: name(array.Float32, "", []int{n, rows, cols}),
		In: map[string]array.Array{
			"logits": r.normal(array.Float32, 5, n, cols), "counts": dense(array.Uint32, counts, rows, cols),
			"penalties": dense(array.Float32, penalties, rows, ops.PenaltiesSize), "rows": r.integers(array.Int32, -1, rows, n),
		},
	}
}

func penalizeCases() []Case {
	r := newSource(93)
	cases := []Case{penalizeCase(r, 5, 4, 70), penalizeCase(r, 1, 1, 1), penalizeCase(r, 3, 2, 5000), penalizeCase(r, 0, 4, 5), penalizeCase(r, 2, 0, 5), penalizeCase(r, 2, 3, 0)}
	for i, how := range layouts {
		c := penalizeCase(r, 4, 3, 9)
		c.Name += "/" + how
		for k, operand := range []string{"logits", "counts", "penalties", "rows"} {
			c.In[operand] = place(c.In[operand], layouts[(i+k)%len(layouts)])
		}
		cases = append(cases, c)
	}
	inf, all := math.Inf(1), []float64{1, 1, 1, 1, 1, 1, 1}
	return append(cases, Case{Name: "special", In: map[string]array.Array{
		"logits": dense(array.Float32, []float64{inf, -inf, math.NaN(), 0, 3e38, -3e38, 1}, 1, 7),
		"counts": dense(array.Uint32, all, 1, 7), "rows": dense(array.Int32, []float64{0}, 1),
		"penalties": dense(array.Float32, []float64{0.5, 2, 0.25, 0.5}, 1, 4),
	}})
}

func randomPenalize(t *rapid.T) Case {
	n := func(label string, most int) int { return rapid.IntRange(1, most).Draw(t, label) }
	c := penalizeCase(drawSource(t), n("n", 6), n("rows", 4), n("cols", 90))
	c.In["logits"] = place(c.In["logits"], rapid.SampledFrom(layouts).Draw(t, "logits layout"))
	for _, operand := range []string{"counts", "penalties", "rows"} {
		c.In[operand] = drawLayout(t, operand, c.In[operand])
	}
	return c
}

// penalizeAlong: tokens are independent, and so are rows of logits.
func penalizeAlong(_ *Case, axis int) map[string]int {
	if axis == 1 {
		return map[string]int{"logits": 1, "counts": 1}
	}
	return map[string]int{"logits": 0, "rows": 0}
}

func penalizeSuite() suite {
	type (
		f32 = *kompute.Tensor[float32]
		u32 = *kompute.Tensor[uint32]
		i32 = *kompute.Tensor[int32]
	)
	penalize := func(f func(e *env) (logits f32, counts u32, penalties f32, rows i32)) func(e *env) error {
		return func(e *env) error {
			logits, counts, penalties, rows := f(e)
			return ops.Penalize(e.s, logits, counts, penalties, rows).Err()
		}
	}
	return suite{
		op: "penalize", run: runPenalize, reference: referencePenalize, cases: penalizeCases, draw: randomPenalize,
		exact: func(*Case) bool { return true }, along: penalizeAlong,
		large: func(_ array.DType, _ string, size int) Case {
			rows := max(size/65536, 1)
			return penalizeCase(newSource(94), rows, rows, 65536)
		},
		valid: func() Case { return penalizeCase(newSource(1), 2, 3, 5) },
		rejects: []reject{
			{"rank", kompute.ErrShape, penalize(func(e *env) (f32, u32, f32, i32) { return e.f32(8), e.u32(2, 8), e.f32(2, 4), e.i32(1) })},
			{"rank of counts", kompute.ErrShape, penalize(func(e *env) (f32, u32, f32, i32) { return e.f32(1, 8), e.u32(8), e.f32(2, 4), e.i32(1) })},
			{"counts", kompute.ErrShape, penalize(func(e *env) (f32, u32, f32, i32) { return e.f32(1, 8), e.u32(2, 7), e.f32(2, 4), e.i32(1) })},
			{"rows", kompute.ErrShape, penalize(func(e *env) (f32, u32, f32, i32) { return e.f32(1, 8), e.u32(2, 8), e.f32(2, 4), e.i32(2) })},
			{"penalties", kompute.ErrShape, penalize(func(e *env) (f32, u32, f32, i32) { return e.f32(1, 8), e.u32(2, 8), e.f32(2, 3), e.i32(1) })},
			{"repeated", kompute.ErrInvalid, penalize(func(e *env) (f32, u32, f32, i32) { return e.repeated(2, 8), e.u32(2, 8), e.f32(2, 4), e.i32(2) })},
			{"shared", kompute.ErrInvalid, penalize(func(e *env) (f32, u32, f32, i32) {
				logits := e.f32(2, 8)
				return logits, e.u32(2, 8), own(e.t, logits.Slice(1, 2, 6)), e.i32(2)
			})},
		},
	}
}
