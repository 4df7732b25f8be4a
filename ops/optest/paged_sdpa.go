package optest

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/ops"
)

func runPagedSDPAOf[T kompute.Float](c *call) *kompute.View {
	q, p := tensor[T](c, "q"), ops.PagedSDPAParams{
		Table: tensor[int32](c, "table"), Sequences: tensor[int32](c, "sequences"), Lengths: tensor[int32](c, "lengths"), Scale: c.Params.Scale,
	}
	switch c.dtype("keys") {
	case array.Float16:
		return ops.PagedSDPA(c.s, q, tensor[array.F16](c, "keys"), tensor[array.F16](c, "values"), p).View()
	case array.BFloat16:
		return ops.PagedSDPA(c.s, q, tensor[array.BF16](c, "keys"), tensor[array.BF16](c, "values"), p).View()
	case array.Uint8:
		return ops.PagedSDPA(c.s, q, tensor[uint8](c, "keys"), tensor[uint8](c, "values"), p).View()
	}
	return ops.PagedSDPA(c.s, q, tensor[float32](c, "keys"), tensor[float32](c, "values"), p).View()
}

func runPagedSDPA(c *call) *kompute.View {
	return byFloat(c.dtype("q"), runPagedSDPAOf[float32], runPagedSDPAOf[array.F16], runPagedSDPAOf[array.BF16])(c)
}

// seenTokens lists the tokens that a row sees, as page and place in it.
func seenTokens(c *Case, row int) (tokens [][2]int) {
	table, l, pages := elements(c.In["table"]), c.In["keys"].Dim(2), c.In["keys"].Dim(0)
	sequence := int(floats(c.In["sequences"])[row])
	if sequence < 0 || sequence >= c.In["table"].Dim(0) {
		return nil
	}
	length := min(int(floats(c.In["lengths"])[row]), c.In["table"].Dim(1)*l)
	for t := range max(length, 0) {
		if page := int(table([]int{sequence, t / l})); page >= 0 && page < pages {
			tokens = append(tokens, [2]int{page, t % l})
		}
	}
	return tokens
}

func referencePagedSDPA(c *Case) []float64 {
	q, k, v := floats(c.In["q"]), cacheFloats(c.In["keys"]), cacheFloats(c.In["values"])
	rows, hq, d := c.In["q"].Dim(0), c.In["q"].Dim(1), c.In["q"].Dim(2)
	hkv, page, dv, scale := c.In["keys"].Dim(1), c.In["keys"].Dim(2), cacheHead(c.In["values"]), float64(c.Params.Scale)
	if scale == 0 {
		scale = 1 / math.Sqrt(float64(max(d, 1)))
	}
	out := make([]float64, rows*hq*dv)
	for row := range rows {
		tokens := seenTokens(c, row)
		if len(tokens) == 0 {
			continue // sees no key: zeros
		}
		for head := range hq {
			scores, places := make([]float64, len(tokens)), make([]int, len(tokens))
			for j, at := range tokens {
				places[j] = (at[0]*hkv+head/(hq/hkv))*page + at[1]
				for i, x := range q[(row*hq+head)*d:][:d] {
					scores[j] += x * k[places[j]*d+i] * scale
				}
			}
			for j, w := range softmax(scores) {
				for i, x := range v[places[j]*dv:][:dv] {
					out[(row*hq+head)*dv+i] += w * x
				}
			}
		}
	}
	return round(c.dtype("q"), out)
}

// pagedSDPAAlong: rows are independent, and nothing about the others changes a bit of them. (Of more than 128 keys in one
// page, a row alone may have other bits; no random case is that long.)
func pagedSDPAAlong(_ *Case, axis int) map[string]int {
	if axis != 0 {
		return nil
	}
	return map[string]int{"q": 0, "sequences": 0, "lengths": 0}
}

// pagedSDPAPlaces checks that a row's result is the same, to the last bit, wherever its keys lie and whatever else is
// in the batch.
func pagedSDPAPlaces(t *testing.T, dev *kompute.Device) {
	r := newSource(84)
	alone := pagedCase(r, array.Float32, array.Float32, pagedShape{1, 8, 2, 64, 6, 16, 1, 6})
	alone.In["table"] = dense(array.Int32, []float64{0, 1, 2, 3, 4, 5}, 1, 6)
	alone.In["sequences"] = dense(array.Int32, []float64{0}, 1)
	alone.In["lengths"] = dense(array.Int32, []float64{83}, 1)
	many := pagedCase(r, array.Float32, array.Float32, pagedShape{9, 8, 2, 64, 11, 16, 3, 6})
	places := []float64{7, 2, 9, 0, 10, 4}
	for _, operand := range []string{"keys", "values"} {
		from, to := elements(alone.In[operand]), elements(many.In[operand])
		shape := many.In[operand].Shape
		many.In[operand] = dense(array.Float32, build(shape, func(at []int) float64 {
			for i, page := range places {
				if at[0] == int(page) {
					return from([]int{i, at[1], at[2], at[3]})
				}
			}
			return to(at)
		}), shape...)
	}
	table, q := floats(many.In["table"]), floats(many.In["q"])
	copy(table[2*6:], places)
	copy(q[4*8*64:5*8*64], floats(alone.In["q"]))
	sequences, lengths := floats(many.In["sequences"]), floats(many.In["lengths"])
	sequences[4], lengths[4] = 2, 83
	many.In["table"], many.In["q"] = dense(array.Int32, table, 3, 6), dense(array.Float32, q, 9, 8, 64)
	many.In["sequences"], many.In["lengths"] = dense(array.Int32, sequences, 9), dense(array.Int32, lengths, 9)
	u := &runner{suite: pagedSDPASuite(), dev: dev}
	want, got := floats(u.result(t, dev, &alone)), floats(u.result(t, dev, &many))
	require.Equal(t, want, got[4*8*64:5*8*64])
}

// pagedSDPACompany checks that rows of a sequence have the same bits, whatever rows stand before and after them and
// wherever they are divided.
func pagedSDPACompany(t *testing.T, dev *kompute.Device) {
	r, u := newSource(87), &runner{suite: pagedSDPASuite(), dev: dev}
	const rows, width = 160, 8 * 64
	c := pagedCase(r, array.Float32, array.Float32, pagedShape{rows, 8, 2, 64, 11, 16, 3, 16})
	sequences, lengths := make([]float64, rows), make([]float64, rows)
	for i := range rows {
		lengths[i] = float64(60 + i)
	}
	table := floats(c.In["table"])
	for i := range 16 { // all that the first sequence has
		table[i] = float64(i % 11)
	}
	c.In["table"] = dense(array.Int32, table, 3, 16)
	c.In["sequences"], c.In["lengths"] = dense(array.Int32, sequences, rows), dense(array.Int32, lengths, rows)
	want := floats(u.result(t, dev, &c))
	for _, part := range [][2]int{{0, 93}, {93, 160}, {31, 129}} { // as they stand after others in the second call
		other, before := c, 5+part[0]%7
		q := floats(r.normal(array.Float32, 1, rows, 8, 64))
		n := part[1] - part[0]
		copy(q[before*width:], floats(c.In["q"])[part[0]*width:part[1]*width])
		s, l := make([]float64, rows), make([]float64, rows)
		for i := range rows {
			s[i], l[i] = float64(1+i%2), float64(i)
		}
		copy(s[before:], sequences[:n])
		copy(l[before:], lengths[part[0]:part[1]])
		other.In = map[string]array.Array{
			"q": dense(array.Float32, q, rows, 8, 64), "keys": c.In["keys"], "values": c.In["values"], "table": c.In["table"],
			"sequences": dense(array.Int32, s, rows), "lengths": dense(array.Int32, l, rows),
		}
		got := floats(u.result(t, dev, &other))
		require.Equal(t, want[part[0]*width:part[1]*width], got[before*width:(before+n)*width], "rows %v", part)
	}
}

// pagedSDPALastValues checks rows whose last keys have infinite values: whatever a kernel loads in place of keys after
// them must not count. Each row sees one page more than the one before.
func pagedSDPALastValues(t *testing.T, dev *kompute.Device) {
	u := &runner{suite: pagedSDPASuite(), dev: dev}
	for _, cache := range []array.DType{array.Float32, array.BFloat16} {
		c := pagedCase(newSource(88), array.Float32, cache, pagedShape{3, 4, 2, 64, 3, 16, 1, 3})
		c.In["table"], c.In["sequences"] = dense(array.Int32, []float64{0, 1, 2}, 1, 3), dense(array.Int32, []float64{0, 0, 0}, 3)
		c.In["lengths"] = dense(array.Int32, []float64{5, 19, 33}, 3)
		values := floats(c.In["values"])
		for page, last := range []int{4, 2, 0} { // of the first key head, in a column of its own
			values[(page*2*16+last)*64+page] = math.Inf(2*page - 1)
		}
		c.In["values"] = dense(cache, values, c.In["values"].Shape...)
		for i, got := range floats(u.result(t, dev, &c)) {
			row, head, column := i/(4*64), i/64%4, i%64
			if infinite := head < 2 && column <= row; infinite {
				require.Equal(t, math.Inf(2*column-1), got, "row %d, head %d, column %d", row, head, column)
			} else {
				require.Less(t, math.Abs(got), 100.0, "row %d, head %d, column %d", row, head, column)
			}
		}
	}
}

// pagedSDPAUnseenCodes checks that nothing depends on the scales of tokens that no row sees, and of a page that stands in
// for those that do not exist.
func pagedSDPAUnseenCodes(t *testing.T, dev *kompute.Device) {
	u := &runner{suite: pagedSDPASuite(), dev: dev}
	c := pagedCase(newSource(90), array.Float32, array.Uint8, pagedShape{3, 4, 2, 64, 3, 16, 2, 3})
	c.In["table"] = dense(array.Int32, []float64{0, 1, 2, 0, -1, 1}, 2, 3)
	c.In["sequences"], c.In["lengths"] = dense(array.Int32, []float64{0, 1, 0}, 3), dense(array.Int32, []float64{33, 40, 5}, 3)
	want := floats(u.result(t, dev, &c))
	for _, operand := range []string{"keys", "values"} {
		codes, row := floats(c.In[operand]), c.In[operand].Dim(3)
		for i := range codes {
			if page, token := i/row/16/2, i/row%16; page == 2 && token > 0 && i%row >= 64 {
				codes[i] = 0xff // of a NaN
			}
		}
		c.In[operand] = dense(array.Uint8, codes, c.In[operand].Shape...)
	}
	require.Equal(t, want, floats(u.result(t, dev, &c)))
	// A NaN that is seen is in the results of its 32 elements, by the heads that share it and the rows that see it.
	values, row := floats(c.In["values"]), c.In["values"].Dim(3)
	for i := range 4 {
		values[2*row+64+4+i] = 0xff // of the first page and head, the third token's second group
	}
	c.In["values"] = dense(array.Uint8, values, c.In["values"].Shape...)
	for i, got := range floats(u.result(t, dev, &c)) {
		if head, column := i/64%4, i%64; head < 2 && column >= 32 {
			require.True(t, math.IsNaN(got), "%d", i)
		} else {
			require.Equal(t, want[i], got, "%d", i)
		}
	}
}

func largePagedSDPA(dtype array.DType, _ string, size int) Case {
	pages := size / 65536
	table := make([]float64, pages)
	for i := range table {
		table[i] = float64(i)
	}
	return Case{In: map[string]array.Array{
		"q": blank(dtype, 1, 16, 128), "keys": blank(dtype, pages, 8, 64, 128), "values": blank(dtype, pages, 8, 64, 128),
		"table": dense(array.Int32, table, 1, pages), "sequences": dense(array.Int32, []float64{0}, 1),
		"lengths": dense(array.Int32, []float64{float64(pages * 64)}, 1),
	}}
}

func pagedSDPASuite() suite {
	call := func(q, k, v, table, sequences, lengths []int, scale float32) func(e *env) error {
		return func(e *env) error {
			return ops.PagedSDPA(e.s, e.f32(q...), e.f32(k...), e.f32(v...), ops.PagedSDPAParams{
				Table: e.i32(table...), Sequences: e.i32(sequences...), Lengths: e.i32(lengths...), Scale: scale,
			}).Err()
		}
	}
	type s = []int
	return suite{
		op: "paged_sdpa", run: runPagedSDPA, reference: referencePagedSDPA, cases: pagedSDPACases, draw: randomPagedSDPA,
		along: pagedSDPAAlong, thin: 25, extra: func(t *testing.T, dev *kompute.Device) {
			pagedSDPAPlaces(t, dev)
			pagedSDPACompany(t, dev)
			pagedSDPALastValues(t, dev)
			pagedSDPAUnseenCodes(t, dev)
		},
		bound: func(c *Case) bound {
			return sumBound(c.dtype("q"), 16*c.In["q"].Dim(2), largest(cacheFloats(c.In["values"])))
		},
		large: largePagedSDPA,
		valid: func() Case {
			return pagedCase(newSource(1), array.Float32, array.Float32, pagedShape{2, 2, 1, 8, 3, 4, 2, 2})
		},
		rejects: []reject{
			{"rank", kompute.ErrShape, call(s{1, 2, 4, 8}, s{3, 2, 5, 8}, s{3, 2, 5, 8}, s{1, 2}, s{2}, s{2}, 0)},
			{"rank of keys", kompute.ErrShape, call(s{2, 4, 8}, s{2, 5, 8}, s{3, 2, 5, 8}, s{1, 2}, s{2}, s{2}, 0)},
			{"table", kompute.ErrShape, call(s{2, 4, 8}, s{3, 2, 5, 8}, s{3, 2, 5, 8}, s{2}, s{2}, s{2}, 0)},
			{"sequences", kompute.ErrShape, call(s{2, 4, 8}, s{3, 2, 5, 8}, s{3, 2, 5, 8}, s{1, 2}, s{3}, s{2}, 0)},
			{"lengths", kompute.ErrShape, call(s{2, 4, 8}, s{3, 2, 5, 8}, s{3, 2, 5, 8}, s{1, 2}, s{2}, s{1}, 0)},
			{"head size", kompute.ErrShape, call(s{2, 4, 8}, s{3, 2, 5, 9}, s{3, 2, 5, 8}, s{1, 2}, s{2}, s{2}, 0)},
			{"keys and values", kompute.ErrShape, call(s{2, 4, 8}, s{3, 2, 5, 8}, s{3, 2, 4, 8}, s{1, 2}, s{2}, s{2}, 0)},
			{"group", kompute.ErrShape, call(s{2, 4, 8}, s{3, 3, 5, 8}, s{3, 3, 5, 8}, s{1, 2}, s{2}, s{2}, 0)},
			{"bytes of no head", kompute.ErrShape, func(e *env) error {
				return ops.PagedSDPA(e.s, e.f32(2, 4, 6), e.u8(3, 2, 5, 10), e.u8(3, 2, 5, 10), ops.PagedSDPAParams{
					Table: e.i32(1, 2), Sequences: e.i32(2), Lengths: e.i32(2),
				}).Err()
			}},
			{"NaN scale", kompute.ErrInvalid, call(s{2, 4, 8}, s{3, 2, 5, 8}, s{3, 2, 5, 8}, s{1, 2}, s{2}, s{2}, float32(math.NaN()))},
		},
	}
}
