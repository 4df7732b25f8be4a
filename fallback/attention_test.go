package fallback

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/fallback/internal/simd"
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
		op := func(in []array.Array, out array.Array) error {
			return SDPA(in[0], in[1], in[2], in[3], in[4], out, SDPAParams{Scale: 0.3, Causal: causal})
		}
		in := g.sameForCopies(op, out, []array.Array{q, k, v, mask, length})
		if simd.Active() != simd.Generic {
			limits := sdpaLimits(in, dv, 0.3, causal)
			requireNear(g, g.generic(op, out, in), out, 2, func(i int) float64 { return limits[i] })
		}
	})
}

// sdpaLimits bounds how far two results of SDPA may be apart that differ in the order of float32 sums.
//
// With roundings of u = 2^-24, a sum of n products in any order is wrong by at most n·u times the sum of their
// magnitudes. So a score, of d products with a scaled query to which a mask is added, is wrong by (d+2)·u·a, where
// a is that sum. Its distance from the largest score is rounded too, and the exponential is wrong by some 2u, once
// for the weight and once for each block of keys after which sums are rescaled. An error e in score j changes the
// result o by w[j]·(v[j]-o)·e, where w are the weights. The sums over the n keys add (n+2)·u of the sums of
// magnitudes of w·v and of w, the latter times o.
func sdpaLimits(in []array.Array, dv int, scale float32, causal bool) []float64 {
	q, k := in[0], in[1]
	heads, queries, d, keys := q.Shape[1], q.Shape[2], q.Shape[3], k.Shape[2]
	qs, ks, vs := values(q), values(k), values(in[2])
	var limits []float64
	weights, wrong := make([]float64, keys), make([]float64, keys)
	each(q.Shape[:3], func(at []int) {
		row := (at[0]*heads+at[1])*queries + at[2]
		first := (at[0]*k.Shape[1] + at[1]*k.Shape[1]/heads) * keys // of the keys of this head
		largest := math.Inf(-1)
		for j := range keys {
			weights[j], wrong[j] = sdpaMask(in, at, j, row, causal)
			for x := range d {
				p := qs[row*d+x] * ks[(first+j)*d+x] * float64(scale)
				weights[j] += p
				wrong[j] += math.Abs(p)
			}
			largest = max(largest, weights[j])
		}
		total, seen := 0.0, max(largest, -math.MaxFloat64)
		for j, score := range weights {
			weights[j] = math.Exp(score - seen)
			total += weights[j]
			if wrong[j] *= float64(d + 2); weights[j] > 0 {
				wrong[j] += seen - score + 2 + float64(2*(keys/keyRows+1))
			}
		}
		for c := range dv {
			limits = append(limits, sdpaLimit(weights, wrong, total, func(j int) float64 { return vs[(first+j)*dv+c] }))
		}
	})
	return limits
}

// sdpaLimit is the limit of one result, given the weights, their sum, and the error of each score in u.
func sdpaLimit(weights, wrong []float64, total float64, v func(j int) float64) float64 {
	if total == 0 {
		return 0 // no key was seen
	}
	var result, magnitude, moved float64
	for j, w := range weights {
		result += w / total * v(j)
		magnitude += w / total * math.Abs(v(j))
	}
	for j, w := range weights {
		if w > 0 {
			moved += w / total * math.Abs(v(j)-result) * wrong[j]
		}
	}
	return 2 * 0x1p-24 * (moved + float64(len(weights)+2)*(magnitude+math.Abs(result)))
}

// sdpaMask returns what the mask adds to the score of key j for the query at an index, and its magnitude: -Inf hides
// the key.
func sdpaMask(in []array.Array, at []int, j, row int, causal bool) (added, magnitude float64) {
	hidden := math.Inf(-1)
	keys := in[1].Shape[2]
	length := keys
	if in[4].Present() {
		length = min(max(int(getAt(in[4], in[4].Offset)), 0), keys)
	}
	if j >= length || causal && j > length-in[0].Shape[2]+at[2] {
		return hidden, 0
	}
	mask := in[3]
	if !mask.Present() {
		return 0, 0
	}
	m := getAt(mask, mask.Offset+row*keys+j)
	switch {
	case mask.DType == array.Bool && m == 0, math.IsInf(m, -1):
		return hidden, 0
	case mask.DType == array.Bool:
		return 0, 0
	}
	return m, math.Abs(m)
}

func TestSDPAEdges(t *testing.T) {
	none := array.Array{}
	q := must(t, []float32{float32(nan)}, 1, 1, 1, 1)
	k := must(t, []float32{1, 1}, 1, 1, 2, 1)
	out := must(t, []float32{5}, 1, 1, 1, 1)
	require.NoError(t, SDPA(q, k, k, none, none, out, SDPAParams{Scale: 1}))
	require.True(t, math.IsNaN(value(out, 0, 0, 0, 0)), "a NaN is handed on")

	// Keys past the length do not matter, whatever their content.
	q = must(t, []float32{1}, 1, 1, 1, 1)
	junk := must(t, []float32{2, float32(nan)}, 1, 1, 2, 1)
	require.NoError(t, SDPA(q, junk, junk, none, must(t, []int32{1}, 1), out, SDPAParams{Scale: 1, Causal: true}))
	require.Equal(t, 2.0, value(out, 0, 0, 0, 0))

	x := must(t, []float32{1}, 1, 1, 1, 1)
	require.ErrorIs(t, SDPA(must(t, []float32{1}, 1, 1, 1), k, k, none, none, out, SDPAParams{Scale: 1}), ErrInvalid)
	require.ErrorIs(t, SDPA(q, k, x, none, none, out, SDPAParams{Scale: 1}), ErrInvalid)
	require.ErrorIs(t, SDPA(q, must(t, []float32{1, 1}, 1, 2, 1, 1), k, none, none, out, SDPAParams{Scale: 1}), ErrInvalid)
	require.ErrorIs(t, SDPA(q, k, k, q, none, out, SDPAParams{Scale: 1}), ErrInvalid)
	require.ErrorIs(t, SDPA(q, k, k, must(t, []int32{1, 1}, 1, 1, 1, 2), none, out, SDPAParams{Scale: 1}), ErrInvalid)
	require.ErrorIs(t, SDPA(q, k, k, none, x, out, SDPAParams{Scale: 1}), ErrInvalid)
	require.ErrorIs(t, SDPA(q, k, k, none, none, k, SDPAParams{Scale: 1}), ErrInvalid)
	heads := must(t, []float32{1, 1, 1}, 1, 3, 1, 1)
	two := must(t, []float32{1, 1}, 1, 2, 1, 1)
	require.ErrorContains(t, SDPA(heads, two, two, none, none, heads, SDPAParams{Scale: 1}), "3 query heads")
}
