package optest

import (
	"math"

	"pgregory.net/rapid"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/ops"
)

func runPagedUpdateOf[T kompute.Float](c *call) *kompute.View {
	rows, slots := tensor[T](c, "rows"), tensor[int32](c, "slots")
	switch c.dtype("pages") {
	case array.Float16:
		return ops.PagedUpdate(c.s, tensor[array.F16](c, "pages"), rows, slots).View()
	case array.BFloat16:
		return ops.PagedUpdate(c.s, tensor[array.BF16](c, "pages"), rows, slots).View()
	case array.Uint8:
		return ops.PagedUpdate(c.s, tensor[uint8](c, "pages"), rows, slots).View()
	}
	return ops.PagedUpdate(c.s, tensor[float32](c, "pages"), rows, slots).View()
}

func runPagedUpdate(c *call) *kompute.View {
	return byFloat(c.dtype("rows"), runPagedUpdateOf[float32], runPagedUpdateOf[array.F16], runPagedUpdateOf[array.BF16])(c)
}

func referencePagedUpdate(c *Case) []float64 {
	pages, rows := c.In["pages"], elements(c.In["rows"])
	page := pages.Dim(2)
	row := map[int]int{} // by slot
	for r, slot := range floats(c.In["slots"]) {
		row[int(slot)] = r
	}
	before := elements(pages)
	if pages.DType == array.Uint8 {
		return build(pages.Shape, func(at []int) float64 {
			if r, written := row[at[0]*page+at[2]]; written {
				head := build([]int{c.In["rows"].Dim(2)}, func(i []int) float64 { return rows([]int{r, at[1], i[0]}) })
				return float64(encode(head)[at[3]])
			}
			return before(at)
		})
	}
	return round(pages.DType, build(pages.Shape, func(at []int) float64 {
		if r, written := row[at[0]*page+at[2]]; written {
			return rows([]int{r, at[1], at[3]})
		}
		return before(at)
	}))
}

// distinctSlots returns n different slots of 0…places-1, and some that do not exist.
func (r source) distinctSlots(n, places int) array.Array {
	all := r.Perm(places)
	slots := make([]float64, n)
	for i := range slots {
		switch {
		case i%5 == 3:
			slots[i] = float64(-1 - i)
		case i%5 == 4 || i >= places:
			slots[i] = float64(places + i)
		default:
			slots[i] = float64(all[i])
		}
	}
	return dense(array.Int32, slots, n)
}

func pagedUpdateCase(r source, to, from array.DType, pages, heads, page, d, rows int) Case {
	return Case{
		Name: name(from, to.String(), []int{pages, heads, page, d, rows}),
		In: map[string]array.Array{
			"pages": r.pages(to, pages, heads, page, d), "rows": r.normal(from, 1, rows, heads, d),
			"slots": r.distinctSlots(rows, pages*page),
		},
	}
}

func pagedUpdateCases() []Case {
	var cases []Case
	for _, from := range floatTypes {
		for _, to := range floatTypes {
			r := newSource(71)
			cases = append(cases, pagedUpdateCase(r, to, from, 5, 2, 16, 33, 12))
			odd := pagedUpdateCase(r, to, from, 3, 3, 7, 6, 9)
			odd.Name += "/layouts"
			odd.In["pages"], odd.In["rows"], odd.In["slots"] = place(odd.In["pages"], "transposed"), place(odd.In["rows"], "strided"), place(odd.In["slots"], "strided")
			cases = append(cases, odd)
		}
	}
	r := newSource(72)
	return append(append(cases, codedUpdateCases(r)...), pagedUpdateCase(r, array.Float32, array.Float32, 2, 1, 64, 128, 1),
		pagedUpdateCase(r, array.Float32, array.Float32, 2, 2, 8, 4, 0),
		pagedUpdateCase(r, array.Float32, array.Float32, 0, 2, 8, 4, 3))
}

// codedUpdateCases write to pages of codes.
func codedUpdateCases(r source) []Case {
	var cases []Case
	for _, from := range floatTypes {
		odd := pagedUpdateCase(r, array.Uint8, from, 3, 3, 7, 12, 9)
		odd.Name += "/layouts"
		odd.In["pages"], odd.In["rows"], odd.In["slots"] = byToken(odd.In["pages"]), place(odd.In["rows"], "strided"), place(odd.In["slots"], "strided")
		cases = append(cases, pagedUpdateCase(r, array.Uint8, from, 5, 2, 16, 128, 12), pagedUpdateCase(r, array.Uint8, from, 4, 2, 16, 68, 12), odd)
	}
	// Groups of very different magnitudes, some with numbers that are not finite.
	wide := pagedUpdateCase(r, array.Uint8, array.Float32, 3, 4, 16, 64, 40)
	wide.Name += "/sizes"
	a := floats(wide.In["rows"])
	for i := range a {
		a[i] *= math.Exp2(float64(i/32%19*14 - 126))
		if i%32 == 5 && i/32%11 == 3 {
			a[i] = []float64{math.Inf(1), math.NaN(), math.Inf(-1)}[i/32%3]
		}
	}
	wide.In["rows"] = dense(array.Float32, a, wide.In["rows"].Shape...)
	return append(cases, wide)
}

func randomPagedUpdate(t *rapid.T) Case {
	r := drawSource(t)
	n := func(label string, most int) int { return rapid.IntRange(1, most).Draw(t, label) }
	to, d := drawType(t, "pages type", cacheTypes), n("d", 40)
	if to == array.Uint8 {
		d *= 4
	}
	c := pagedUpdateCase(r, to, drawType(t, "rows type", floatTypes), n("pages", 5), n("heads", 3), n("page", 9), d, n("rows", 20))
	if to != array.Uint8 {
		c.In["pages"] = place(c.In["pages"], rapid.SampledFrom(layouts).Draw(t, "pages layout"))
	}
	c.In["rows"] = drawLayout(t, "rows", c.In["rows"])
	return c
}

// pagedUpdateAlong: heads are independent, and so are elements, except for those that share a scale.
func pagedUpdateAlong(c *Case, axis int) map[string]int {
	switch {
	case axis == 1:
		return map[string]int{"pages": 1, "rows": 1}
	case axis == 3 && c.In["pages"].DType != array.Uint8:
		return map[string]int{"pages": 3, "rows": 2}
	}
	return nil
}

func pagedUpdateSuite() suite {
	update := func(f func(e *env) (pages, rows *kompute.Tensor[float32], slots *kompute.Tensor[int32])) func(e *env) error {
		return func(e *env) error {
			pages, rows, slots := f(e)
			return ops.PagedUpdate(e.s, pages, rows, slots).Err()
		}
	}
	codes := func(pages []int, d int) func(e *env) error {
		return func(e *env) error { return ops.PagedUpdate(e.s, e.u8(pages...), e.f32(5, 2, d), e.i32(5)).Err() }
	}
	type (
		f32 = *kompute.Tensor[float32]
		i32 = *kompute.Tensor[int32]
	)
	return suite{
		op: "paged_update", run: runPagedUpdate, reference: referencePagedUpdate, cases: pagedUpdateCases, draw: randomPagedUpdate,
		exact: func(*Case) bool { return true }, along: pagedUpdateAlong, thin: 3,
		large: func(dtype array.DType, _ string, size int) Case {
			return Case{In: map[string]array.Array{
				"pages": blank(dtype, size/65536, 8, 64, 128), "rows": blank(dtype, 64, 8, 128),
				"slots": newSource(73).distinctSlots(64, size/1024),
			}}
		},
		valid: func() Case { return pagedUpdateCase(newSource(1), array.Float32, array.Float32, 2, 2, 4, 3, 5) },
		rejects: []reject{
			{"rank", kompute.ErrShape, update(func(e *env) (f32, f32, i32) { return e.f32(2, 4, 3), e.f32(5, 2, 3), e.i32(5) })},
			{"heads", kompute.ErrShape, update(func(e *env) (f32, f32, i32) { return e.f32(2, 2, 4, 3), e.f32(5, 3, 3), e.i32(5) })},
			{"rows", kompute.ErrShape, update(func(e *env) (f32, f32, i32) { return e.f32(2, 2, 4, 3), e.f32(5, 2, 3), e.i32(4) })},
			{"slots", kompute.ErrShape, update(func(e *env) (f32, f32, i32) { return e.f32(2, 2, 4, 3), e.f32(5, 2, 3), e.i32(5, 1) })},
			{"bytes", kompute.ErrShape, codes([]int{2, 2, 4, 8}, 8)},
			{"bytes of no head", kompute.ErrShape, codes([]int{2, 2, 4, 10}, 6)},
			{"bytes not in words", kompute.ErrInvalid, func(e *env) error {
				return ops.PagedUpdate(e.s, own(e.t, e.u8(2, 2, 4, 9).Slice(3, 1, 9)), e.f32(5, 2, 4), e.i32(5)).Err()
			}},
			{"repeated", kompute.ErrInvalid, update(func(e *env) (f32, f32, i32) { return e.repeated(2, 2, 4, 3), e.f32(5, 2, 3), e.i32(5) })},
			{"shared", kompute.ErrInvalid, update(func(e *env) (f32, f32, i32) {
				pages := e.f32(5, 2, 4, 3)
				one := own(e.t, pages.Slice(2, 0, 1))
				return pages, own(e.t, one.Reshape(5, 2, 3)), e.i32(5)
			})},
		},
	}
}
