package fallback

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/opdef"
)

func randomFloats(b *testing.B, dtype array.DType, shape ...int) array.Array {
	a, err := array.New(dtype, shape...)
	require.NoError(b, err)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range a.Size() {
		setAt(a, i, rng.NormFloat64())
	}
	return a
}

func randomCodes(b *testing.B, shape ...int) array.Array {
	a, err := array.New(array.Uint32, shape...)
	require.NoError(b, err)
	rng := rand.New(rand.NewPCG(3, 4))
	for i := range array.Storage[uint32](a) {
		array.Storage[uint32](a)[i] = rng.Uint32()
	}
	return a
}

// fastest runs an op and returns the nanoseconds of the fastest run, which other
// work on the machine disturbs least. It reports them as best-ns.
func fastest(b *testing.B, run func() error) float64 {
	best := time.Duration(1 << 62)
	for b.Loop() {
		start := time.Now()
		if err := run(); err != nil {
			b.Fatal(err)
		}
		best = min(best, time.Since(start))
	}
	b.ReportMetric(float64(best.Nanoseconds()), "best-ns")
	return float64(best.Nanoseconds())
}

func BenchmarkQuantizedMatMul(b *testing.B) {
	for _, c := range []struct {
		m, n, k, bits, group int
		transpose            bool
	}{
		{1, 256, 256, 4, 128, true}, {1, 768, 256, 4, 128, true}, {1, 2048, 256, 4, 128, true}, {1, 2560, 4096, 4, 128, true}, {1, 151936, 1024, 4, 128, true},
		{1, 2560, 4096, 8, 128, true}, {1, 2560, 4096, 4, 32, true}, {1, 2560, 4096, 3, 64, true}, {1, 2560, 4096, 4, 64, false},
		{2, 2560, 4096, 4, 128, true}, {3, 2560, 4096, 4, 128, true}, {4, 2560, 4096, 4, 128, true}, {8, 768, 256, 4, 128, true}, {8, 2560, 4096, 4, 128, true}, {16, 2560, 4096, 4, 128, true}, {64, 2560, 4096, 4, 128, true}, {512, 2560, 4096, 4, 128, true}, {512, 768, 256, 4, 128, true},
		{64, 2560, 4096, 4, 64, false},
	} {
		b.Run(fmt.Sprintf("m=%d/n=%d/k=%d/bits=%d/group=%d/transpose=%v", c.m, c.n, c.k, c.bits, c.group, c.transpose), func(b *testing.B) {
			rows, cols, product := c.n, c.k, QuantizedMatMulTransposed
			if !c.transpose {
				rows, cols, product = cols, rows, QuantizedMatMul
			}
			w := randomCodes(b, rows, cols*c.bits/32)
			s := randomFloats(b, array.BFloat16, rows, cols/c.group)
			x, out := randomFloats(b, array.BFloat16, c.m, c.k), randomFloats(b, array.BFloat16, c.m, c.n)
			b.SetBytes(int64(len(w.Data)))
			best := fastest(b, func() error {
				return product(x, w, s, s, out, Quantization{GroupSize: c.group, Bits: c.bits})
			})
			b.ReportMetric(2*float64(c.m*c.n*c.k)/best, "gflops")
		})
	}
}

func BenchmarkMatMul(b *testing.B) {
	for _, n := range []int{64, 256, 1024} {
		for _, dtype := range []array.DType{array.Float32, array.BFloat16} {
			b.Run(fmt.Sprintf("%d/%v", n, dtype), func(b *testing.B) {
				x, out := randomFloats(b, dtype, n, n), randomFloats(b, dtype, n, n)
				best := fastest(b, func() error { return MatMul(x, x, out) })
				b.ReportMetric(2*float64(n*n*n)/best, "gflops")
			})
		}
	}
}

// BenchmarkMatVec streams a matrix of 67 million elements, for a few rows.
func BenchmarkMatVec(b *testing.B) {
	const n, k = 16384, 4096
	for _, dtype := range []array.DType{array.Float32, array.BFloat16, array.Float16} {
		w := randomFloats(b, dtype, n, k)
		w.Shape, w.Strides = []int{k, n}, []int{1, k}
		for _, m := range []int{1, 2, 4} {
			b.Run(fmt.Sprintf("%v/m=%d", dtype, m), func(b *testing.B) {
				x, out := randomFloats(b, dtype, m, k), randomFloats(b, dtype, m, n)
				best := fastest(b, func() error { return MatMul(x, w, out) })
				b.ReportMetric(float64(len(w.Data))/best, "GB/s")
			})
		}
	}
}

func BenchmarkSDPA(b *testing.B) {
	for _, c := range []struct{ tq, tk int }{{1, 64}, {1, 512}, {1, 4096}, {512, 512}} {
		b.Run(fmt.Sprintf("tq=%d/tk=%d", c.tq, c.tk), func(b *testing.B) {
			q, out := randomFloats(b, array.BFloat16, 1, 4, c.tq, 128), randomFloats(b, array.BFloat16, 1, 4, c.tq, 128)
			k := randomFloats(b, array.BFloat16, 1, 2, c.tk, 128)
			fastest(b, func() error {
				return SDPA(q, k, k, array.Array{}, array.Array{}, out, SDPAParams{Scale: 0.1, Causal: true})
			})
		})
	}
}

// BenchmarkPagedSDPA is a token's attention over 1,000 tokens in a page of 1,024, for 16 query
// and 8 key heads of 128 elements, by turns in 28 caches, which no cache of a processor holds.
func BenchmarkPagedSDPA(b *testing.B) {
	const length, heads, d, layers = 1000, 8, 128, 28
	q, out := randomFloats(b, array.Float32, 1, 2*heads, d), randomFloats(b, array.Float32, 1, 2*heads, d)
	page, sequence, tokens := ints(b, 0, 1, 1), ints(b, 0, 1), ints(b, length, 1)
	for _, dtype := range []array.DType{array.Float32, array.BFloat16, array.Float16, array.Uint8} {
		b.Run(dtype.String(), func(b *testing.B) {
			var pages [2 * layers]array.Array
			for i := range pages {
				var err error
				pages[i], err = array.New(dtype, 1, heads, 1024, CacheRow(dtype, d))
				require.NoError(b, err)
				for at := range pages[i].Data {
					pages[i].Data[at] = 0x3c + byte(at&1) // small floats of every type
				}
			}
			i := 0
			best := fastest(b, func() error {
				i = (i + 2) % len(pages)
				return PagedSDPA(q, pages[i], pages[i+1], page, sequence, tokens, out, 0.1)
			})
			b.ReportMetric(best/(length*heads), "ns/key")
		})
	}
}

func ints(b *testing.B, value int32, shape ...int) array.Array {
	a, err := array.New(array.Int32, shape...)
	require.NoError(b, err)
	storage[int32](&a)[0] = value
	return a
}

func BenchmarkSmall(b *testing.B) {
	row, wide := randomFloats(b, array.BFloat16, 1, 1, 256), randomFloats(b, array.BFloat16, 1, 1, 768)
	weight := randomFloats(b, array.BFloat16, 256)
	rowOut, wideOut := randomFloats(b, array.BFloat16, 1, 1, 256), randomFloats(b, array.BFloat16, 1, 1, 768)
	headsOut, logitsOut := randomFloats(b, array.BFloat16, 1, 4, 1, 128), randomFloats(b, array.BFloat16, 1, 2048)
	heads, logits := randomFloats(b, array.BFloat16, 1, 4, 1, 128), randomFloats(b, array.BFloat16, 1, 2048)
	place, _ := array.New(array.Uint32, 1)
	none := array.Array{}
	for _, c := range []struct {
		name string
		run  func() error
	}{
		{"Add", func() error { return Binary(opdef.BinaryAdd, row, row, rowOut) }},
		{"RMSNorm", func() error { return RMSNorm(row, weight, rowOut, 1e-6) }},
		{"SiLUMul", func() error { return SiLUMul(wide, wide, wideOut) }},
		{"RoPE", func() error {
			return RoPE(heads, none, none, headsOut, RoPEParams{Dims: 128, Base: 1e6, Scale: 1, Offset: 7})
		}},
		{"Copy", func() error { return Copy(row, rowOut) }},
		{"Softmax", func() error { return Softmax(logits, logitsOut) }},
		{"ArgMax", func() error { return Reduce(opdef.ReduceArgMax, logits, place) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			fastest(b, c.run)
		})
	}
}

// BenchmarkToken runs the ops of one token of the demo model: 6 layers, hidden
// 256, 4 and 2 heads of 128, MLP of 768, vocabulary 2,048, 4 bits in groups of
// 128.
func BenchmarkToken(b *testing.B) {
	for _, dtype := range []array.DType{array.Float32, array.BFloat16} {
		b.Run(dtype.String(), func(b *testing.B) {
			token := newToken(b, dtype)
			for b.Loop() {
				if err := token(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tokens/s")
		})
	}
}

func newToken(b *testing.B, dtype array.DType) func() error {
	const hidden, heads, kv, d, ff, vocab, seen = 256, 4, 2, 128, 768, 2048, 200
	q := Quantization{GroupSize: 128, Bits: 4}
	floats := func(shape ...int) array.Array { return randomFloats(b, dtype, shape...) }
	type linear struct{ w, s, b, out array.Array }
	newLinear := func(n, k int) *linear {
		return &linear{randomCodes(b, n, k/8), floats(n, k/128), floats(n, k/128), floats(1, n)}
	}
	var err error
	do := func(e error) {
		if err == nil {
			err = e
		}
	}
	mul := func(l *linear, x array.Array) array.Array {
		do(QuantizedMatMulTransposed(x, l.w, l.s, l.b, l.out, q))
		return l.out
	}
	view := func(a array.Array, shape ...int) array.Array {
		l, e := a.Reshape(shape...)
		do(e)
		a.Layout = l
		return a
	}
	none := array.Array{}
	rope := RoPEParams{Dims: d, Base: 1e6, Scale: 1, Offset: seen}
	norm, headNorm := floats(hidden), floats(d)
	x, y := floats(1, hidden), floats(1, hidden)
	wq, wk, wv, wo := newLinear(heads*d, hidden), newLinear(kv*d, hidden), newLinear(kv*d, hidden), newLinear(hidden, heads*d)
	gate, up, down, head := newLinear(ff, hidden), newLinear(ff, hidden), newLinear(hidden, ff), newLinear(vocab, hidden)
	keys, vals := floats(1, kv, 512, d), floats(1, kv, 512, d)
	used := func(a array.Array) array.Array {
		a.Layout, _ = a.Slice(2, 0, seen+1, 1)
		return a
	}
	attended, product := floats(1, heads, 1, d), floats(1, ff)
	next, _ := array.New(array.Uint32, 1)
	index, _ := array.New(array.Int32, 1)
	return func() error {
		do(QuantizedGather(head.w, head.s, head.b, index, x, q))
		for range 6 {
			do(RMSNorm(x, norm, y, 1e-6))
			qh, kh := view(mul(wq, y), 1, heads, 1, d), view(mul(wk, y), 1, kv, 1, d)
			do(RMSNorm(qh, headNorm, qh, 1e-6))
			do(RMSNorm(kh, headNorm, kh, 1e-6))
			do(RoPE(qh, none, none, qh, rope))
			do(RoPE(kh, none, none, kh, rope))
			do(SliceUpdate(keys, kh, none, []int{0, 0, seen, 0}))
			do(SliceUpdate(vals, view(mul(wv, y), 1, kv, 1, d), none, []int{0, 0, seen, 0}))
			do(SDPA(qh, used(keys), used(vals), none, none, attended, SDPAParams{Scale: 0.09, Causal: true}))
			do(Binary(opdef.BinaryAdd, x, mul(wo, view(attended, 1, heads*d)), x))
			do(RMSNorm(x, norm, y, 1e-6))
			do(SiLUMul(mul(gate, y), mul(up, y), product))
			do(Binary(opdef.BinaryAdd, x, mul(down, product), x))
		}
		do(RMSNorm(x, norm, y, 1e-6))
		do(Reduce(opdef.ReduceArgMax, mul(head, y), next))
		return err
	}
}
