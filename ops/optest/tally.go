package optest

import (
	"pgregory.net/rapid"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/ops"
)

func runTally(c *call) *kompute.View {
	return ops.Tally(c.s, tensor[uint32](c, "counts"), tensor[int32](c, "rows"), tensor[uint32](c, "tokens"), tensor[uint32](c, "amounts")).View()
}

func referenceTally(c *Case) []float64 {
	counts := c.In["counts"]
	out, cols := floats(counts), counts.Dim(1)
	row, token, amount := floats(c.In["rows"]), floats(c.In["tokens"]), floats(c.In["amounts"])
	for n := range row {
		if row[n] >= 0 && int(row[n]) < counts.Dim(0) && int(token[n]) < cols {
			place := &out[int(row[n])*cols+int(token[n])]
			*place = wrap(array.Uint32, int64(*place+amount[n]))
		}
	}
	return out
}

// tallyCase has n amounts for counts of that many rows and columns, and some without a place.
func tallyCase(r source, rows, cols, n int) Case {
	return Case{
		Name: name(array.Uint32, "", []int{rows, cols, n}),
		In: map[string]array.Array{
			"counts": r.integers(array.Uint32, 0, 3, rows, cols), "rows": r.integers(array.Int32, -1, rows, n),
			"tokens": r.integers(array.Uint32, 0, cols, n), "amounts": r.integers(array.Uint32, 0, 2, n),
		},
	}
}

func tallyCases() []Case {
	r := newSource(91)
	cases := []Case{tallyCase(r, 3, 50, 200), tallyCase(r, 1, 1, 1), tallyCase(r, 2, 3, 5000), tallyCase(r, 4, 5, 0), tallyCase(r, 0, 5, 3)}
	for i, how := range layouts {
		c := tallyCase(r, 3, 7, 40)
		c.Name += "/" + how
		c.In["counts"] = place(c.In["counts"], how)
		for k, operand := range []string{"rows", "tokens", "amounts"} {
			c.In[operand] = place(c.In[operand], layouts[(i+k+1)%len(layouts)])
		}
		cases = append(cases, c)
	}
	return append(cases, Case{Name: "bits", In: map[string]array.Array{ // sums that wrap around, and places far outside
		"counts":  dense(array.Uint32, []float64{1<<32 - 1, 1 << 31, 5, 6}, 2, 2),
		"rows":    dense(array.Int32, []float64{0, 0, 1, 1, -1 << 31, 1<<31 - 1, -1}, 7),
		"tokens":  dense(array.Uint32, []float64{0, 1, 1<<32 - 1, 1, 0, 0, 1}, 7),
		"amounts": dense(array.Uint32, []float64{3, 1 << 31, 9, 1<<32 - 1, 9, 9, 9}, 7),
	}})
}

func randomTally(t *rapid.T) Case {
	n := func(label string, most int) int { return rapid.IntRange(1, most).Draw(t, label) }
	c := tallyCase(drawSource(t), n("rows", 4), n("cols", 90), n("n", 100))
	c.In["counts"] = place(c.In["counts"], rapid.SampledFrom(layouts).Draw(t, "counts layout"))
	for _, operand := range []string{"rows", "tokens", "amounts"} {
		c.In[operand] = drawLayout(t, operand, c.In[operand])
	}
	return c
}

func tallySuite() suite {
	type u32 = *kompute.Tensor[uint32]
	tally := func(f func(e *env) (counts u32, rows *kompute.Tensor[int32], tokens, amounts u32)) func(e *env) error {
		return func(e *env) error {
			counts, rows, tokens, amounts := f(e)
			return ops.Tally(e.s, counts, rows, tokens, amounts).Err()
		}
	}
	type i32 = *kompute.Tensor[int32]
	return suite{
		op: "tally", run: runTally, reference: referenceTally, cases: tallyCases, draw: randomTally,
		exact: func(*Case) bool { return true },
		large: func(_ array.DType, _ string, size int) Case {
			return tallyCase(newSource(92), max(size/65536, 1), 65536, 1024)
		},
		valid: func() Case { return tallyCase(newSource(1), 2, 5, 6) },
		rejects: []reject{
			{"rank", kompute.ErrShape, tally(func(e *env) (u32, i32, u32, u32) { return e.u32(8), e.i32(3), e.u32(3), e.u32(3) })},
			{"rows", kompute.ErrShape, tally(func(e *env) (u32, i32, u32, u32) { return e.u32(2, 4), e.i32(3, 1), e.u32(3), e.u32(3) })},
			{"tokens", kompute.ErrShape, tally(func(e *env) (u32, i32, u32, u32) { return e.u32(2, 4), e.i32(3), e.u32(2), e.u32(3) })},
			{"amounts", kompute.ErrShape, tally(func(e *env) (u32, i32, u32, u32) { return e.u32(2, 4), e.i32(3), e.u32(3), e.u32(1) })},
			{"repeated", kompute.ErrInvalid, tally(func(e *env) (u32, i32, u32, u32) {
				return own(e.t, e.u32(1, 4).Broadcast(2, 4)), e.i32(3), e.u32(3), e.u32(3)
			})},
			{"shared", kompute.ErrInvalid, tally(func(e *env) (u32, i32, u32, u32) {
				counts := e.u32(2, 3)
				one := own(e.t, counts.Slice(0, 0, 1))
				return counts, e.i32(3), own(e.t, one.Reshape(3)), e.u32(3)
			})},
		},
	}
}
