package fallback

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/array"
)

func TestRoPE(t *testing.T) {
	check(t, func(g *gen) {
		dtype := g.dtype("type", floatTypes)
		shape := []int{g.int("b", 1, 3), g.int("h", 0, 4), g.int("t", 1, 9), g.int("d", 0, 70)}
		p := RoPEParams{
			Dims: 2 * g.int("pairs", 0, shape[3]/2), Traditional: g.bool("traditional"),
			Base: float32(g.int("base", 2, 100000)), Scale: []float32{1, 0.5, 2}[g.int("scale", 0, 2)], Offset: g.int("offset", 0, 50),
		}
		var offset, freqs array.Array
		if g.bool("offsets") {
			n := []int{1, shape[0]}[g.int("offsets", 0, 1)]
			offset = g.array(array.Int32, []int{n}, func() float64 { return float64(g.rng.IntN(50)) })
		}
		if g.bool("freqs") {
			freqs = g.array(array.Float32, []int{p.Dims / 2}, func() float64 { return 1 + 100*g.rng.Float64() })
		}
		x, out := g.array(dtype, shape, g.normal), g.output(dtype, shape)
		g.agree(func(in []array.Array, out array.Array) error {
			return RoPE(in[0], in[1], in[2], out, p)
		}, out, 1e-7, 3, x, offset, freqs)
		each(shape, func(at []int) { // also for cases that ops.RoPE does not produce: no pairs, an odd head
			if at[3] >= p.Dims {
				require.Equal(g, value(x, at...), value(out, at...))
			}
		})
	})
}

func TestRoPEErrors(t *testing.T) {
	x := must(t, make([]float32, 4), 1, 1, 1, 4)
	none := array.Array{}
	p := RoPEParams{Dims: 4, Base: 10000, Scale: 1}
	require.NoError(t, RoPE(x, none, none, x, p))
	require.ErrorIs(t, RoPE(x, none, none, x, RoPEParams{Dims: 3}), ErrInvalid)
	require.ErrorIs(t, RoPE(x, none, none, x, RoPEParams{Dims: 6}), ErrInvalid)
	require.ErrorIs(t, RoPE(x, none, none, x, RoPEParams{Dims: -2}), ErrInvalid)
	require.ErrorIs(t, RoPE(must(t, make([]float32, 4), 1, 1, 4), none, none, x, p), ErrInvalid)
	require.ErrorIs(t, RoPE(x, x, none, x, p), ErrInvalid)
	require.ErrorIs(t, RoPE(x, must(t, []int32{1, 2}, 2), none, x, p), ErrInvalid)
	require.ErrorIs(t, RoPE(x, none, must(t, []float32{1}, 1), x, p), ErrInvalid)
	require.ErrorIs(t, RoPE(x, none, must(t, []int32{1, 2}, 2), x, p), ErrInvalid)
}

func TestSDPA(t *testing.T) {
	check(t, func(g *gen) {
		dtype := g.dtype("type", floatTypes)
		b, kv, group := g.int("b", 1, 2), g.int("kv heads", 1, 2), g.int("group", 1, 3)
		if g.int("many heads", 0, 20) == 0 {
			group = 35
		}
		tq, tk := g.length("queries", 40), g.length("keys", 300)
		d, dv := g.length("d", 128), g.length("dv", 40)
		tq = min(tq, max(1, 1<<19/max(b*kv*group*tk*(d+dv), 1)))
		heads := kv * group
		q := g.array(dtype, []int{b, heads, tq, d}, g.normal)
		k := g.array(dtype, []int{b, kv, tk, d}, g.normal)
		v := g.array(dtype, []int{b, kv, tk, dv}, g.normal)
		var mask, length array.Array
		switch g.int("mask", 0, 2) {
		case 1:
			mask = g.array(array.Bool, []int{b, heads, tq, tk}, func() float64 { return float64(g.rng.IntN(2)) })
		case 2:
			mask = g.array(dtype, []int{b, heads, tq, tk}, func() float64 {
				if g.rng.IntN(3) == 0 {
					return math.Inf(-1)
				}
				return g.normal()
			})
		}
		if g.bool("length") {
			length = g.array(array.Int32, []int{1}, func() float64 { return float64(g.rng.IntN(tk+4) - 1) })
		}
		causal := g.bool("causal")
		out := g.output(dtype, []int{b, heads, tq, dv})
		g.agree(func(in []array.Array, out array.Array) error {
			return SDPA(in[0], in[1], in[2], in[3], in[4], out, 0.3, causal)
		}, out, 4e-6, 3, q, k, v, mask, length)
	})
}

func TestSDPAEdges(t *testing.T) {
	none := array.Array{}
	q := must(t, []float32{float32(nan)}, 1, 1, 1, 1)
	k := must(t, []float32{1, 1}, 1, 1, 2, 1)
	out := must(t, []float32{5}, 1, 1, 1, 1)
	require.NoError(t, SDPA(q, k, k, none, none, out, 1, false))
	require.True(t, math.IsNaN(value(out, 0, 0, 0, 0)), "a NaN is handed on")

	// Keys past the length do not matter, whatever their content.
	q = must(t, []float32{1}, 1, 1, 1, 1)
	junk := must(t, []float32{2, float32(nan)}, 1, 1, 2, 1)
	require.NoError(t, SDPA(q, junk, junk, none, must(t, []int32{1}, 1), out, 1, true))
	require.Equal(t, 2.0, value(out, 0, 0, 0, 0))

	x := must(t, []float32{1}, 1, 1, 1, 1)
	require.ErrorIs(t, SDPA(must(t, []float32{1}, 1, 1, 1), k, k, none, none, out, 1, false), ErrInvalid)
	require.ErrorIs(t, SDPA(q, k, x, none, none, out, 1, false), ErrInvalid)
	require.ErrorIs(t, SDPA(q, must(t, []float32{1, 1}, 1, 2, 1, 1), k, none, none, out, 1, false), ErrInvalid)
	require.ErrorIs(t, SDPA(q, k, k, q, none, out, 1, false), ErrInvalid)
	require.ErrorIs(t, SDPA(q, k, k, must(t, []int32{1, 1}, 1, 1, 1, 2), none, out, 1, false), ErrInvalid)
	require.ErrorIs(t, SDPA(q, k, k, none, x, out, 1, false), ErrInvalid)
	require.ErrorIs(t, SDPA(q, k, k, none, none, k, 1, false), ErrInvalid)
	heads := must(t, []float32{1, 1, 1}, 1, 3, 1, 1)
	two := must(t, []float32{1, 1}, 1, 2, 1, 1)
	require.ErrorContains(t, SDPA(heads, two, two, none, none, heads, 1, false), "3 query heads")
}
