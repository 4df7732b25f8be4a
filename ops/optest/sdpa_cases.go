package optest

import (
	"fmt"
	"math"

	"pgregory.net/rapid"

	"github.com/kompute-go/kompute-go/internal/array"
)

// attention makes a case of [b, hq, tq, d] queries and [b, hkv, tk, d] keys.
func attention(r source, dtype array.DType, b, hq, hkv, tq, tk, d int) Case {
	return Case{
		Name: name(dtype, "", []int{b, hq, hkv, tq, tk, d}),
		In: map[string]array.Array{
			"q": r.normal(dtype, 1, b, hq, tq, d), "k": r.normal(dtype, 1, b, hkv, tk, d), "v": r.normal(dtype, 1, b, hkv, tk, d),
		},
	}
}

// lowest are the lowest finite numbers, with which some libraries fill masks.
var lowest = map[array.DType]float64{array.Float32: -math.MaxFloat32, array.BFloat16: -0x1.fep127, array.Float16: -65504}

func sdpaCases() []Case {
	var cases []Case
	for _, dtype := range floatTypes {
		cases = append(cases, sdpaShapes(dtype)...)
		cases = append(cases, sdpaMasks(dtype)...)
		cases = append(cases, sdpaPrompts(dtype)...)
	}
	cases = append(cases, sdpaLong()...)
	cases = append(cases, sdpaOverOthers()...)
	cases = append(cases, sdpaManyKeys()...)
	long := attention(newSource(26), array.Float32, 1, 4, 2, 1, 5000, 64)
	zero := attention(newSource(27), array.Float32, 1, 2, 2, 3, 0, 32)
	zero.Name = "no keys"
	return append(append(cases, long, zero), sdpaHidden()...)
}

// sdpaLong are cases of many queries, and of many keys in a cache that is longer
// still, of which the device says how much is used.
func sdpaLong() []Case {
	r := newSource(41)
	prompt := attention(r, array.Float32, 1, 2, 1, 1025, 1025, 32)
	prompt.Name, prompt.Params.Causal = "prompt", true
	many := attention(r, array.Float32, 1, 128, 64, 521, 90, 128) // blocks of 128 rows for thrice a large GPU's compute units
	many.Name = "many heads"
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
	return []Case{prompt, many, cache, masked, biased}
}

// sdpaManyKeys are some queries and so many keys that, on tensor cores, several workgroups share them.
func sdpaManyKeys() []Case {
	r := newSource(44)
	cache := attention(r, array.Float32, 1, 8, 2, 20, 2600, 64)
	cache.Name, cache.Params.Causal = "after a cache", true
	cache.In["key_length"] = dense(array.Int32, []float64{2511}, 1)
	short := attention(r, array.Float32, 1, 8, 2, 20, 2600, 64) // most workgroups have no keys
	short.Params.Causal = true
	short.Name = "after the beginning of a cache"
	short.In["key_length"] = dense(array.Int32, []float64{35}, 1)
	masked := over(r, attention(r, array.Float32, 1, 16, 16, 40, 1300, 128), array.BFloat16)
	masked.Name = "masked after many keys"
	masked.In["mask"] = r.integers(array.Bool, 0, 1, 40, 1300)
	special := attention(r, array.Float32, 2, 8, 2, 20, 2100, 76)
	special.In["v"] = r.normal(array.Float32, 1, 2, 2, 2100, 50)
	special = changeRows(special, "v", func(row int, x []float64) {
		if row%2100 == 700 {
			x[row/2100] = []float64{math.Inf(1), math.Inf(-1), math.NaN(), math.Inf(1)}[row/2100]
		}
		if row%2100 == 1900 {
			x[40] = math.Inf(1)
		}
	})
	special.Name = "infinities and NaNs among many keys"
	large := attention(r, array.Float32, 1, 8, 2, 20, 2600, 64) // sums of weighted values that are not averages overflow
	large.Name = "large values of many keys"
	large = changeRows(large, "v", func(_ int, x []float64) { scale(x, 1e36) })
	none := attention(r, array.Float32, 1, 2, 2, 70, 0, 32)
	none.Name = "many queries and no keys"
	return []Case{cache, short, masked, special, large, none}
}

// over gives a case keys and values of another type.
func over(r source, c Case, dtype array.DType) Case {
	for _, operand := range []string{"k", "v"} {
		c.In[operand] = r.normal(dtype, 1, c.In[operand].Shape...)
	}
	return c
}

// sdpaOverOthers are attentions to keys and values of another type than the queries'.
func sdpaOverOthers() []Case {
	var cases []Case
	r := newSource(42)
	for _, types := range [][2]array.DType{
		{array.Float32, array.BFloat16}, {array.Float32, array.Float16}, {array.BFloat16, array.Float32}, {array.Float16, array.BFloat16},
	} {
		for _, tq := range []int{1, 5, 40} { // the last ones by the kernels for prompts
			c := over(r, attention(r, types[0], 1, 32, 16, tq, 70, 128), types[1])
			c.Name = name(types[0], fmt.Sprintf("%d queries over %v", tq, types[1]), nil)
			c.In["key_length"], c.Params.Causal = dense(array.Int32, []float64{66}, 1), true
			cases = append(cases, c)
		}
	}
	many := over(r, attention(r, array.Float32, 1, 128, 64, 521, 90, 128), array.BFloat16) // see sdpaLong
	many.Name = "many heads over bfloat16"
	special := withSpecialValues(over(r, attention(r, array.Float32, 1, 32, 16, 40, 70, 64), array.Float16))
	special.Name = "infinities and NaNs over float16"
	special.In["mask"] = r.normal(array.Float32, 2, 40, 70)
	return append(cases, many, special)
}

// withSpecialValues puts an infinity or a NaN into the values of each head, at key 60 of 70.
func withSpecialValues(c Case) Case {
	return changeRows(c, "v", func(row int, x []float64) {
		special := []float64{math.Inf(1), math.Inf(-1), math.NaN()}
		if row%70 == 60 {
			x[row%len(x)] = special[row/70%3]
		}
	})
}

// sdpaHidden are attentions whose hidden keys have infinite and undefined values, by the kernels for few queries and for
// many, and those over heads of no elements, which see all keys alike.
func sdpaHidden() []Case {
	var cases []Case
	inf, nan := math.Inf(1), math.NaN()
	r := newSource(43)
	for _, tq := range []int{1, 5, 70} {
		heads := 4
		if tq == 70 {
			heads = 32 // enough for the kernels for prompts
		}
		add := func(label string, tk int, change func(*Case)) {
			c := attention(r, array.Float32, 1, heads, heads/2, tq, tk, 64)
			c.Name = fmt.Sprintf("hidden/%s, %d queries", label, tq)
			change(&c)
			cases = append(cases, c)
		}
		everywhere := func(c *Case, rows func(key int) bool, x float64) {
			*c = changeRows(*c, "v", func(row int, values []float64) {
				for i := range values {
					if rows(row % c.In["v"].Dim(2)) {
						values[i] = x
					}
				}
			})
		}
		all := func(int) bool { return true }
		add("infinite values", 9, func(c *Case) {
			everywhere(c, all, inf)
			c.In["mask"] = dense(array.Bool, make([]float64, 9), 9)
		})
		add("undefined values by bias", 300, func(c *Case) {
			everywhere(c, all, nan)
			c.In["mask"] = dense(array.Float32, []float64{-inf}, 1)
		})
		for _, x := range []float64{inf, nan} { // of keys that a bias hides
			add(fmt.Sprint("keys of ", x), 300, func(c *Case) {
				bias := make([]float64, 300)
				*c = changeRows(*c, "k", func(row int, values []float64) {
					if key := row % 300; key%5 == 2 {
						values[key%64], bias[key] = x, -inf
					}
				})
				c.In["mask"] = dense(array.Float32, bias, 300)
			})
		}
		add("values of the first block", 300, func(c *Case) {
			everywhere(c, func(key int) bool { return key < 140 && key%3 == 0 }, nan)
			mask := make([]float64, 300)
			for key := range mask {
				mask[key] = truth(key >= 140 || key%3 == 1)
			}
			c.In["mask"] = dense(array.Bool, mask, 300)
		})
		add("first value", 3, func(c *Case) { // the first queries of many see no key, others the infinity
			everywhere(c, func(key int) bool { return key == 0 }, inf)
			c.Params.Causal = true
		})
		add("last values", 70, func(c *Case) { // which the first of many queries do not see
			everywhere(c, func(key int) bool { return key == 67 }, -inf)
			everywhere(c, func(key int) bool { return key == 68 }, nan)
			c.Params.Causal = true
		})
		none := attention(r, array.Float32, 2, 4, 2, tq, 40, 0)
		none.Name = fmt.Sprintf("heads of no elements, %d queries", tq)
		none.In["v"], none.Params.Causal = r.normal(array.Float32, 1, 2, 2, 40, 24), true
		cases = append(cases, none)
	}
	return cases
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
	for _, queries := range []int{3, 40} {
		add(fmt.Sprintf("lowest and NaN bias, %d queries", queries), queries, 40, func(c *Case) {
			c.In["mask"] = r.normal(dtype, 1, queries, 40)
			set := setter(c.In["mask"])
			for i := range 70 { // finite, so that it hides nothing: the first query sees all 40 keys alike, the second mostly the last 10
				set(i, lowest[dtype])
			}
			set(2*40+7, math.NaN())
		})
		if dtype == array.Float16 {
			continue
		}
		add(fmt.Sprintf("far biases, %d queries", queries), queries, 40, func(c *Case) {
			c.In["mask"] = r.normal(dtype, 1, queries, 40)
			set := setter(c.In["mask"])
			for i := range 80 {
				set(i, []float64{-1.9e38, 0, 1.9e38}[i%(2+i/40)])
			}
		})
	}
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

// sdpaPrompts are attentions with enough queries and heads for the kernels for
// prompts.
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
		add(fmt.Sprintf("%d after others", d), 40, 100+i, d, func(c *Case) { c.Params.Causal = i%2 == 0 })
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
	// Every query sees them: 0 times them has no defined result.
	add("values with infinities and NaNs", 40, 70, 64, func(c *Case) { *c = withSpecialValues(*c) })
	return cases
}

// sdpaVariants are what random cases choose from: each builds kernels of its own.
var sdpaVariants = []struct {
	dtype, cache array.DType // of queries, and of keys and values
	d            int
	mask         string
	length       bool
}{
	{array.Float32, array.Float32, 64, "", false},
	{array.Float32, array.BFloat16, 128, "bool", true},
	{array.BFloat16, array.BFloat16, 128, "", true},
	{array.BFloat16, array.Float32, 80, "bias", false},
	{array.Float16, array.Float16, 32, "bias", true},
	{array.Float16, array.Float16, 256, "bool", false},
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
	c := over(r, attention(r, dtype, b, hkv*rapid.IntRange(1, 4).Draw(t, "group"), hkv, tq, tk, d), v.cache)
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
