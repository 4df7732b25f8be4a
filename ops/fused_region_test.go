package ops_test

import (
	"context"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/kompute-go/kompute-go/fallback/fusion"
	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/opdef"
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
		v := float32(l.rng.NormFloat64())
		switch p := any(&data[i]).(type) {
		case *float32:
			*p = v
		case *array.F16:
			*p = array.F16FromFloat32(v)
		case *array.BF16:
			*p = array.BF16FromFloat32(v)
		}
	}
	return keep(l, kompute.New[T])(data, shape...)
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
	l.token = kompute.Result(s, ops.ArgMax(s, l.product(s, l.norm(s, x, 4, l.norms), 7), -1))
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

// requireClose bounds the difference of numbers relative to the largest.
func requireClose[T kompute.Float](t require.TestingT, want, got [][]T) {
	wide := func(v T) float64 {
		switch v := any(v).(type) {
		case array.F16:
			return float64(v.Float32())
		case array.BF16:
			return float64(v.Float32())
		}
		return float64(any(v).(float32))
	}
	bound := map[array.DType]float64{array.Float32: 1e-5, array.Float16: 1e-2, array.BFloat16: 5e-2}[array.DTypeOf[T]()]
	for i := range want {
		largest, apart := 1.0, 0.0
		for k, v := range want[i] {
			largest = max(largest, math.Abs(wide(v)))
			apart = max(apart, math.Abs(wide(v)-wide(got[i][k])))
		}
		require.Less(t, apart, bound*largest)
	}
}

// requireLengthIsRead requires that the loop that puts the parts of attention together is
// described as a reader of the number of keys, as the loop over the parts is.
func requireLengthIsRead(t require.TestingT, described *kompute.RegionDescription) {
	for i, op := range described.Ops {
		if op.Pass != "attention" && op.Pass != "attention_projection" {
			continue
		}
		at := slices.IndexFunc(op.Operands, func(o kompute.RegionOperand) bool { return o.Index == opdef.AttentionStep.KeyLength.Index })
		require.GreaterOrEqual(t, at, 0, described)
		for _, d := range described.Dispatches {
			reads := slices.ContainsFunc(d.Reads, func(u kompute.RegionUse) bool { return u.Tensor == op.Operands[at].Tensor })
			require.True(t, d.OpIndex != i || reads, described)
		}
	}
}

// A region gives the same bits as its ops one by one, whatever the passes replaced;
// attention over many keys differs by rounding.
func fusedEqualsEager[T kompute.Float](r *rapid.T, dev *kompute.Device) {
	seed := rapid.Uint64().Draw(r, "seed")
	eager := newLayer[T](r, dev, seed)
	region := *eager
	region.rng = rand.New(rand.NewPCG(seed, 1))
	eager.fill()
	region.fill()
	defer eager.close()
	defer region.close()
	s, err := dev.NewStream()
	require.NoError(r, err)
	defer func() { require.NoError(r, s.Close()) }()

	captured, err := s.Capture(func(s *kompute.Stream) { region.step(s) })
	require.NoError(r, err)
	described, err := captured.Describe()
	require.NoError(r, err)
	passes := make(map[string]bool)
	for _, op := range described.Ops {
		passes[op.Pass] = true
	}
	for _, name := range []string{"gate_up", "residual", "projection_arg_max"} {
		require.True(r, passes[name] || passes["norm_projection"], "%s did not find its group:\n%v", name, described)
	}
	require.True(r, passes["attention"] || passes["attention_projection"], described)
	if region.keyLength != nil {
		requireLengthIsRead(r, described)
	}
	times := rapid.IntRange(1, 4).Draw(r, "tokens")
	parts := region.keys > 128 // of keys: then sums have another order
	if parts {
		times = 1
	}
	require.NoError(r, captured.ReplayN(context.Background(), times))
	got, gotToken := region.state()
	for range times {
		sc := s.Scope()
		eager.step(s)
		want, wantToken := eager.state()
		if times--; times == 0 && parts {
			requireClose(r, want, got)
		} else if times == 0 {
			require.Equal(r, want, got)
			require.Equal(r, wantToken, gotToken)
		}
		sc.Close()
	}
	for _, t := range []interface{ Close() error }{region.out, region.token} {
		require.NoError(r, t.Close())
	}
	if region.seen {
		require.NoError(r, region.mid.Close())
	}
	require.NoError(r, captured.Close())
}

func TestFusedRegionsEqualEagerOps(t *testing.T) {
	dev, err := kompute.Open("cpu")
	require.NoError(t, err)
	t.Run("float32", func(t *testing.T) { rapid.Check(t, func(r *rapid.T) { fusedEqualsEager[float32](r, dev) }) })
	t.Run("float16", func(t *testing.T) { rapid.Check(t, func(r *rapid.T) { fusedEqualsEager[array.F16](r, dev) }) })
	t.Run("bfloat16", func(t *testing.T) { rapid.Check(t, func(r *rapid.T) { fusedEqualsEager[array.BF16](r, dev) }) })
	require.Zero(t, dev.Stats().LiveTensors)
	require.NoError(t, dev.Close())
}

// The passes have the same names as those for native devices, and none is missing.
func TestPassesOfBothBackends(t *testing.T) {
	require.Equal(t, []string{"dead_ops", "attention", "paged_heads", "paged_step", "gate_up", "qkv", "residual", "norm_projection", "attention_projection", "projection_arg_max"}, fusion.Passes())
	require.Equal(t, []string{"attention_projection", "attention_step", "paged_heads", "paged_step", "projection"}, opdef.FusedOps)
}

// A replayed token of fused ops allocates nothing; the single ops beside them may.
func TestFusedReplaysAllocateNothing(t *testing.T) {
	dev, err := kompute.Open("cpu")
	require.NoError(t, err)
	s, err := dev.NewStream()
	require.NoError(t, err)
	l := &layer[float32]{t: t, dev: dev, rng: rand.New(rand.NewPCG(1, 1)), hidden: 128, inner: 256, vocab: 300, heads: 4, kvHeads: 2, d: 64, keys: 300}
	l.q, l.norms, l.headNorms, l.rope = ops.Quantization{GroupSize: 64, Bits: 4}, true, true, true
	l.fill()
	region, err := s.Capture(func(s *kompute.Stream) {
		n := l.norm(s, l.x, 0, true)
		q, k, v := l.head(s, n, 0, l.heads, 2, true), l.head(s, n, 1, l.kvHeads, 3, true), l.head(s, n, 2, l.kvHeads, 3, false)
		ops.SliceUpdate(s, l.keyCache, k, ops.AtDevice(l.start))
		ops.SliceUpdate(s, l.valueCache, v, ops.AtDevice(l.start))
		a := ops.SDPA(s, q, l.keyCache, l.valueCache, ops.SDPAParams[float32]{Scale: 0.125, KeyLength: l.keyLength})
		x := l.add(s, l.x, l.product(s, a.Transpose(0, 2, 1, 3).Reshape(1, 1, l.heads*l.d), 3))
		l.token = kompute.Result(s, ops.ArgMax(s, l.product(s, l.norm(s, x, 4, true), 7), -1))
	})
	require.NoError(t, err)
	require.EqualValues(t, 3, region.Stats().FusedOps, region)
	const times = 500
	bound := 0.5
	if raceDetector {
		bound = 50 // its sync.Pool forgets a part on purpose
	}
	allocations := func() uint64 {
		var st runtime.MemStats
		require.NoError(t, region.ReplayN(context.Background(), times))
		require.NoError(t, s.Synchronize(context.Background()))
		runtime.ReadMemStats(&st)
		return st.Mallocs
	}
	allocations()
	before := allocations()
	require.Less(t, float64(allocations()-before)/times, bound)
	require.NoError(t, region.Close())
	require.NoError(t, l.token.Close())
	l.close()
	require.NoError(t, dev.Close())
}

// Groups that only resemble what passes fuse are not fused: the fused loops walk
// rows, and have one position for all heads.
func TestPassesRefuseOtherViews(t *testing.T) {
	dev, err := kompute.Open("cpu")
	require.NoError(t, err)
	s, err := dev.NewStream()
	require.NoError(t, err)
	l := &layer[float32]{t: t, dev: dev, rng: rand.New(rand.NewPCG(1, 1)), heads: 2, kvHeads: 2, d: 64, keys: 40}
	l.q = ops.Quantization{GroupSize: 64, Bits: 4}
	l.matrices = []weights{l.matrix(128, 64)}
	x, q, k, v := l.floats(1, 64), l.floats(2, 1, 1, 64), l.floats(2, 1, 1, 64), l.floats(1, 2, 1, 64)
	keys, values := l.floats(1, 2, 40, 64), l.floats(1, 2, 40, 64)
	stretched, transposed, column := l.floats(64), l.floats(64, 2), l.floats(2, 1)
	offsets := keep(l, kompute.New[int32])([]int32{3, 17}, 2)
	cases := map[string]func(s *kompute.Stream) *kompute.Tensor[float32]{
		"a residual that is stretched": func(s *kompute.Stream) *kompute.Tensor[float32] {
			return ops.Add(s, l.product(s, x, 0).Reshape(2, 64), stretched)
		},
		"a transposed residual": func(s *kompute.Stream) *kompute.Tensor[float32] {
			return ops.Add(s, l.product(s, x, 0).Reshape(2, 64), transposed.Transpose(1, 0))
		},
		"a residual of columns": func(s *kompute.Stream) *kompute.Tensor[float32] {
			return ops.Add(s, column, l.product(s, x, 0).Reshape(2, 64))
		},
		"a position for each head": func(s *kompute.Stream) *kompute.Tensor[float32] {
			turn := func(x *kompute.Tensor[float32]) *kompute.Tensor[float32] {
				return ops.RoPE(s, x, ops.RoPEParams{}, ops.AtDevice(offsets)).Reshape(1, 2, 1, 64)
			}
			ops.SliceUpdate(s, keys, turn(k), ops.At(0), ops.At(0), ops.At(5), ops.At(0))
			ops.SliceUpdate(s, values, v, ops.At(0), ops.At(0), ops.At(5), ops.At(0))
			return ops.SDPA(s, turn(q), keys, values, ops.SDPAParams[float32]{Scale: 0.125})
		},
	}
	for name, call := range cases {
		t.Run(name, func(t *testing.T) {
			sc := s.Scope()
			defer sc.Close()
			want, err := call(s).Read(context.Background())
			require.NoError(t, err)
			var out *kompute.Tensor[float32]
			region, err := s.Capture(func(s *kompute.Stream) { out = kompute.Result(s, call(s)) })
			require.NoError(t, err)
			require.NoError(t, region.Replay(context.Background()))
			got, err := out.Read(context.Background())
			require.NoError(t, err)
			require.Equal(t, want, got)
			require.NoError(t, region.Close())
			require.NoError(t, out.Close())
		})
	}
	require.NoError(t, s.Close())
	l.close()
	require.NoError(t, dev.Close())
}
