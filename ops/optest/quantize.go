package optest

import (
	"fmt"
	"math"

	"pgregory.net/rapid"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/ops"
)

// The kinds of a case say which of the op's results is compared.
var quantizeResults = []string{"codes", "scales", "biases"}

func runQuantizeOf[T kompute.Float, S ops.Scale](c *call) *kompute.View {
	w, scales, biases := ops.Quantize[S](c.s, tensor[T](c, "x"), c.quantization())
	switch c.Params.Kind {
	case "codes":
		return w.View()
	case "scales":
		return scales.View()
	}
	return biases.View()
}

func runQuantizeFrom[T kompute.Float](c *call) *kompute.View {
	if c.Params.mode() != ops.ModeAffine {
		return runQuantizeOf[T, uint8](c)
	}
	return runQuantizeOf[T, T](c)
}

func runQuantize(c *call) *kompute.View {
	return byFloat(c.dtype("x"), runQuantizeFrom[float32], runQuantizeFrom[array.F16], runQuantizeFrom[array.BF16])(c)
}

// referenceQuantize follows the definition group by group. Quotients of float32
// in float64, rounded to float32, are as if they were computed there.
func referenceQuantize(c *Case) []float64 {
	var out []float64
	stream := 0 // bits of codes so far, of the word under way
	word := uint64(0)
	rows(c.In["x"], func(row []float64) {
		for ; len(row) > 0; row = row[c.Params.GroupSize:] {
			codes, scale, bias := referenceGroup(c, row[:c.Params.GroupSize])
			switch c.Params.Kind {
			case "scales":
				out = append(out, scale)
				continue
			case "biases":
				out = append(out, bias)
				continue
			}
			for _, code := range codes {
				word |= uint64(code) << stream
				if stream += c.Params.Bits; stream >= 32 {
					out = append(out, float64(uint32(word)))
					word, stream = word>>32, stream-32
				}
			}
		}
	})
	return out
}

// single rounds to float32.
func single(v float64) float64 { return float64(float32(v)) }

// referenceGroup returns the codes of a group, and its scale and bias as stored.
func referenceGroup(c *Case, group []float64) (codes []int, scale, bias float64) {
	rounded := func(v float64) float64 { return round(c.dtype("x"), []float64{single(v)})[0] }
	if c.Params.mode() != ops.ModeAffine {
		codes, scale = referenceSmall(c, group, rounded)
		return codes, scale, 0
	}
	lo, hi := math.Inf(1), math.Inf(-1)
	for _, v := range group {
		if !math.IsNaN(v) {
			lo, hi = min(lo, v), max(hi, v)
		}
	}
	top := float64(int(1)<<c.Params.Bits - 1)
	scale = single(single(hi-lo) / top)
	if scale < single(1e-7) {
		scale = single(1e-7)
	}
	edge := lo
	if math.Abs(lo) <= math.Abs(hi) {
		edge, scale = hi, -scale
	}
	if steps := math.RoundToEven(single(edge / scale)); steps != 0 {
		scale, bias = single(edge/steps), edge
	}
	for _, v := range group {
		q := math.RoundToEven(single(single(v-bias) / scale))
		if math.IsNaN(q) {
			q = 0
		}
		codes = append(codes, int(max(0, min(q, top))))
	}
	return codes, rounded(scale), rounded(bias)
}

// referenceSmall does so for the modes without biases, by trying every code.
func referenceSmall(c *Case, group []float64, rounded func(float64) float64) (codes []int, scale float64) {
	mode, most := c.Params.mode(), 0.0
	for _, v := range group {
		most = max(most, math.Abs(v)) // NaN if one is
	}
	limit := map[int]float64{4: 6, 8: 448}[c.Params.Bits]
	s := rounded(most / limit)
	code := 0
	switch {
	case mode == ops.ModeNVFP4:
		code = nearestE4M3(s)
	case math.IsNaN(s) || math.IsInf(s, 0):
		return make([]int, len(group)), 255
	case s == 0:
		code = 127
	default:
		for code < 254 && scaleOf(mode, code) < s {
			code++
		}
	}
	for _, v := range group {
		q := rounded(v / scaleOf(mode, code))
		if c.Params.Bits == 8 {
			codes = append(codes, nearestE4M3(q))
			continue
		}
		best := 0
		for i := range 16 {
			if math.Abs(single(q-e2m1(i))) < math.Abs(single(q-e2m1(best))) {
				best = i
			}
		}
		codes = append(codes, best)
	}
	return codes, float64(code)
}

// nearestE4M3 tries every magnitude, the even code of two equally near ones; NaN
// and what is beyond give the largest.
func nearestE4M3(v float64) int {
	sign := 0
	if math.Signbit(v) {
		sign = 128
	}
	v = math.Abs(v)
	if !(v < 448) {
		return sign | 126
	}
	best := 0
	for code := range 127 {
		d, least := math.Abs(v-e4m3(code)), math.Abs(v-e4m3(best))
		if d < least || d == least && code%2 == 0 {
			best = code
		}
	}
	return sign | best
}

// groupsOf makes rows of groups, each a special case of its own.
func groupsOf(r source, dtype array.DType, group, k int, lead ...int) array.Array {
	values := make([]float64, size(lead)*k)
	for at := 0; at < len(values); at += group {
		scale, shift := math.Exp2(float64(r.IntN(12)-6)), 0.0
		kind := r.IntN(12)
		switch kind {
		case 0:
			scale = 0
		case 1:
			scale, shift = 0, r.NormFloat64() // constant
		case 2:
			shift = 8 * scale // of one sign
		case 3:
			shift = -8 * scale
		case 4:
			scale = 1e-9 // float16 has only multiples of 2^-24 there
		case 5:
			scale = 1e4
		case 6:
			scale = math.Exp2(float64(r.IntN(200) - 100))
		}
		for i := range group {
			values[at+i] = r.NormFloat64()*scale + shift
			if kind == 7 {
				values[at+i] = float64(r.IntN(25)-12) / 4 // ties
			}
		}
		if kind == 8 {
			besideMiddles(r, scale, values[at:at+group])
		}
		if r.IntN(16) == 0 {
			values[at+r.IntN(group)] = []float64{math.NaN(), math.Inf(1), math.Inf(-1)}[r.IntN(3)]
		}
	}
	return dense(dtype, values, append(lead[:len(lead):len(lead)], k)...)
}

// besideMiddles makes a group of numbers that are a few units in the last place from where codes change: from the middle
// between two affine codes, if those are as far apart as for its steps, or from those of E2M1 with a scale that E4M3 has.
func besideMiddles(r source, scale float64, group []float64) {
	sign := float64(1 - 2*r.IntN(2))
	top := scale * (1 + r.Float64()) * sign
	steps := float64([]int{3, 7, 15, 31, 63, 255}[r.IntN(6)])
	middle := func() float64 { return top * (math.Floor(r.Float64()*steps) + 0.5) / steps }
	if r.IntN(2) == 0 {
		unit := scale * float64(8+r.IntN(8)) / 8
		top = 6 * unit * sign
		middle = func() float64 { return unit * []float64{0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5}[r.IntN(7)] }
	}
	for i := range group {
		group[i] = middle() * (1 + float64(r.IntN(9)-4)*0x1p-24)
	}
	group[0], group[1] = 0, top
}

func (f form) results() []string {
	if f.affine() {
		return quantizeResults
	}
	return quantizeResults[:2]
}

func quantizeCases() []Case {
	var cases []Case
	for i, f := range forms() {
		for j, dtype := range floatTypes {
			x := groupsOf(newSource(uint64(i*3+j)), dtype, f.group, 512, 20)
			for _, kind := range f.results() {
				p := f.params()
				p.Kind = kind
				cases = append(cases, Case{Name: name(dtype, fmt.Sprintf("%v/%s", f, kind), x.Shape), In: map[string]array.Array{"x": x}, Params: p})
			}
		}
	}
	for label, x := range map[string]array.Array{
		"vector": newSource(1).normal(array.Float32, 1, 128), "empty": newSource(1).normal(array.Float32, 1, 0, 128),
		"none": newSource(1).normal(array.Float32, 1, 3, 0),
		// Enough for two quads of a thread on a GPU of 132 compute units.
		"large": newSource(1).normal(array.BFloat16, 1, 2200, 1024),
		"batch": newSource(1).normal(array.Float16, 1, 2, 1, 3, 2, 128),
	} {
		p := form{5, 64, ops.ModeAffine}.params()
		p.Kind = "codes"
		cases = append(cases, Case{Name: label, In: map[string]array.Array{"x": x}, Params: p})
	}
	odd := form{4, 16, ops.ModeNVFP4}.params() // rows of half a unit of 32 codes
	odd.Kind = "codes"
	return append(cases, Case{Name: "odd", In: map[string]array.Array{"x": newSource(1).normal(array.Float32, 1, 3, 48)}, Params: odd})
}

func randomQuantize(t *rapid.T) Case {
	f := drawForm(t)
	k := f.group * rapid.IntRange(0, 5).Draw(t, "groups")
	x := groupsOf(drawSource(t), drawType(t, "type", floatTypes), f.group, k, drawShape(t, "rows", 0, 4, 60)...)
	p := f.params()
	p.Kind = rapid.SampledFrom(f.results()).Draw(t, "result")
	return Case{In: map[string]array.Array{"x": drawLayout(t, "x", x)}, Params: p}
}

func quantizeSuite() suite {
	quantize := func(q ops.Quantization, shape ...int) func(e *env) error {
		return func(e *env) error {
			w, _, _ := ops.Quantize[float32](e.s, e.f32(shape...), q)
			return w.Err()
		}
	}
	q := ops.Quantization{GroupSize: 32, Bits: 4}
	return suite{
		op: "quantize", run: runQuantize, reference: referenceQuantize, cases: quantizeCases, draw: randomQuantize, thin: 8,
		exact: func(*Case) bool { return true }, along: rowwise,
		kinds: []string{"affine", "mxfp4", "nvfp4", "mxfp8"},
		large: func(dtype array.DType, kind string, size int) Case {
			p := formOf(kind).params()
			p.Kind = "codes" // every mode has them, and they are most of what is written
			return Case{In: map[string]array.Array{"x": newSource(1).normal(dtype, 1, size/1024, 1024)}, Params: p}
		},
		valid: func() Case {
			return Case{In: map[string]array.Array{"x": newSource(1).normal(array.Float32, 1, 2, 32)}, Params: Params{GroupSize: 32, Bits: 4, Kind: "codes"}}
		},
		rejects: append(formRejects(func(q ops.Quantization) func(e *env) error { return quantize(q, 2, 384) }),
			reject{"rank 0", kompute.ErrShape, quantize(q)},
			reject{"half a group", kompute.ErrShape, quantize(q, 3, 48)},
			reject{"uint8 scales of affine", kompute.ErrDType, func(e *env) error {
				w, _, _ := ops.Quantize[uint8](e.s, e.f32(2, 64), q)
				return w.Err()
			}},
			reject{"float scales of mxfp4", kompute.ErrDType, quantize(ops.MXFP4, 2, 64)}),
		extra: idempotent,
	}
}
