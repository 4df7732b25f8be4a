package optest

import (
	"fmt"
	"math"

	"pgregory.net/rapid"

	"github.com/kompute-go/kompute-go/array"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/ops"
)

func runSDPAOf[T kompute.Float](c *call) *kompute.View {
	p := ops.SDPAParams[T]{Scale: c.Params.Scale, Causal: c.Params.Causal, KeyLength: tensor[int32](c, "key_length")}
	if mask, given := c.In["mask"]; given && mask.DType == array.Bool {
		p.Mask = tensor[bool](c, "mask")
	} else if given {
		p.Bias = tensor[T](c, "mask")
	}
	return ops.SDPA(c.s, tensor[T](c, "q"), tensor[T](c, "k"), tensor[T](c, "v"), p).View()
}

func runSDPA(c *call) *kompute.View {
	return byFloat(c.dtype("q"), runSDPAOf[float32], runSDPAOf[array.F16], runSDPAOf[array.BF16])(c)
}

// sees holds what decides whether a query sees a key.
type sees struct {
	mask          []float64 // nil: none
	isBool        bool
	length        int
	causal        bool
	queries, keys int
}

// score adds the mask to the score of key j for query i of head row, -Inf if it is hidden.
func (s *sees) score(raw float64, head, i, j int) float64 {
	if j >= s.length || s.causal && j > s.length-s.queries+i {
		return math.Inf(-1)
	}
	if s.mask == nil {
		return raw
	}
	m := s.mask[(head*s.queries+i)*s.keys+j]
	if !s.isBool {
		return raw + m
	}
	if m == 0 {
		return math.Inf(-1)
	}
	return raw
}

func newSees(c *Case) *sees {
	q, k := c.In["q"], c.In["k"]
	s := &sees{length: k.Dim(2), causal: c.Params.Causal, queries: q.Dim(2), keys: k.Dim(2)}
	if a, given := c.In["key_length"]; given {
		s.length = min(max(int(floats(a)[0]), 0), s.length)
	}
	if a, given := c.In["mask"]; given {
		a.Layout = must(a.Broadcast(q.Dim(0), q.Dim(1), q.Dim(2), k.Dim(2)))
		s.mask, s.isBool = floats(a), a.DType == array.Bool
	}
	return s
}

func referenceSDPA(c *Case) []float64 {
	q, k, v := c.In["q"], c.In["k"], c.In["v"]
	hq, hkv, d, dv := q.Dim(1), k.Dim(1), q.Dim(3), v.Dim(3)
	scale, see := float64(c.Params.Scale), newSees(c)
	if scale == 0 {
		scale = 1 / math.Sqrt(float64(d))
	}
	fq, fk, fv := floats(q), floats(k), floats(v)
	out := make([]float64, q.Dim(0)*hq*see.queries*dv)
	for head := range q.Dim(0) * hq {
		kv := head/hq*hkv + head%hq/(hq/hkv)
		for i := range see.queries {
			row := (head*see.queries + i)
			scores, largest := make([]float64, see.keys), math.Inf(-1)
			for j := range scores {
				raw := 0.0
				for l := range d {
					raw += fq[row*d+l] * fk[(kv*see.keys+j)*d+l]
				}
				scores[j] = see.score(raw*scale, head, i, j)
				largest = math.Max(largest, scores[j])
			}
			if math.IsInf(largest, -1) {
				continue // sees no key: zeros
			}
			for j, w := range softmax(scores) {
				for l := range dv {
					out[row*dv+l] += w * fv[(kv*see.keys+j)*dv+l]
				}
			}
		}
	}
	return round(q.DType, out)
}

// attention makes a case of [b, hq, tq, d] queries and [b, hkv, tk, d] keys.
func attention(r source, dtype array.DType, b, hq, hkv, tq, tk, d int) Case {
	return Case{
		Name: name(dtype, "", []int{b, hq, hkv, tq, tk, d}),
		In: map[string]array.Array{
			"q": r.normal(dtype, 1, b, hq, tq, d), "k": r.normal(dtype, 1, b, hkv, tk, d), "v": r.normal(dtype, 1, b, hkv, tk, d),
		},
	}
}

func sdpaCases() []Case {
	var cases []Case
	for _, dtype := range floatTypes {
		cases = append(cases, sdpaShapes(dtype)...)
		cases = append(cases, sdpaMasks(dtype)...)
		cases = append(cases, sdpaPrompts(dtype)...)
	}
	cases = append(cases, sdpaLong()...)
	long := attention(newSource(26), array.Float32, 1, 4, 2, 1, 5000, 64)
	zero := attention(newSource(27), array.Float32, 1, 2, 2, 3, 0, 32)
	zero.Name = "no keys"
	return append(cases, long, zero)
}

// sdpaLong are cases of many queries, and of many keys in a cache that is longer
// still, of which the device says how much is used.
func sdpaLong() []Case {
	r := newSource(41)
	prompt := attention(r, array.Float32, 1, 2, 1, 1025, 1025, 32)
	prompt.Name, prompt.Params.Causal = "prompt", true
	cache := attention(r, array.BFloat16, 1, 4, 2, 1, 3000, 128)
	cache.Name = "long cache"
	for _, name := range []string{"k", "v"} {
		l := must(array.Contiguous(1, 2, 4096, 128))
		cache.In[name] = relayout(cache.In[name], must(l.Slice(2, 0, 3000, 1)), l.Size())
	}
	cache.In["key_length"] = dense(array.Int32, []float64{2777}, 1)
	masked := attention(r, array.Float32, 2, 2, 2, 1, 2100, 64)
	masked.Name = "long mask"
	masked.In["mask"] = r.integers(array.Bool, 0, 1, 2, 1, 1, 2100)
	biased := attention(r, array.Float16, 1, 4, 1, 3, 1500, 64)
	biased.Name, biased.Params.Causal = "long bias", true
	biased.In["mask"] = place(r.normal(array.Float16, 2, 4, 1, 1500), "strided")
	return []Case{prompt, cache, masked, biased}
}

func sdpaShapes(dtype array.DType) []Case {
	var cases []Case
	r := newSource(28)
	for _, d := range []int{32, 64, 80, 128, 256, 1, 3, 96} {
		for i, t := range [][2]int{{1, 1}, {1, 33}, {1, 300}, {4, 4}, {17, 40}} {
			c := attention(r, dtype, 1+i%2, 4, 1+i%2, t[0], t[1], d)
			c.Params.Causal = i%2 == 1
			cases = append(cases, c)
		}
	}
	for _, t := range [][2]int{{70, 70}, {33, 600}, {1, 600}, {8, 129}, {64, 64}, {9, 3}} { // 9 queries of 3 keys: the first see none
		c := attention(r, dtype, 1, 4, 2, t[0], t[1], 64)
		c.Name += "/causal"
		c.Params.Causal = true
		cases = append(cases, c)
	}
	for _, h := range [][2]int{{1, 1}, {8, 8}, {16, 2}, {14, 2}, {6, 1}} {
		cases = append(cases, attention(r, dtype, 2, h[0], h[1], 2, 50, 32))
	}
	values := attention(r, dtype, 1, 2, 1, 3, 7, 32)
	values.Name += "/values"
	values.In["v"] = r.normal(dtype, 1, 1, 1, 7, 48)
	return append(cases, values)
}

func sdpaMasks(dtype array.DType) []Case {
	var cases []Case
	r := newSource(29)
	add := func(label string, tq, tk int, change func(*Case)) {
		c := attention(r, dtype, 2, 4, 2, tq, tk, 64)
		c.Name = name(dtype, label, nil)
		change(&c)
		cases = append(cases, c)
	}
	for _, shape := range [][]int{{2, 4, 5, 40}, {5, 40}, {2, 1, 1, 40}, {4, 1, 40}, {40}, {5, 1}, {1}, {}} {
		add(fmt.Sprintf("bool %v", shape), 5, 40, func(c *Case) { c.In["mask"] = r.integers(array.Bool, 0, 1, shape...) })
		add(fmt.Sprintf("bias %v", shape), 5, 40, func(c *Case) { c.In["mask"] = r.normal(dtype, 2, shape...) })
	}
	add("bias of -Inf", 3, 40, func(c *Case) {
		c.In["mask"] = r.normal(dtype, 1, 3, 40)
		set := setter(c.In["mask"])
		for i := range 70 { // the first query sees nothing, the second little
			set(i, math.Inf(-1))
		}
	})
	for _, n := range []float64{0, 1, 17, 40, 41, -3} {
		add(fmt.Sprintf("length %v", n), 1, 40, func(c *Case) { c.In["key_length"] = dense(array.Int32, []float64{n}, 1) })
		add(fmt.Sprintf("causal length %v", n), 6, 40, func(c *Case) {
			c.In["key_length"] = dense(array.Int32, []float64{n})
			c.Params.Causal = true
		})
	}
	add("cache", 2, 40, func(c *Case) { // 40 keys of a cache for 100
		for _, name := range []string{"k", "v"} {
			l := must(array.Contiguous(2, 2, 100, 64))
			c.In[name] = relayout(c.In[name], must(l.Slice(2, 0, 40, 1)), l.Size())
		}
		c.Params.Scale = 0.2
	})
	add("everything", 7, 40, func(c *Case) {
		for _, name := range []string{"q", "k", "v"} { // [B, T, H, D], viewed as [B, H, T, D]
			a := c.In[name]
			l := must(array.Contiguous(a.Dim(0), a.Dim(2), a.Dim(1), a.Dim(3)))
			c.In[name] = relayout(a, must(l.Transpose(0, 2, 1, 3)), l.Size())
		}
		c.In["mask"], c.In["key_length"] = r.integers(array.Bool, 0, 1, 7, 40), dense(array.Int32, []float64{33}, 1)
		c.Params.Causal = true
	})
	return cases
}

// sdpaPrompts are attentions of so many queries and heads that kernels for
// prompts take them.
func sdpaPrompts(dtype array.DType) []Case {
	var cases []Case
	r := newSource(30)
	add := func(label string, tq, tk, d int, change func(*Case)) {
		c := attention(r, dtype, 1, 32, 16, tq, tk, d)
		c.Name = name(dtype, "prompt/"+label, nil)
		change(&c)
		cases = append(cases, c)
	}
	for i, d := range []int{64, 128, 80, 12} {
		add(fmt.Sprintf("%d", d), 33+i, 33+i, d, func(c *Case) { c.Params.Causal = true })
		add(fmt.Sprintf("%d behind others", d), 40, 100+i, d, func(c *Case) { c.Params.Causal = i%2 == 0 })
	}
	add("mask", 40, 70, 64, func(c *Case) { c.In["mask"] = r.integers(array.Bool, 0, 1, 40, 70) })
	add("bias and length", 40, 70, 64, func(c *Case) {
		c.In["mask"], c.In["key_length"] = r.normal(dtype, 2, 40, 70), dense(array.Int32, []float64{50}, 1)
	})
	add("few keys", 40, 3, 64, func(c *Case) { c.Params.Causal = true })
	add("values of another width", 40, 40, 64, func(c *Case) { c.In["v"] = r.normal(dtype, 1, 1, 16, 40, 24) })
	if dtype == array.Float32 {
		add("keys and values of every magnitude", 40, 70, 64, func(c *Case) {
			*c = changeRows(*c, "q", func(row int, x []float64) { scale(x, math.Pow(10, float64(row%7)*5-15)) })
			*c = changeRows(*c, "k", func(row int, x []float64) { scale(x, math.Pow(10, -float64(row%5)*5)) })
			*c = changeRows(*c, "v", func(row int, x []float64) { scale(x, math.Pow(10, float64(row%8)*8-28)) })
		})
		add("small values", 40, 70, 64, func(c *Case) {
			*c = changeRows(*c, "v", func(_ int, x []float64) { scale(x, 1e-30) })
		})
	}
	add("values with infinities and NaNs", 40, 70, 64, func(c *Case) { // seen by all: what 0 times them is, nobody promises
		*c = changeRows(*c, "v", func(row int, x []float64) {
			special := []float64{math.Inf(1), math.Inf(-1), math.NaN()}
			if row%70 == 60 {
				x[row%len(x)] = special[row/70%3]
			}
		})
	})
	return cases
}

// sdpaVariants are what random cases choose from: each builds kernels of its own.
var sdpaVariants = []struct {
	dtype  array.DType
	d      int
	mask   string
	length bool
}{
	{array.Float32, 64, "", false},
	{array.Float32, 128, "bool", true},
	{array.BFloat16, 128, "", true},
	{array.BFloat16, 80, "bias", false},
	{array.Float16, 32, "bias", true},
	{array.Float16, 256, "bool", false},
}

func randomSDPA(t *rapid.T) Case {
	r, v := drawSource(t), rapid.SampledFrom(sdpaVariants).Draw(t, "variant")
	dtype, d := v.dtype, v.d
	hkv := rapid.IntRange(1, 3).Draw(t, "key heads")
	tq := rapid.OneOf(rapid.Just(1), rapid.IntRange(1, 9), rapid.IntRange(1, 70)).Draw(t, "queries")
	tk := rapid.OneOf(rapid.IntRange(1, 40), rapid.IntRange(1, 600)).Draw(t, "keys")
	if tq*tk*d > 400000 {
		tq = 1
	}
	b := rapid.IntRange(1, 2).Draw(t, "B")
	c := attention(r, dtype, b, hkv*rapid.IntRange(1, 4).Draw(t, "group"), hkv, tq, tk, d)
	for _, name := range []string{"q", "k", "v"} {
		c.In[name] = drawLayout(t, name, c.In[name])
	}
	mask := drawPart(t, "mask", []int{b, c.In["q"].Dim(1), tq, tk})
	switch v.mask {
	case "bool":
		c.In["mask"] = drawLayout(t, "mask", r.integers(array.Bool, 0, 1, mask...))
	case "bias":
		c.In["mask"] = drawLayout(t, "mask", r.normal(dtype, 2, mask...))
	}
	if v.length {
		c.In["key_length"] = dense(array.Int32, []float64{float64(rapid.IntRange(0, tk).Draw(t, "length"))}, 1)
	}
	c.Params.Causal = rapid.Bool().Draw(t, "causal")
	return c
}

// sdpaAlong: batches, heads with keys of their own, and queries that see every
// key are independent.
func sdpaAlong(c *Case, axis int) map[string]int {
	axes := map[string]int{"q": axis}
	switch {
	case axis == 3 || axis == 2 && c.Params.Causal || axis == 1 && c.In["q"].Dim(1) != c.In["k"].Dim(1):
		return nil
	case axis < 2:
		axes["k"], axes["v"] = axis, axis
	}
	if mask, given := c.In["mask"]; given && axis-4+mask.Rank() >= 0 {
		axes["mask"] = axis - 4 + mask.Rank()
	}
	return axes
}

func sdpaSuite() suite {
	shapes := func(q, k, v []int) func(e *env) error {
		return func(e *env) error {
			return ops.SDPA(e.s, e.f32(q...), e.f32(k...), e.f32(v...), ops.SDPAParams[float32]{}).Err()
		}
	}
	with := func(p func(e *env) ops.SDPAParams[float32]) func(e *env) error {
		return func(e *env) error {
			return ops.SDPA(e.s, e.f32(1, 4, 3, 8), e.f32(1, 2, 5, 8), e.f32(1, 2, 5, 8), p(e)).Err()
		}
	}
	type params = ops.SDPAParams[float32]
	return suite{
		op: "sdpa", run: runSDPA, reference: referenceSDPA, cases: sdpaCases, random: randomSDPA, thin: 2,
		optional: []string{"mask", "key_length"}, along: sdpaAlong, regroups: true,
		bound: func(c *Case) bound { return sumBound(c.dtype("q"), 16*c.In["q"].Dim(3), largest(floats(c.In["v"]))) },
		large: func(dtype array.DType, _ string, size int) Case {
			kv := func() array.Array { return blank(dtype, 1, 8, size/8192, 128) }
			return Case{In: map[string]array.Array{"q": blank(dtype, 1, 16, size/8192, 128), "k": kv(), "v": kv()}, Params: Params{Scale: 0.1, Causal: true}}
		},
		valid: func() Case {
			c := attention(newSource(1), array.Float32, 1, 2, 1, 3, 4, 8)
			c.In["mask"], c.In["key_length"] = dense(array.Bool, []float64{1, 1, 1, 0}, 4), dense(array.Int32, []float64{3}, 1)
			return c
		},
		rejects: []reject{
			{"rank", kompute.ErrShape, shapes([]int{4, 3, 8}, []int{4, 3, 8}, []int{4, 3, 8})},
			{"rank of k", kompute.ErrShape, shapes([]int{1, 4, 3, 8}, []int{4, 3, 8}, []int{1, 4, 3, 8})},
			{"batch", kompute.ErrShape, shapes([]int{2, 4, 3, 8}, []int{1, 4, 3, 8}, []int{1, 4, 3, 8})},
			{"head size", kompute.ErrShape, shapes([]int{1, 4, 3, 8}, []int{1, 4, 3, 9}, []int{1, 4, 3, 9})},
			{"keys and values", kompute.ErrShape, shapes([]int{1, 4, 3, 8}, []int{1, 4, 3, 8}, []int{1, 4, 2, 8})},
			{"heads of v", kompute.ErrShape, shapes([]int{1, 4, 3, 8}, []int{1, 4, 3, 8}, []int{1, 2, 3, 8})},
			{"group", kompute.ErrShape, shapes([]int{1, 4, 3, 8}, []int{1, 3, 3, 8}, []int{1, 3, 3, 8})},
			{"more key heads", kompute.ErrShape, shapes([]int{1, 2, 3, 8}, []int{1, 4, 3, 8}, []int{1, 4, 3, 8})},
			{"no key heads", kompute.ErrShape, shapes([]int{1, 2, 3, 8}, []int{1, 0, 3, 8}, []int{1, 0, 3, 8})},
			{"mask", kompute.ErrShape, with(func(e *env) params { return params{Mask: e.boolean(3, 4)} })},
			{"mask rank", kompute.ErrShape, with(func(e *env) params { return params{Mask: e.boolean(1, 1, 1, 3, 5)} })},
			{"bias", kompute.ErrShape, with(func(e *env) params { return params{Bias: e.f32(2, 3, 5)} })},
			{"two masks", kompute.ErrInvalid, with(func(e *env) params { return params{Mask: e.boolean(3, 5), Bias: e.f32(3, 5)} })},
			{"key lengths", kompute.ErrShape, with(func(e *env) params { return params{KeyLength: e.i32(2)} })},
			{"NaN scale", kompute.ErrInvalid, with(func(*env) params { return params{Scale: float32(math.NaN())} })},
			{"infinite scale", kompute.ErrInvalid, with(func(*env) params { return params{Scale: float32(math.Inf(-1))} })},
		},
	}
}
