package ops

import (
	"math"
	"slices"

	"github.com/kompute-go/kompute-go/fallback"
	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/opdef"
	"github.com/kompute-go/kompute-go/kompute"
)

var sampleCPU = onCPU(func(a []array.Array, p *opdef.SampleParams) error {
	return fallback.Sample(at(a, opdef.Sample.Logits), at(a, opdef.Sample.Params), at(a, opdef.Sample.Step), at(a, opdef.Sample.Out), p.Step)
})

// SampleParamsSize is the length of the parameters of [Sample].
const SampleParamsSize = opdef.SampleParamsSize

// NoToken is the result of [Sample], [Categorical] and [Greedy] for a row that contains a NaN or +Inf, or
// no finite logit.
const NoToken = fallback.NoToken

// Sample draws a token from each row of logits [..., V]; the result [...] holds
// the tokens' indices.
//
// params [SampleParamsSize] holds what sample.Params.Encode of package sample
// returns: temperature, top-k, top-p, min-p, seed, and the number of the first
// draw. They are read when the op runs, so that one recorded region serves any
// of them. For logits [N, V] they may be [N, SampleParamsSize], one for each row,
// which then draws as it would alone, whatever its number. step is added to the
// number of the first draw: At(n), or AtDevice of an int32 tensor [1] that a region
// advances by itself. The random numbers are those of Philox 4x32-10 for the seed,
// the number of the draw and the row.
//
// Package sample documents the filters. At temperature 0 the result is the largest logit, the first
// if several are equal. A row with a NaN or +Inf, or without a finite logit, gives [NoToken].
//
// Weights and their sums are integers, so that equal logits give the same token
// on every device. They are within 2e-8 of the formula, and those below 2^-40
// of the largest one are 0.
//
// # Errors
//
// ErrShape if logits has rank 0, rows have no elements or at least 2^24, params is neither
// [SampleParamsSize] nor, for two axes of logits, [N, SampleParamsSize], or a device step is not
// [1]; ErrInvalid if a host step does not fit 32 bits.
func Sample[T kompute.Float](s *kompute.Stream, logits *kompute.Tensor[T], params *kompute.Tensor[uint32], step Position) *kompute.Tensor[uint32] {
	c := newCall(s, opdef.Sample.Op)
	l := c.sampled("logits", input(c, opdef.Sample.Logits, logits))
	if pl := input(c, opdef.Sample.Params, params); pl.Rank() == 2 && l.Rank() == 2 {
		c.shape("params", pl, l.Dim(0), SampleParamsSize)
	} else {
		c.shape("params", pl, SampleParamsSize)
	}
	if step.set {
		c.shape("the step", input(c, opdef.Sample.Step.Called("the step"), step.device), 1)
	} else if step.host < math.MinInt32 || step.host > math.MaxInt32 {
		c.fail(kompute.ErrInvalid, "the step %d does not fit 32 bits", step.host)
	}
	return c.sample(l, int32(step.host))
}

// sampled checks the rows of logits.
func (c *call) sampled(name string, l array.Layout) array.Layout {
	n := c.lastAxis(name, l)
	if c.err == nil && (n >= fallback.MaxSampleRow || n == 0 && !slices.Contains(l.Shape[:l.Rank()-1], 0)) {
		c.fail(kompute.ErrShape, "rows of %d elements", n)
	}
	return l
}

// sample enqueues the op for logits of that layout, if its operands are valid.
func (c *call) sample(l array.Layout, step int32) *kompute.Tensor[uint32] {
	var shape []int
	if c.err == nil {
		shape = l.Shape[:l.Rank()-1]
	}
	return result[uint32](c, shape, opdef.SampleParams{Step: step}, sampleCPU)
}
