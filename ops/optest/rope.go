package optest

import (
	"fmt"
	"math"
	"slices"

	"pgregory.net/rapid"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/ops"
)

func runRoPEOf[T kompute.Float](c *call) *kompute.View {
	p := ops.RoPEParams{
		Dims: c.Params.Dims, Traditional: c.Params.Traditional, Base: c.Params.Base, Scale: c.Params.Scale,
		Freqs: tensor[float32](c, "freqs"),
	}
	offset := ops.At(c.Params.Offset)
	if _, onDevice := c.In["offset"]; onDevice {
		offset = ops.AtDevice(tensor[int32](c, "offset"))
	}
	return ops.RoPE(c.s, tensor[T](c, "x"), p, offset).View()
}

func runRoPE(c *call) *kompute.View {
	return byFloat(c.dtype("x"), runRoPEOf[float32], runRoPEOf[array.F16], runRoPEOf[array.BF16])(c)
}

func referenceRoPE(c *Case) []float64 {
	x := c.In["x"]
	out := floats(x)
	freqs, offsets := []float64(nil), []float64{float64(c.Params.Offset)}
	if a, given := c.In["freqs"]; given {
		freqs = floats(a)
	}
	if a, given := c.In["offset"]; given {
		offsets = floats(a)
	}
	heads, steps, d := x.Dim(1), x.Dim(2), x.Dim(3)
	for row := 0; row*d < len(out); row++ {
		offset := offsets[row/(heads*steps)%len(offsets)]
		rotate(out[row*d:(row+1)*d], c.Params, freqs, offset+float64(row%steps))
	}
	return round(x.DType, out)
}

// rotate turns the pairs of one row.
func rotate(row []float64, p Params, freqs []float64, position float64) {
	dims := p.Dims
	if dims == 0 {
		dims = len(row)
	}
	base, scale := float64(p.Base), float64(p.Scale)
	if base == 0 {
		base = 10000
	}
	if scale == 0 {
		scale = 1
	}
	for i := range dims / 2 {
		angle := position * scale * math.Pow(base, -2*float64(i)/float64(dims))
		if freqs != nil {
			angle = position * scale / freqs[i]
		}
		a, b := i, i+dims/2
		if p.Traditional {
			a, b = 2*i, 2*i+1
		}
		sin, cos := math.Sincos(angle)
		row[a], row[b] = row[a]*cos-row[b]*sin, row[a]*sin+row[b]*cos
	}
}

// ropeBound grows with the largest angle, which float32 rounds.
func ropeBound(c *Case) bound {
	far := math.Abs(float64(c.Params.Offset))
	if a, given := c.In["offset"]; given {
		for _, v := range floats(a) {
			far = max(far, math.Abs(v))
		}
	}
	far = (far + float64(c.In["x"].Dim(2))) * max(float64(c.Params.Scale), 1)
	if a, given := c.In["freqs"]; given && a.Size() > 0 {
		far /= slices.Min(floats(a))
	}
	b := defaultBound(c.dtype("x"))
	b.Absolute += (far*4e-7 + 1e-6) * largest(floats(c.In["x"]))
	return b
}

func ropeCases() []Case {
	var cases []Case
	for _, dtype := range floatTypes {
		for _, traditional := range []bool{false, true} {
			add := func(label string, p Params, in map[string]array.Array) {
				p.Traditional = traditional
				cases = append(cases, Case{Name: fmt.Sprintf("%v/%v/%s", dtype, traditional, label), Params: p, In: in})
			}
			r := newSource(24)
			for _, d := range []int{2, 32, 64, 80, 128, 256} {
				add(fmt.Sprintf("head %d", d), Params{Offset: 17, Base: 1e6}, map[string]array.Array{"x": r.normal(dtype, 1, 1, 3, 5, d)})
			}
			add("defaults", Params{}, map[string]array.Array{"x": r.normal(dtype, 1, 2, 2, 7, 64)})
			add("partial", Params{Dims: 24, Offset: 5, Scale: 0.5}, map[string]array.Array{"x": r.normal(dtype, 1, 2, 2, 7, 64)})
			add("scalar offset", Params{}, map[string]array.Array{"x": r.normal(dtype, 1, 3, 2, 4, 32), "offset": dense(array.Int32, []float64{40})})
			add("one offset", Params{}, map[string]array.Array{"x": r.normal(dtype, 1, 3, 2, 4, 32), "offset": dense(array.Int32, []float64{40}, 1)})
			add("offsets", Params{}, map[string]array.Array{
				"x":      r.normal(dtype, 1, 3, 2, 4, 32),
				"offset": place(dense(array.Int32, []float64{0, 300, 7}, 3), "strided"),
			})
			freqs := dense(array.Float32, []float64{1, 2.5, 10, 100, 1000, 1e4, 1e5, 3e5}, 8)
			add("freqs", Params{Dims: 16, Offset: 100}, map[string]array.Array{"x": r.normal(dtype, 1, 1, 2, 3, 20), "freqs": place(freqs, "strided")})
			x := r.normal(dtype, 1, 2, 9, 4, 128) // [B, T, H, D]
			x.Layout = must(x.Transpose(0, 2, 1, 3))
			add("transposed", Params{Offset: 3, Base: 1e6}, map[string]array.Array{"x": x})
			x = r.normal(dtype, 1, 3, 6, 2, 80)
			x.Layout = must(x.Transpose(0, 2, 1, 3))
			add("transposed offsets", Params{Dims: 32, Scale: 0.25}, map[string]array.Array{
				"x": x, "offset": repeat(dense(array.Int32, []float64{90, 1, 2}, 3), 0),
			})
			add("negative offset", Params{Offset: -3}, map[string]array.Array{"x": r.normal(dtype, 1, 1, 2, 7, 64)})
			add("no steps", Params{}, map[string]array.Array{"x": r.normal(dtype, 1, 2, 2, 0, 64)})
		}
	}
	far := Params{Offset: 40000, Base: 1e6}
	r := newSource(25)
	cases = append(cases, Case{Name: "far", Params: far, In: map[string]array.Array{"x": r.normal(array.Float32, 1, 1, 2, 3, 128)}})
	end := func(label string, offset float64) Case { // of the offsets that there are
		return Case{Name: label, In: map[string]array.Array{
			"x": r.normal(array.Float32, 1, 1, 2, 4, 4), "offset": dense(array.Int32, []float64{offset}, 1),
			"freqs": dense(array.Float32, []float64{1e9, 3e9}, 2),
		}}
	}
	highest := end("highest int32", 0)
	highest.Params.Offset = math.MaxInt32 - 3
	delete(highest.In, "offset")
	return append(cases, end("sums beyond int32", math.MaxInt32-1), end("lowest int32", math.MinInt32), highest)
}

func randomRoPE(t *rapid.T) Case {
	r := newSource(rapid.Uint64().Draw(t, "seed"))
	b, d := rapid.IntRange(1, 3).Draw(t, "B"), 2*rapid.IntRange(1, 70).Draw(t, "D/2")
	x := r.normal(drawType(t, "type", floatTypes), 1, b, rapid.IntRange(1, 5).Draw(t, "H"), rapid.IntRange(0, 9).Draw(t, "T"), d)
	p := Params{Dims: 2 * rapid.IntRange(0, d/2).Draw(t, "dims/2"), Traditional: rapid.Bool().Draw(t, "traditional")}
	p.Scale = rapid.SampledFrom([]float32{0, 1, 0.25, 1.5}).Draw(t, "scale")
	in := map[string]array.Array{"x": drawLayout(t, "x", x)}
	switch rapid.IntRange(0, 2).Draw(t, "offset kind") {
	case 0:
		p.Offset = rapid.IntRange(0, 3000).Draw(t, "offset")
	case 1:
		in["offset"] = r.integers(array.Int32, 0, 3000)
	default:
		in["offset"] = drawLayout(t, "offset", r.integers(array.Int32, 0, 3000, b))
	}
	if dims := p.Dims; dims > 0 && rapid.Bool().Draw(t, "freqs") {
		in["freqs"] = drawLayout(t, "freqs", r.integers(array.Float32, 1, 1000, dims/2))
	} else {
		p.Base = rapid.SampledFrom([]float32{0, 10000, 1e6, 50}).Draw(t, "base")
	}
	return Case{Params: p, In: in}
}

// ropeAlong: batches, which may have positions of their own, and heads are independent.
func ropeAlong(c *Case, axis int) map[string]int {
	switch offset, given := c.In["offset"]; {
	case axis > 1:
		return nil
	case axis == 0 && given && offset.Rank() == 1:
		return map[string]int{"x": 0, "offset": 0}
	}
	return map[string]int{"x": axis}
}

func ropeSuite() suite {
	rope := func(p ops.RoPEParams, at ops.Position, shape ...int) func(e *env) error {
		return func(e *env) error { return ops.RoPE(e.s, e.f32(shape...), p, at).Err() }
	}
	nan := float32(math.NaN())
	offset := func(shape ...int) func(e *env) error {
		return func(e *env) error {
			return ops.RoPE(e.s, e.f32(3, 2, 1, 8), ops.RoPEParams{}, ops.AtDevice(e.i32(shape...))).Err()
		}
	}
	return suite{
		op: "rope", run: runRoPE, reference: referenceRoPE, bound: ropeBound, cases: ropeCases, draw: randomRoPE, thin: 6,
		optional: []string{"freqs", "offset"}, along: ropeAlong,
		large: func(dtype array.DType, _ string, size int) Case {
			return Case{In: map[string]array.Array{"x": blank(dtype, 1, 32, size/4096, 128)}}
		},
		valid: func() Case {
			r := newSource(1)
			return Case{Params: Params{Dims: 8}, In: map[string]array.Array{
				"x":      r.normal(array.Float32, 1, 2, 3, 2, 8),
				"offset": dense(array.Int32, []float64{1, 2}, 2), "freqs": r.integers(array.Float32, 1, 9, 4),
			}}
		},
		rejects: []reject{
			{"rank 3", kompute.ErrShape, rope(ops.RoPEParams{}, ops.At(0), 2, 3, 8)},
			{"rank 5", kompute.ErrShape, rope(ops.RoPEParams{}, ops.At(0), 1, 1, 2, 3, 8)},
			{"odd head", kompute.ErrInvalid, rope(ops.RoPEParams{}, ops.At(0), 1, 2, 3, 7)},
			{"odd dims", kompute.ErrInvalid, rope(ops.RoPEParams{Dims: 3}, ops.At(0), 1, 2, 3, 8)},
			{"dims beyond", kompute.ErrInvalid, rope(ops.RoPEParams{Dims: 10}, ops.At(0), 1, 2, 3, 8)},
			{"negative dims", kompute.ErrInvalid, rope(ops.RoPEParams{Dims: -2}, ops.At(0), 1, 2, 3, 8)},
			{"negative base", kompute.ErrInvalid, rope(ops.RoPEParams{Base: -1}, ops.At(0), 1, 2, 3, 8)},
			{"NaN scale", kompute.ErrInvalid, rope(ops.RoPEParams{Scale: nan}, ops.At(0), 1, 2, 3, 8)},
			{"offset", kompute.ErrInvalid, rope(ops.RoPEParams{}, ops.At(math.MaxInt32-1), 1, 2, 3, 8)},
			{"negative offset", kompute.ErrInvalid, rope(ops.RoPEParams{}, ops.At(wide(math.MinInt32-1)), 1, 2, 3, 8)},
			{"offsets", kompute.ErrShape, offset(2)},
			{"offset matrix", kompute.ErrShape, offset(3, 1)},
			{"nil offset", kompute.ErrInvalid, rope(ops.RoPEParams{}, ops.AtDevice(nil), 1, 2, 3, 8)},
			{"freqs", kompute.ErrShape, func(e *env) error {
				return ops.RoPE(e.s, e.f32(1, 2, 3, 8), ops.RoPEParams{Freqs: e.f32(8)}, ops.At(0)).Err()
			}},
			{"base and freqs", kompute.ErrInvalid, func(e *env) error {
				return ops.RoPE(e.s, e.f32(1, 2, 3, 8), ops.RoPEParams{Base: 10, Freqs: e.f32(4)}, ops.At(0)).Err()
			}},
		},
	}
}
