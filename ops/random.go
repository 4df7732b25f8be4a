package ops

import (
	"math"

	"github.com/kompute-go/kompute-go/fallback"
	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/opdef"
	"github.com/kompute-go/kompute-go/kompute"
)

var randomCPU = onCPU(func(a []array.Array, p *opdef.RandomParams) error {
	return fallback.Random(at(a, opdef.Random.State), at(a, opdef.Random.Out), fallback.RandomParams{Kind: p.Kind, First: p.First, Scale: p.Scale, Limit: p.Limit})
})

// RandomStateSize is the length of the state that random ops draw from.
const RandomStateSize = opdef.RandomStateSize

// RandomState returns the content of the state that random ops draw from, a uint32 tensor
// [RandomStateSize]. Ops do not change the state: the same state always gives the same numbers,
// and one with another seed or counter gives others. A region that should draw new numbers in
// each replay adds (0, 0, 1, 0) to its state with [Add].
func RandomState(seed, counter uint64) []uint32 {
	return []uint32{uint32(seed), uint32(seed >> 32), uint32(counter), uint32(counter >> 32)}
}

// Uniform returns uniformly distributed numbers from [low, high) in the given shape. They are low +
// (high-low)*u in float32, rounded to the element type, where u has 24 random bits of Philox
// 4x32-10 (Salmon et al., 2011); a number that rounds up to high becomes the largest number below
// it. Every device gives the same numbers.
//
// # Errors
//
// ErrShape if state is not [RandomStateSize], or the shape is invalid; ErrInvalid if low, high or
// their difference is not finite, or low is not below high, each rounded to the element type.
func Uniform[T kompute.Float](s *kompute.Stream, state *kompute.Tensor[uint32], low, high float32, shape ...int) *kompute.Tensor[T] {
	c := newCall(s, opdef.Random.Op)
	c.named("uniform")
	dtype := array.DTypeOf[T]()
	low, high = dtype.Round(low), dtype.Round(high)
	if width := high - low; !(width > 0) || math.IsInf(float64(width), 0) {
		c.fail(kompute.ErrInvalid, "there is no number from %v up to %v in %v", low, high, dtype)
	}
	return random[T](c, state, shape, fallback.RandomParams{
		Kind: opdef.RandomUniform, First: low, Scale: high - low, Limit: below(dtype, high),
	})
}

// Normal returns normally distributed numbers with the given mean and standard
// deviation, in the given shape, from the same generator, by the method of Box
// and Muller. None is more than 5.8 deviations from the mean. The last bits of
// float32 numbers differ between devices, as those of their logarithms and cosines do.
//
// # Errors
//
// ErrShape if state is not [RandomStateSize], or the shape is invalid; ErrInvalid if mean or
// deviation is not finite, or deviation is negative.
func Normal[T kompute.Float](s *kompute.Stream, state *kompute.Tensor[uint32], mean, deviation float32, shape ...int) *kompute.Tensor[T] {
	c := newCall(s, opdef.Random.Op)
	c.named("normal")
	if sum := float64(mean) + float64(deviation); math.IsNaN(sum) || math.IsInf(sum, 0) || deviation < 0 {
		c.fail(kompute.ErrInvalid, "mean %v and deviation %v", mean, deviation)
	}
	return random[T](c, state, shape, fallback.RandomParams{Kind: opdef.RandomNormal, First: mean, Scale: deviation})
}

// random checks the state and the shape, and enqueues the op.
func random[T kompute.Float](c *call, state *kompute.Tensor[uint32], shape []int, p fallback.RandomParams) *kompute.Tensor[T] {
	c.shape("the state", input(c, opdef.Random.State.Called("the state"), state), RandomStateSize)
	params := opdef.RandomParams{Kind: p.Kind, First: p.First, Scale: p.Scale, Limit: p.Limit}
	return result[T](c, c.newShape(shape), params, randomCPU)
}

// Categorical draws an index from each row of logits [..., V] in proportion to
// its exponential; the result is [...]. It is [Sample] at temperature 1 without
// filters, for the seed and the counter of state, and gives [NoToken] in the
// same cases.
//
// # Errors
//
// ErrShape if logits has rank 0, rows have no elements or 2^24 and more, or state
// is not [RandomStateSize].
func Categorical[T kompute.Float](s *kompute.Stream, logits *kompute.Tensor[T], state *kompute.Tensor[uint32]) *kompute.Tensor[uint32] {
	c := newCall(s, opdef.Sample.Op)
	c.named("categorical")
	l := c.sampled("logits", input(c, opdef.Sample.Logits, logits))
	c.shape("the state", input(c, opdef.Sample.Params.Called("the state"), state), RandomStateSize)
	if c.err != nil {
		return kompute.Failed[uint32](s, c.err)
	}
	params := kompute.Constant(s, fallback.SamplePlain(), SampleParamsSize)
	SliceUpdate(s, params, state, At(int(opdef.SampleSeed)))
	if err := params.Err(); err != nil {
		return kompute.Failed[uint32](s, err)
	}
	input(c, opdef.Sample.Params, params)
	return c.sample(l, 0)
}

// below returns the largest number of an element type below v, a number of that
// type.
func below(dtype array.DType, v float32) float32 {
	step := uint32(1)
	switch dtype {
	case array.BFloat16:
		step = 1 << 16
	case array.Float16:
		if abs := math.Abs(float64(v)); abs <= 0x1p-14 {
			return v - 0x1p-24 // the numbers around zero are that far apart
		}
		step = 1 << 13
	}
	bits := math.Float32bits(v)
	switch {
	case v == 0:
		return math.Float32frombits(1<<31 | step)
	case v > 0:
		return math.Float32frombits(bits - step)
	}
	return math.Float32frombits(bits + step)
}
