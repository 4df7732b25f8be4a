package optest

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/sample"
	"github.com/kompute-go/kompute-go/ops"
)

func runMask(c *call) *kompute.View {
	return ops.Mask(c.s, tensor[float32](c, "logits"), tensor[uint32](c, "allowed")).View()
}

func referenceMask(c *Case) []float64 {
	logit, word := elements(c.In["logits"]), elements(c.In["allowed"])
	return build(c.In["logits"].Shape, func(at []int) float64 {
		if uint32(word([]int{at[0], at[1] / 32}))>>(at[1]%32)&1 == 0 {
			return math.Inf(-1)
		}
		return logit(at)
	})
}

// allowed returns bits of n rows for that many tokens: words of any bits, of nearly all or none, and of all or none.
func (r source) allowed(n, cols int) array.Array {
	shape := []int{n, (cols + 31) / 32}
	words := make([]float64, size(shape))
	for i := range words {
		one := uint32(1) << r.IntN(32)
		words[i] = float64([]uint32{0, 0, math.MaxUint32, math.MaxUint32, one, ^one, r.Uint32()}[r.IntN(7)])
	}
	return dense(array.Uint32, words, shape...)
}

func maskCase(r source, n, cols int) Case {
	return Case{
		Name: name(array.Float32, "", []int{n, cols}),
		In:   map[string]array.Array{"logits": r.normal(array.Float32, 5, n, cols), "allowed": r.allowed(n, cols)},
	}
}

func maskCases() []Case {
	r := newSource(95)
	cases := []Case{
		maskCase(r, 5, 96), maskCase(r, 4, 70), maskCase(r, 1, 1), maskCase(r, 2, 31), maskCase(r, 2, 33), maskCase(r, 3, 5000),
		maskCase(r, 8, 151936), maskCase(r, 3, 151900), maskCase(r, 0, 40), maskCase(r, 3, 0),
	}
	for i, how := range layouts {
		for _, other := range []string{layouts[i], layouts[(i+1)%len(layouts)]} {
			c := maskCase(r, 4, 75)
			c.Name += "/" + how + "/" + other
			c.In["logits"], c.In["allowed"] = place(c.In["logits"], how), place(c.In["allowed"], other)
			cases = append(cases, c)
		}
	}
	for axis, label := range []string{"one row for all", "one word for all"} {
		c := maskCase(r, 4, 200)
		c.Name += "/" + label
		c.In["allowed"] = repeat(c.In["allowed"], axis)
		cases = append(cases, c)
	}
	inf, nan := math.Inf(1), math.NaN()
	return append(cases, Case{Name: "special", In: map[string]array.Array{
		"logits":  dense(array.Float32, []float64{inf, -inf, nan, 3e38, inf, -inf, nan, 3e38}, 1, 8),
		"allowed": dense(array.Uint32, []float64{0b10101111_00001111}, 1, 1), // more bits than logits
	}})
}

func randomMask(t *rapid.T) Case {
	n := func(label string, most int) int { return rapid.IntRange(1, most).Draw(t, label) }
	c := maskCase(drawSource(t), n("n", 6), n("cols", 200))
	c.In["logits"] = place(c.In["logits"], rapid.SampledFrom(layouts).Draw(t, "logits layout"))
	c.In["allowed"] = drawLayout(t, "allowed", c.In["allowed"])
	return c
}

// maskAlong: rows are independent. Words have the bits of several columns.
func maskAlong(_ *Case, axis int) map[string]int {
	if axis == 1 {
		return nil
	}
	return map[string]int{"logits": 0, "allowed": 0}
}

// maskKeepsBits checks that nothing changes but the logits that go: not the bits of those that stay, whatever they are,
// and nothing around a view.
func maskKeepsBits(t *testing.T, dev *kompute.Device) {
	s, err := dev.NewStream()
	require.NoError(t, err)
	defer s.Close()
	scope := s.Scope()
	defer scope.Close()
	// NaNs of either sign, quiet and signaling; infinities; zeros; subnormal numbers.
	patterns := []uint32{0x7fc00000, 0xffc12345, 0x7f812345, 0xff800001, 0x7f800000, 0xff800000, 0, 1 << 31, 1, 0x80000001, 0x3f800000}
	const rows, width, first, cols = 3, 80, 5, 71
	data, want := make([]float32, rows*width), make([]uint32, rows*width)
	r := newSource(96)
	bits := r.allowed(rows, cols)
	words := array.Storage[uint32](bits)
	for i := range data {
		want[i] = patterns[i%len(patterns)]
		data[i] = math.Float32frombits(want[i])
		if n, v := i/width, i%width-first; v >= 0 && v < cols && words[n*bits.Dim(1)+v/32]>>(v%32)&1 == 0 {
			want[i] = 0xff800000
		}
	}
	base, err := kompute.New(dev, data, rows, width)
	require.NoError(t, err)
	defer base.Close()
	allowed, err := kompute.New(dev, words, bits.Shape...)
	require.NoError(t, err)
	defer allowed.Close()
	ops.Mask(s, own(t, base.Slice(1, first, first+cols)), allowed)
	read, err := base.Read(context.Background())
	require.NoError(t, err)
	got := make([]uint32, len(read))
	for i, v := range read {
		got[i] = math.Float32bits(v)
	}
	require.Equal(t, want, got)
}

// chosenAfterMask checks that Greedy and Sample choose a token that is allowed, however unlikely, and none if none is.
func chosenAfterMask(t *testing.T, dev *kompute.Device) {
	s, err := dev.NewStream()
	require.NoError(t, err)
	defer s.Close()
	scope := s.Scope()
	defer scope.Close()
	const rows, cols, only = 3, 100, 67
	data, words := make([]float32, rows*cols), make([]uint32, rows*4)
	for n := range rows {
		data[n*cols+only] = -3e38
		words[n*4+only/32] = 1 << (only % 32)
	}
	words[only/32] = 0 // the first row has no token
	logits, err := kompute.New(dev, data, rows, cols)
	require.NoError(t, err)
	defer logits.Close()
	allowed, err := kompute.New(dev, words, rows, 4)
	require.NoError(t, err)
	defer allowed.Close()
	masked := ops.Mask(s, logits, allowed)
	hot := sample.Params{Temperature: 1e4}
	params, err := kompute.New(dev, hot.Encode(0), ops.SampleParamsSize)
	require.NoError(t, err)
	defer params.Close()
	for _, chosen := range []*kompute.Tensor[uint32]{ops.Greedy(s, masked), ops.Sample(s, masked, params, ops.At(0))} {
		got, err := chosen.Read(context.Background())
		require.NoError(t, err)
		require.Equal(t, []uint32{ops.NoToken, only, only}, got)
	}
}

func maskSuite() suite {
	type (
		f32 = *kompute.Tensor[float32]
		u32 = *kompute.Tensor[uint32]
	)
	mask := func(f func(e *env) (logits f32, allowed u32)) func(e *env) error {
		return func(e *env) error {
			logits, allowed := f(e)
			return ops.Mask(e.s, logits, allowed).Err()
		}
	}
	return suite{
		op: "mask", run: runMask, reference: referenceMask, cases: maskCases, draw: randomMask,
		exact: func(*Case) bool { return true }, along: maskAlong,
		extra: func(t *testing.T, dev *kompute.Device) {
			maskKeepsBits(t, dev)
			chosenAfterMask(t, dev)
		},
		large: func(_ array.DType, _ string, size int) Case {
			return maskCase(newSource(97), max(size/151936, 1), 151936)
		},
		valid: func() Case { return maskCase(newSource(1), 2, 40) },
		rejects: []reject{
			{"rank", kompute.ErrShape, mask(func(e *env) (f32, u32) { return e.f32(64), e.u32(1, 2) })},
			{"rank of allowed", kompute.ErrShape, mask(func(e *env) (f32, u32) { return e.f32(1, 64), e.u32(2) })},
			{"rows", kompute.ErrShape, mask(func(e *env) (f32, u32) { return e.f32(2, 64), e.u32(1, 2) })},
			{"too few words", kompute.ErrShape, mask(func(e *env) (f32, u32) { return e.f32(2, 65), e.u32(2, 2) })},
			{"too many words", kompute.ErrShape, mask(func(e *env) (f32, u32) { return e.f32(2, 64), e.u32(2, 3) })},
			{"repeated", kompute.ErrInvalid, mask(func(e *env) (f32, u32) { return e.repeated(2, 64), e.u32(2, 2) })},
		},
	}
}
