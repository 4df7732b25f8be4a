package optest

import (
	"fmt"
	"math"

	"pgregory.net/rapid"

	"github.com/kompute-go/kompute-go/internal/array"
)

// pagedShape is the shape of a case.
type pagedShape struct{ rows, hq, hkv, d, pages, page, sequences, perSequence int }

func pagedCase(r source, dtype, cache array.DType, s pagedShape) Case {
	capacity := s.perSequence * s.page
	return Case{
		Name: name(dtype, cache.String(), []int{s.rows, s.hq, s.hkv, s.d, s.pages, s.page, s.sequences, s.perSequence}),
		In: map[string]array.Array{
			"q":    r.normal(dtype, 1, s.rows, s.hq, s.d),
			"keys": r.pages(cache, s.pages, s.hkv, s.page, s.d), "values": r.pages(cache, s.pages, s.hkv, s.page, s.d),
			// Some pages and sequences do not exist, and some lengths are out of range.
			"table":     r.integers(array.Int32, -1, s.pages, s.sequences, s.perSequence),
			"sequences": r.integers(array.Int32, -1, s.sequences, s.rows),
			"lengths":   r.integers(array.Int32, -1, capacity+1, s.rows),
		},
	}
}

// pagedRunsCase is one of many rows of few sequences: runs of rows of one sequence, each of which sees one token more
// than the one before, among rows that are not used.
func pagedRunsCase(r source, dtype, cache array.DType, s pagedShape) Case {
	c := pagedCase(r, dtype, cache, s)
	c.Name = "runs of rows/" + c.Name
	sequences, lengths := floats(c.In["sequences"]), floats(c.In["lengths"])
	for row := 0; row < s.rows; {
		sequence, length := r.IntN(s.sequences+1)-1, r.IntN(s.perSequence*s.page)
		for end := min(s.rows, row+1+r.IntN(s.rows/2)); row < end; row++ {
			length++
			sequences[row], lengths[row] = float64(sequence), float64(length)
		}
	}
	c.In["sequences"], c.In["lengths"] = dense(array.Int32, sequences, s.rows), dense(array.Int32, lengths, s.rows)
	return c
}

// pagedRunsCases are those of kernels that take rows of one sequence together.
func pagedRunsCases() []Case {
	var cases []Case
	r := newSource(86)
	for _, dtype := range floatTypes {
		for _, cache := range cacheTypes {
			cases = append(cases, pagedRunsCase(r, dtype, cache, pagedShape{150, 4, 2, 64, 9, 16, 3, 4}))
		}
		cases = append(cases,
			pagedRunsCase(r, dtype, dtype, pagedShape{100, 16, 2, 128, 12, 64, 2, 9}), // eight heads at once
			pagedRunsCase(r, dtype, array.Uint8, pagedShape{100, 16, 2, 128, 12, 64, 2, 9}),
			pagedRunsCase(r, dtype, dtype, pagedShape{70, 6, 2, 40, 5, 7, 2, 3}),  // three, odd pages
			pagedRunsCase(r, dtype, dtype, pagedShape{130, 2, 2, 33, 5, 5, 3, 2})) // no quads, one head
	}
	// Numbers of very different magnitudes.
	wide := pagedRunsCase(r, array.Float32, array.Float32, pagedShape{90, 4, 2, 24, 9, 16, 3, 4})
	wide.Name += "/sizes"
	for _, operand := range []string{"q", "keys", "values"} {
		a, n := floats(wide.In[operand]), wide.In[operand].Dim(-1)
		for i := range a {
			a[i] *= math.Exp2(float64(i/n%5*9 - 18))
			if operand == "q" {
				a[i] *= 1e-5
			}
		}
		wide.In[operand] = dense(array.Float32, a, wide.In[operand].Shape...)
	}
	// Rows with and without numbers that are not finite, in one tile.
	special := pagedRunsCase(r, array.Float32, array.Float32, pagedShape{150, 4, 2, 64, 9, 16, 3, 4})
	special.Name += "/infinities and NaNs"
	put := func(operand string, x float64, index ...int) {
		a, at := floats(special.In[operand]), 0
		for axis, i := range index {
			at = at*special.In[operand].Dim(axis) + i
		}
		a[at] = x
		special.In[operand] = dense(array.Float32, a, special.In[operand].Shape...)
	}
	put("q", math.NaN(), 40, 1, 7)
	put("keys", math.Inf(1), 2, 0, 5, 3)
	put("keys", math.NaN(), 6, 1, 0, 63)
	put("values", math.Inf(-1), 4, 0, 11, 0)
	put("values", math.NaN(), 7, 1, 15, 33)
	return append(cases, wide, special)
}

// pagedCodesCases are those of kernels for pages of codes.
func pagedCodesCases() []Case {
	r := newSource(89)
	var cases []Case
	for _, s := range []pagedShape{
		{4, 4, 1, 128, 9, 16, 2, 5},
		{3, 6, 2, 64, 9, 32, 2, 3},  // three query heads to a key head
		{2, 2, 2, 128, 8, 16, 2, 4}, // one
		{3, 8, 1, 64, 9, 48, 2, 3},  // eight
		{3, 4, 2, 64, 7, 24, 2, 3},  // pages of no whole batches
	} {
		cases = append(cases, pagedCase(r, array.Float32, array.Uint8, s))
	}
	long := pagedCase(r, array.Float32, array.Uint8, pagedShape{2, 8, 2, 128, 40, 64, 2, 36})
	long.Name += "/long"
	// Pages whose values, and key heads whose keys, have very different magnitudes; queries make up for those of keys.
	sizes := pagedCase(r, array.Float32, array.Uint8, pagedShape{2, 4, 2, 64, 40, 16, 2, 60})
	sizes.Name += "/sizes"
	q := floats(sizes.In["q"])
	keys, values := floats(r.normal(array.Float32, 1, 40, 2, 16, 64)), floats(r.normal(array.Float32, 1, 40, 2, 16, 64))
	for i := range q {
		q[i] *= math.Exp2(float64(80*(i/64/2%2) - 40))
	}
	for i := range keys {
		page, head := i/64/16/2, i/64/16%2
		keys[i] *= math.Exp2(float64(40 - 80*head))
		values[i] *= math.Exp2(float64(8*(page%3) - 8))
	}
	sizes.In["q"] = dense(array.Float32, q, 2, 4, 64)
	sizes.In["keys"] = encoded(dense(array.Float32, keys, 40, 2, 16, 64))
	sizes.In["values"] = encoded(dense(array.Float32, values, 40, 2, 16, 64))
	for _, c := range []Case{long, sizes} {
		c.In["sequences"] = dense(array.Int32, []float64{0, 1}, 2)
		c.In["lengths"] = dense(array.Int32, []float64{957, 257}, 2)
		cases = append(cases, c)
	}
	return cases
}

// pagedWholeCases are those of sequences in one page each, where a row alone has more ranges of keys: one up to 128 or
// 256 keys, and beyond that up to 16.
func pagedWholeCases() []Case {
	var cases []Case
	r := newSource(91)
	for _, cache := range cacheTypes {
		rows := pagedCase(r, array.Float32, cache, pagedShape{6, 4, 2, 64, 3, 1040, 3, 1})
		rows.In["table"] = dense(array.Int32, []float64{2, 0, 1}, 3, 1)
		rows.In["sequences"] = dense(array.Int32, []float64{0, 1, 2, 0, 1, 2}, 6)
		rows.In["lengths"] = dense(array.Int32, []float64{1040, 257, 128, 129, 700, 65}, 6)
		cases = append(cases, rows)
		for _, length := range []float64{1040, 500, 257, 129} {
			heads := 4
			if length == 500 {
				heads = 8 // four of a key head
			}
			row := pagedCase(r, array.Float32, cache, pagedShape{1, heads, 2, 64, 1, 1040, 1, 1})
			row.Name += fmt.Sprintf("/%v keys", length)
			row.In["table"], row.In["sequences"] = dense(array.Int32, []float64{0}, 1, 1), dense(array.Int32, []float64{0}, 1)
			row.In["lengths"] = dense(array.Int32, []float64{length}, 1)
			cases = append(cases, row)
		}
	}
	return cases
}

func pagedSDPACases() []Case {
	var cases []Case
	for _, dtype := range floatTypes {
		for _, cache := range cacheTypes {
			cases = append(cases, pagedCase(newSource(81), dtype, cache, pagedShape{5, 4, 2, 64, 9, 16, 3, 4}))
		}
		r := newSource(82)
		cases = append(cases,
			pagedCase(r, dtype, dtype, pagedShape{3, 16, 2, 128, 12, 64, 2, 9}), // eight heads at once
			pagedCase(r, dtype, array.Uint8, pagedShape{3, 16, 2, 128, 12, 64, 2, 9}),
			pagedCase(r, dtype, dtype, pagedShape{2, 6, 2, 40, 5, 7, 2, 3}), // three, odd pages
			pagedCase(r, dtype, dtype, pagedShape{4, 2, 2, 33, 5, 5, 3, 2})) // no quads
	}
	r := newSource(83)
	wide := pagedCase(r, array.Float32, array.Float32, pagedShape{2, 2, 1, 300, 4, 8, 2, 2})
	long := pagedCase(r, array.Float32, array.BFloat16, pagedShape{3, 4, 2, 64, 20, 64, 2, 80})
	long.In["lengths"] = dense(array.Int32, []float64{5000, 1, 257}, 3)
	large := pagedCase(r, array.Float32, array.Float32, pagedShape{4, 4, 2, 32, 3, 700, 2, 2})
	large.In["lengths"] = dense(array.Int32, []float64{1400, 511, 701, 30}, 4)
	many := pagedCase(r, array.Float32, array.Float32, pagedShape{4, 4, 2, 32, 60, 7, 2, 150})
	many.In["lengths"] = dense(array.Int32, []float64{1050, 511, 512, 1023}, 4)
	longCodes := pagedCase(r, array.Float32, array.Uint8, pagedShape{3, 4, 2, 64, 20, 64, 2, 80})
	longCodes.In["lengths"] = long.In["lengths"]
	cases = append(cases, pagedWholeCases()...)
	byTokens := pagedCase(r, array.Float32, array.Uint8, pagedShape{4, 4, 2, 20, 6, 7, 3, 3})
	byTokens.Name += "/layouts"
	byTokens.In["keys"], byTokens.In["values"] = byToken(byTokens.In["keys"]), byToken(byTokens.In["values"])
	wideCodes := pagedCase(r, array.BFloat16, array.Uint8, pagedShape{2, 6, 2, 300, 4, 8, 2, 2})
	layouts := pagedCase(r, array.Float32, array.Float32, pagedShape{4, 4, 2, 16, 6, 40, 3, 3})
	layouts.Name += "/layouts"
	for _, operand := range []string{"q", "keys", "values", "table"} {
		layouts.In[operand] = place(layouts.In[operand], "transposed")
	}
	layouts.In["lengths"] = place(layouts.In["lengths"], "strided")
	none := pagedCase(r, array.Float32, array.Float32, pagedShape{2, 2, 1, 8, 0, 4, 1, 2})
	empty := pagedCase(r, array.Float32, array.Float32, pagedShape{0, 2, 1, 8, 2, 4, 1, 2})
	alike := pagedCase(r, array.Float32, array.Float32, pagedShape{4, 4, 2, 0, 3, 7, 2, 3}) // sees all keys alike
	alike.Name = "heads of no elements"
	alike.In["values"] = r.pages(array.Float32, 3, 2, 7, 24)
	return append(append(cases, wide, long, large, many, longCodes, byTokens, wideCodes, layouts, none, empty, alike), append(pagedCodesCases(), pagedRunsCases()...)...)
}

func randomPagedSDPA(t *rapid.T) Case {
	n := func(label string, most int) int { return rapid.IntRange(1, most).Draw(t, label) }
	s := pagedShape{rows: n("rows", 6), hkv: n("key heads", 3), d: n("d", 70), pages: n("pages", 6), page: n("page", 20), sequences: n("sequences", 3), perSequence: n("per sequence", 6)}
	s.hq = s.hkv * rapid.SampledFrom([]int{1, 2, 9}).Draw(t, "group")
	dtype := drawType(t, "type", floatTypes)
	cache := rapid.SampledFrom([]array.DType{dtype, array.BFloat16, array.Uint8}).Draw(t, "cache type")
	if cache == array.Uint8 {
		s.d = (s.d + 3) / 4 * 4
	}
	c := pagedCase(drawSource(t), dtype, cache, s)
	for _, operand := range []string{"q", "keys", "values", "table", "sequences", "lengths"} {
		if c.In[operand].DType != array.Uint8 {
			c.In[operand] = drawLayout(t, operand, c.In[operand])
		}
	}
	return c
}
