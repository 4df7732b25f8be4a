package ops_test

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/ops"
)

// layer is a random decoder layer for one token, with a head: the patterns that
// fusion passes look for, in variations that they must distinguish.
type layer[T kompute.Float] struct {
	t                          require.TestingT
	dev                        *kompute.Device
	rng                        *rand.Rand
	open                       []interface{ Close() error }
	hidden, inner, vocab       int
	heads, kvHeads, d, keys    int
	q                          ops.Quantization
	norms, headNorms           bool
	rope, freqs, traditional   bool
	residualFirst, seen        bool // seen: an intermediate is a result
	matrices                   []weights
	gains                      []*kompute.Tensor[T] // hidden, hidden, d, d, hidden
	wavelengths                *kompute.Tensor[float32]
	x, keyCache, valueCache    *kompute.Tensor[T]
	start, position, keyLength *kompute.Tensor[int32]
	one                        *kompute.Tensor[int32]
	out, mid                   *kompute.Tensor[T]
	token                      *kompute.Tensor[uint32]
}

type weights struct {
	w              *kompute.Tensor[uint32]
	scales, biases *kompute.Tensor[float32]
}

func newLayer[T kompute.Float](r *rapid.T, dev *kompute.Device, seed uint64) *layer[T] {
	flag := func(name string) bool { return rapid.Bool().Draw(r, name) }
	l := &layer[T]{t: r, dev: dev, rng: rand.New(rand.NewPCG(seed, 1))}
	l.q = ops.Quantization{GroupSize: rapid.SampledFrom([]int{32, 64}).Draw(r, "group"), Bits: rapid.SampledFrom([]int{2, 3, 4, 5, 6, 8}).Draw(r, "bits")}
	l.hidden, l.inner = 64*rapid.IntRange(1, 3).Draw(r, "hidden"), 64*rapid.IntRange(1, 4).Draw(r, "inner")
	l.vocab = rapid.IntRange(1, 600).Draw(r, "vocab")
	l.kvHeads = rapid.IntRange(1, 3).Draw(r, "key heads")
	l.heads = l.kvHeads * rapid.IntRange(1, 2).Draw(r, "group of heads")
	l.d = 64
	l.keys = rapid.SampledFrom([]int{1, 40, 128, 1500}).Draw(r, "capacity")
	l.norms, l.headNorms, l.seen = flag("norms"), flag("head norms"), flag("seen")
	l.rope, l.freqs, l.traditional = flag("rope"), flag("freqs"), flag("traditional")
	l.residualFirst = flag("residual first")
	return l
}

// fill makes the tensors; the same seed gives the same ones.
func (l *layer[T]) fill() {
	for _, shape := range [][2]int{{l.heads * l.d, l.hidden}, {l.kvHeads * l.d, l.hidden}, {l.kvHeads * l.d, l.hidden},
		{l.hidden, l.heads * l.d}, {l.inner, l.hidden}, {l.inner, l.hidden}, {l.hidden, l.inner}, {l.vocab, l.hidden}} {
		l.matrices = append(l.matrices, l.matrix(shape[0], shape[1]))
	}
	for _, n := range []int{l.hidden, l.hidden, l.d, l.d, l.hidden} {
		l.gains = append(l.gains, l.floats(n))
	}
	l.x = l.floats(1, 1, l.hidden)
	l.keyCache, l.valueCache = l.floats(1, l.kvHeads, l.keys, l.d), l.floats(1, l.kvHeads, l.keys, l.d)
	at := int32(l.rng.IntN(l.keys))
	l.start = keep(l, kompute.New[int32])([]int32{0, 0, at, 0}, 4)
	l.one = keep(l, kompute.New[int32])([]int32{0, 0, 1, 0}, 4)
	l.position = keep(l, kompute.New[int32])([]int32{at}, 1)
	l.keyLength = keep(l, kompute.New[int32])([]int32{at + 1}, 1)
	if l.freqs {
		waves := make([]float32, l.d/2)
		for i := range waves {
			waves[i] = 1 + float32(i)
		}
		l.wavelengths = keep(l, kompute.New[float32])(waves, len(waves))
	}
}

func keep[E kompute.Element, T kompute.Float](l *layer[T], make func(*kompute.Device, []E, ...int) (*kompute.Tensor[E], error)) func([]E, ...int) *kompute.Tensor[E] {
	return func(data []E, shape ...int) *kompute.Tensor[E] {
		t, err := make(l.dev, data, shape...)
		require.NoError(l.t, err)
		l.open = append(l.open, t)
		return t
	}
}

func (l *layer[T]) floats(shape ...int) *kompute.Tensor[T] {
	n := 1
	for _, d := range shape {
		n *= d
	}
	data := make([]T, n)
	for i := range data {
		l.randomFloat(&data[i])
	}
	return keep(l, kompute.New[T])(data, shape...)
}

// randomFloat sets what to points to, which is float32, float16 or bfloat16. It reports whether it is one of these.
func (l *layer[T]) randomFloat(to any) bool {
	v := float32(l.rng.NormFloat64())
	switch p := to.(type) {
	case *float32:
		*p = v
	case *array.F16:
		*p = array.F16FromFloat32(v)
	case *array.BF16:
		*p = array.BF16FromFloat32(v)
	default:
		return false
	}
	return true
}

// bfloat16s returns x in bfloat16.
func (l *layer[T]) bfloat16s(x *kompute.Tensor[T]) *kompute.Tensor[array.BF16] {
	data, err := x.Read(context.Background())
	require.NoError(l.t, err)
	out := make([]array.BF16, len(data))
	for i, v := range data {
		out[i] = array.BF16FromFloat32(float32(wide(v)))
	}
	return keep(l, kompute.New[array.BF16])(out, x.Shape()...)
}

func (l *layer[T]) matrix(n, k int) weights {
	words := make([]uint32, n*k*l.q.Bits/32)
	for i := range words {
		words[i] = l.rng.Uint32()
	}
	groups := k / l.q.GroupSize
	scales, biases := make([]float32, n*groups), make([]float32, n*groups)
	for i := range scales {
		// So that products are about as large as their rows.
		step := l.rng.NormFloat64() / math.Sqrt(float64(k)) / float64(int(1)<<l.q.Bits)
		scales[i], biases[i] = float32(4*step), float32(-2*step*float64(int(1)<<l.q.Bits))
	}
	return weights{keep(l, kompute.New[uint32])(words, n, len(words)/n), keep(l, kompute.New[float32])(scales, n, groups), keep(l, kompute.New[float32])(biases, n, groups)}
}

func (l *layer[T]) product(s *kompute.Stream, x *kompute.Tensor[T], i int) *kompute.Tensor[T] {
	m := l.matrices[i]
	return ops.QuantizedMatMul(s, x, m.w, m.scales, m.biases, l.q, ops.Transposed)
}

func (l *layer[T]) norm(s *kompute.Stream, x *kompute.Tensor[T], i int, on bool) *kompute.Tensor[T] {
	if !on {
		return x
	}
	return ops.RMSNorm(s, x, l.gains[i], 1e-6)
}

func (l *layer[T]) head(s *kompute.Stream, x *kompute.Tensor[T], matrix, heads, gain int, turn bool) *kompute.Tensor[T] {
	y := l.product(s, x, matrix).Reshape(1, 1, heads, l.d)
	y = l.norm(s, y, gain, turn && l.headNorms).Transpose(0, 2, 1, 3)
	if !turn || !l.rope {
		return y
	}
	return ops.RoPE(s, y, ops.RoPEParams{Traditional: l.traditional, Freqs: l.wavelengths}, ops.AtDevice(l.position))
}

func (l *layer[T]) add(s *kompute.Stream, x, y *kompute.Tensor[T]) *kompute.Tensor[T] {
	if l.residualFirst {
		x, y = y, x
	}
	return ops.Add(s, x, y)
}

// step is one token: its result is the input of the next one.
func (l *layer[T]) step(s *kompute.Stream) {
	n := l.norm(s, l.x, 0, l.norms)
	q, k, v := l.head(s, n, 0, l.heads, 2, true), l.head(s, n, 1, l.kvHeads, 3, true), l.head(s, n, 2, l.kvHeads, 3, false)
	ops.SliceUpdate(s, l.keyCache, k, ops.AtDevice(l.start))
	ops.SliceUpdate(s, l.valueCache, v, ops.AtDevice(l.start))
	a := ops.SDPA(s, q, l.keyCache, l.valueCache, ops.SDPAParams[T]{Scale: 0.125, Causal: true, KeyLength: l.keyLength})
	x := l.add(s, l.x, l.product(s, a.Transpose(0, 2, 1, 3).Reshape(1, 1, l.heads*l.d), 3))
	l.mid = x
	if l.seen {
		l.mid = kompute.Result(s, x)
	}
	n = l.norm(s, x, 1, l.norms)
	x = l.add(s, x, l.product(s, ops.SiLUMul(s, l.product(s, n, 4), l.product(s, n, 5)), 6))
	l.token = kompute.Result(s, ops.Greedy(s, l.product(s, l.norm(s, x, 4, l.norms), 7)))
	l.out = kompute.Result(s, ops.Copy(s, x))
	ops.SliceUpdate(s, l.x, x)
	ops.SliceUpdate(s, l.start, ops.Add(s, l.start, l.one))
}

func (l *layer[T]) close() {
	for _, t := range slices.Backward(l.open) {
		require.NoError(l.t, t.Close())
	}
}

// state is everything that a step has written.
func (l *layer[T]) state() (all [][]T, token []uint32) {
	tensors := []*kompute.Tensor[T]{l.x, l.keyCache, l.valueCache, l.out}
	if l.seen {
		tensors = append(tensors, l.mid)
	}
	for _, t := range tensors {
		data, err := t.Read(context.Background())
		require.NoError(l.t, err)
		all = append(all, data)
	}
	token, err := l.token.Read(context.Background())
	require.NoError(l.t, err)
	return all, token
}
