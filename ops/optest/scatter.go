package optest

import (
	"context"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/ops"
)

// scatterModes are the modes by the names that vectors use.
var scatterModes = []string{"set", "add", "mul", "min", "max"}

func runScatterAs[T kompute.Element, I ops.Index](c *call) *kompute.View {
	mode := ops.ScatterMode(slices.Index(scatterModes, c.Params.Kind))
	x, indices, updates := tensor[T](c, "x"), tensor[I](c, "indices"), tensor[T](c, "updates")
	if c.Params.Along {
		return ops.PutAlongAxis(c.s, x, indices, updates, c.Params.Axis, mode).View()
	}
	return ops.Scatter(c.s, x, indices, updates, c.Params.Axis, mode).View()
}

func runScatterOf[T kompute.Element](c *call) *kompute.View {
	if c.dtype("indices") == array.Uint32 {
		return runScatterAs[T, uint32](c)
	}
	return runScatterAs[T, int32](c)
}

func runScatter(c *call) *kompute.View {
	return byElement(c.dtype("x"), runScatterOf[float32], runScatterOf[array.F16], runScatterOf[array.BF16],
		runScatterOf[int32], runScatterOf[uint32], runScatterOf[bool], runScatterOf[uint8])(c)
}

// referenceScatter puts the updates one after another.
func referenceScatter(c *Case) []float64 {
	x, indices, updates := c.In["x"], c.In["indices"], c.In["updates"]
	axis, err := x.Axis(c.Params.Axis)
	if err != nil {
		panic(err)
	}
	picks := indices.Rank()
	shape := slices.Concat(x.Shape[:axis], indices.Shape, x.Shape[axis+1:])
	if c.Params.Along {
		picks, shape = 1, slices.Clone(x.Shape)
		shape[axis] = indices.Shape[axis]
		indices.Layout = must(indices.Broadcast(shape...))
	}
	updates.Layout = must(updates.Broadcast(shape...))
	out := dense(array.Float32, nil, 0)
	out.Layout = must(array.Contiguous(x.Shape...))
	sums, index, from := floats(x), elements(indices), elements(updates)
	build(shape, func(at []int) float64 {
		where := at[axis : axis+picks]
		if c.Params.Along {
			where = at
		}
		i, ok := resolveIndex(index(where), x.Shape[axis])
		if ok {
			place := out.Offset + i*out.Strides[axis]
			for k, n := range slices.Concat(at[:axis], at[axis+picks:]) {
				if k >= axis {
					k++
				}
				place += n * out.Strides[k]
			}
			sums[place] = scatterOne(x.DType, c.Params.Kind, sums[place], from(at))
		}
		return 0
	})
	return round(x.DType, sums)
}

// scatterOne combines an update with what is there.
func scatterOne(dtype array.DType, kind string, there, update float64) float64 {
	v := update
	switch {
	case kind == "add":
		v = there + update
	case kind == "mul":
		v = there * update
	case kind == "min":
		v = min(there, update)
	case kind == "max":
		v = max(there, update)
	}
	switch dtype {
	case array.Bool:
		return truth(v != 0)
	case array.Uint8:
		return float64(uint8(int64(v)))
	case array.Int32, array.Uint32:
		return wrap(dtype, int64(v))
	}
	return v
}

// scatterBound is that of sums; products stay near 1 in these cases.
func scatterBound(c *Case) bound {
	x := c.In["x"]
	if c.Params.Kind != "add" {
		return defaultBound(x.DType)
	}
	return sumBound(x.DType, c.In["indices"].Size(), max(largest(floats(x)), largest(floats(c.In["updates"]))))
}

// factors are numbers of which many can be multiplied without overflow.
func (r source) factors(dtype array.DType, shape ...int) array.Array {
	if !dtype.IsFloat() {
		return r.numbers(dtype, shape...)
	}
	values := make([]float64, size(shape))
	for i := range values {
		values[i] = []float64{1, -1, 0.5, 2, 1.25, 0.75}[r.IntN(6)]
	}
	return dense(dtype, values, shape...)
}

func scatterCases() []Case {
	var cases []Case
	for _, dtype := range elementTypes {
		for _, kind := range scatterModes {
			cases = append(cases, scatterOf(dtype, kind)...)
		}
	}
	special := []float64{math.NaN(), 1, math.Inf(-1), math.NaN(), 0, math.Copysign(0, -1)}
	for _, kind := range scatterModes {
		cases = append(cases, Case{Name: "special/" + kind, Params: Params{Kind: kind}, In: map[string]array.Array{
			"x":       dense(array.Float32, []float64{1, math.NaN(), 3, math.Inf(1), 5}, 5),
			"indices": dense(array.Int32, []float64{0, 1, 3, 2, 4, 4}, 6), "updates": dense(array.Float32, special, 6),
		}})
	}
	return cases
}

func scatterOf(dtype array.DType, kind string) []Case {
	var cases []Case
	r := newSource(38)
	add := func(label string, axis int, along bool, x, indices, updates array.Array) {
		cases = append(cases, Case{
			Name: name(dtype, kind+" "+label, x.Shape), Params: Params{Kind: kind, Axis: axis, Along: along},
			In: map[string]array.Array{"x": x, "indices": indices, "updates": updates},
		})
	}
	i32 := func(lo, hi int, shape ...int) array.Array { return r.integers(array.Int32, lo, hi, shape...) }
	add("rows", 0, false, r.numbers(dtype, 7, 33), i32(-7, 6, 5), r.factors(dtype, 5, 33))
	add("distinct", 0, false, r.numbers(dtype, 7, 3), dense(array.Uint32, []float64{6, 0, 3}, 3), r.factors(dtype, 3, 3))
	add("middle", 1, false, r.numbers(dtype, 3, 4, 5), i32(-5, 4, 2, 3), r.factors(dtype, 3, 2, 3, 5))
	add("last", -1, false, r.numbers(dtype, 6, 4), i32(0, 3, 9), r.factors(dtype, 6, 9))
	add("one value", 0, false, r.numbers(dtype, 9), i32(0, 8, 4), r.factors(dtype))
	add("scalar index", 0, false, r.numbers(dtype, 4, 5), i32(0, 3), r.factors(dtype, 5))
	add("outside", 0, false, r.numbers(dtype, 7), dense(array.Int32, []float64{0, -1, 6, -7, 7, -8, 2147483647, -2147483648}, 8), r.factors(dtype, 8))
	add("histogram", 0, false, r.numbers(dtype, 3), i32(0, 2, 2000), place(r.integers(dtype, 0, 1, 2000), "strided"))
	add("many", 0, false, r.numbers(dtype, 500), i32(-500, 499, 700), r.factors(dtype, 700))
	add("nothing", 0, false, r.numbers(dtype, 4, 5), i32(0, 3, 0), r.factors(dtype, 0, 5))
	add("empty", 0, false, r.numbers(dtype, 0, 5), i32(0, 3, 2), r.factors(dtype, 2, 5))
	add("along", 1, true, r.numbers(dtype, 3, 6, 4), i32(-6, 5, 3, 9, 4), r.factors(dtype, 3, 9, 4))
	add("along broadcast", 0, true, r.numbers(dtype, 5, 6), i32(0, 4, 3, 1), r.factors(dtype, 6))
	add("rank 8", 4, true, r.numbers(dtype, 2, 1, 2, 2, 3, 2, 1, 2), i32(-3, 2, 2, 1, 1, 2, 2, 2, 1, 1), r.factors(dtype, 2, 2, 1, 2))
	for i, how := range layouts {
		add(how, 1, false, place(r.numbers(dtype, 3, 5, 4), how), place(i32(-5, 4, 3), layouts[(i+2)%6]), place(r.factors(dtype, 3, 3, 4), layouts[(i+1)%6]))
	}
	return cases
}

func randomScatter(t *rapid.T) Case {
	r, shape, dtype := drawSource(t), drawShape(t, "x", 1, 6, 800), drawType(t, "type", elementTypes)
	axis := rapid.IntRange(0, len(shape)-1).Draw(t, "axis")
	n := shape[axis]
	c := Case{Params: Params{Kind: rapid.SampledFrom(scatterModes).Draw(t, "mode"), Axis: axis, Along: rapid.Bool().Draw(t, "along")}}
	picks := drawShape(t, "indices", 0, 2, 60)
	if c.Params.Along {
		picks = slices.Clone(shape)
		picks[axis] = rapid.IntRange(0, 12).Draw(t, "picks")
	}
	kind, lo := drawType(t, "index type", []array.DType{array.Int32, array.Uint32}), 0
	if kind == array.Int32 {
		lo = -n - 1
	}
	updates := slices.Concat(shape[:axis], picks, shape[axis+1:])
	if c.Params.Along {
		updates = picks
	}
	c.In = map[string]array.Array{
		"x":       drawLayout(t, "x", r.numbers(dtype, shape...)),
		"indices": drawLayout(t, "indices", r.integers(kind, lo, n, picks...)),
		"updates": drawLayout(t, "updates", r.factors(dtype, drawPart(t, "updates", updates)...)),
	}
	return c
}

// scatterAlong: lines along the axis that the indices point into are independent.
func scatterAlong(c *Case, axis int) map[string]int {
	x, indices, updates := c.In["x"], c.In["indices"], c.In["updates"]
	into, err := x.Axis(c.Params.Axis)
	if err != nil || axis == into {
		return nil
	}
	axes := map[string]int{"x": axis}
	rank, own := x.Rank(), axis
	if c.Params.Along {
		axes["indices"] = axis
	} else {
		rank += indices.Rank() - 1
		if axis > into {
			own += indices.Rank() - 1
		}
	}
	if own += updates.Rank() - rank; own >= 0 {
		axes["updates"] = own
	}
	return axes
}

// scatterRepeats runs sums again and again whose result depends on their order:
// the bits must not change.
func scatterRepeats(t *testing.T, dev *kompute.Device) {
	s, err := dev.NewStream()
	require.NoError(t, err)
	defer s.Close()
	r := newSource(39)
	for _, places := range []int{2, 40, 900} { // teams of many threads, of some, and single ones
		in := upload(t, dev, map[string]array.Array{
			"x": r.normal(array.Float32, 1, places, 3), "indices": r.integers(array.Int32, 0, places-1, 3000),
			"updates": r.normal(array.Float32, 1e3, 3000, 3),
		})
		var first []float32
		for range 5 {
			scope := s.Scope()
			c := &call{Case: &Case{Params: Params{Kind: "add"}, In: map[string]array.Array{"x": {}, "indices": {DType: array.Int32}}}, s: s, in: in.views}
			sum := ops.Scatter(s, tensor[float32](c, "x"), tensor[int32](c, "indices"), tensor[float32](c, "updates"), 0, ops.ScatterAdd)
			got, err := sum.Read(context.Background())
			require.NoError(t, err)
			if first == nil {
				first = got
			}
			require.Equal(t, first, got)
			scope.Close()
		}
		in.close()
	}
}

func scatterSuite() suite {
	scatter := func(axis int, x, indices, updates []int) func(e *env) error {
		return func(e *env) error {
			return ops.Scatter(e.s, e.f32(x...), e.i32(indices...), e.f32(updates...), axis, ops.ScatterAdd).Err()
		}
	}
	put := func(axis int, x, indices, updates []int) func(e *env) error {
		return func(e *env) error {
			return ops.PutAlongAxis(e.s, e.f32(x...), e.i32(indices...), e.f32(updates...), axis, ops.ScatterSet).Err()
		}
	}
	return suite{
		op: "scatter", run: runScatter, reference: referenceScatter, bound: scatterBound, cases: scatterCases, draw: randomScatter, thin: 15,
		exact: func(c *Case) bool {
			return !c.dtype("x").IsFloat() || !slices.Contains([]string{"add", "mul"}, c.Params.Kind)
		},
		extra: scatterRepeats, along: scatterAlong, regroups: true,
		kinds: []string{"set", "add"},
		large: func(dtype array.DType, _ string, size int) Case {
			rows := size / 1024
			return Case{In: map[string]array.Array{
				"x": blank(dtype, rows, 1024), "indices": newSource(1).integers(array.Int32, 0, rows-1, rows), "updates": blank(dtype, rows, 1024),
			}}
		},
		valid: func() Case {
			r := newSource(1)
			return Case{Params: Params{Kind: "add"}, In: map[string]array.Array{
				"x": r.normal(array.Float32, 1, 4, 3), "indices": dense(array.Int32, []float64{1, 2}, 2), "updates": r.normal(array.Float32, 1, 2, 3),
			}}
		},
		rejects: []reject{
			{"axis", kompute.ErrShape, scatter(2, []int{2, 3}, []int{1}, []int{1, 3})},
			{"rank 0", kompute.ErrShape, scatter(0, nil, []int{1}, []int{1})},
			{"updates", kompute.ErrShape, scatter(0, []int{4, 3}, []int{2}, []int{3, 3})},
			{"updates' rank", kompute.ErrShape, scatter(0, []int{4, 3}, []int{2}, []int{1, 2, 3})},
			{"rank of updates", kompute.ErrShape, scatter(0, []int{1, 1, 1, 1, 1}, []int{1, 1, 1, 1, 1}, []int{1})},
			{"too many updates", kompute.ErrTooLarge, func(e *env) error {
				indices := own(e.t, e.i32(1).Broadcast(1<<17))
				return ops.Scatter(e.s, e.repeated(2, 1<<17), indices, e.f32(), 0, ops.ScatterAdd).Err()
			}},
			{"mode", kompute.ErrInvalid, func(e *env) error {
				return ops.Scatter(e.s, e.f32(4, 3), e.i32(2), e.f32(2, 3), 0, ops.ScatterMode(5)).Err()
			}},
			{"along axis", kompute.ErrShape, put(-3, []int{2, 3}, []int{2, 3}, []int{2, 3})},
			{"along rank", kompute.ErrShape, put(0, []int{2, 3}, []int{2}, []int{2, 3})},
			{"along indices", kompute.ErrShape, put(0, []int{1, 3}, []int{2, 4}, []int{2, 3})},
			{"along wider", kompute.ErrShape, put(0, []int{2, 1}, []int{2, 4}, []int{2, 4})},
			{"along values", kompute.ErrShape, put(0, []int{2, 3}, []int{2, 3}, []int{3, 3})},
		},
	}
}
