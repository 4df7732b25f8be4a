package ops_test

import (
	"context"
	"math"
	"math/rand/v2"
	"os"
	"regexp"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/kompute-go/kompute-go/fallback/fusion"
	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/opdef"
	"github.com/kompute-go/kompute-go/internal/testmodel"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/ops"
)

// wide returns the value of a float of any type.
func wide[T kompute.Float](v T) float64 {
	switch v := any(v).(type) {
	case array.F16:
		return float64(v.Float32())
	case array.BF16:
		return float64(v.Float32())
	}
	return float64(any(v).(float32))
}

// requireClose bounds the difference of numbers relative to the largest.
func requireClose[T kompute.Float](t require.TestingT, want, got [][]T) {
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

// requireLengthIsRead requires that both loops of attention, over the parts and over
// what they are put together to, are described as readers of the number of keys.
func requireLengthIsRead(t require.TestingT, described *kompute.RegionDescription) {
	for i, op := range described.Ops {
		if op.Pass != "attention" && op.Pass != "attention_projection" {
			continue
		}
		at := slices.IndexFunc(op.Operands, func(o kompute.RegionOperand) bool { return o.Index == opdef.AttentionStep.KeyLength.Index })
		require.GreaterOrEqual(t, at, 0, described)
		loops := 0
		for _, d := range described.Dispatches {
			if d.OpIndex != i || d.Kernel == opdef.Projection.Name {
				continue
			}
			loops++
			reads := slices.ContainsFunc(d.Reads, func(u kompute.RegionUse) bool { return u.Tensor == op.Operands[at].Tensor })
			require.True(t, reads, described)
		}
		require.Equal(t, 2, loops, described)
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

// The passes have the same names as those for native devices, in the same order, and none is missing but NativePasses.
func TestPassesOfBothBackends(t *testing.T) {
	table, err := os.ReadFile("../csrc/fusion/passes.def")
	require.NoError(t, err)
	var native []string
	for _, row := range regexp.MustCompile(`KPX_PASS\((\w+)\)`).FindAllStringSubmatch(string(table), -1) {
		if !slices.Contains(fusion.NativePasses, row[1]) {
			native = append(native, row[1])
		}
	}
	require.Equal(t, native, fusion.Passes())
	require.Equal(t, []string{"attention_projection", "attention_step", "paged_heads", "paged_step", "projection", "qkv_heads"}, opdef.FusedOps)
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
	t.Setenv("KOMPUTE_GO_FUSION_ON_CPU", "1")
	testmodel.EachDevice(t, passesRefuseOtherViews)
}

func passesRefuseOtherViews(t *testing.T, dev *kompute.Device) {
	s, err := dev.NewStream()
	require.NoError(t, err)
	l := &layer[float32]{t: t, dev: dev, rng: rand.New(rand.NewPCG(1, 1)), heads: 2, kvHeads: 2, d: 64, keys: 40}
	l.q = ops.Quantization{GroupSize: 64, Bits: 4}
	l.matrices = []weights{l.matrix(128, 64)}
	x, q, k, v := l.floats(1, 64), l.floats(2, 1, 1, 64), l.floats(2, 1, 1, 64), l.floats(1, 2, 1, 64)
	keys, values := l.floats(1, 2, 40, 64), l.floats(1, 2, 40, 64)
	stretched, transposed, column := l.floats(64), l.floats(64, 2), l.floats(2, 1)
	offsets := keep(l, kompute.New[int32])([]int32{3, 17}, 2)
	heads := l.floats(1, 2, 1, 64)
	heads16, v16 := l.bfloat16s(heads), l.bfloat16s(v)
	keys16, values16 := l.bfloat16s(keys), l.bfloat16s(values)
	cases := map[string]func(s *kompute.Stream) *kompute.Tensor[float32]{
		"a residual that is stretched": func(s *kompute.Stream) *kompute.Tensor[float32] {
			return ops.Add(s, l.product(s, x, 0).Reshape(2, 64), stretched)
		},
		"a transposed residual": func(s *kompute.Stream) *kompute.Tensor[float32] {
			turned := transposed.Transpose(1, 0)
			defer turned.Close()
			return ops.Add(s, l.product(s, x, 0).Reshape(2, 64), turned)
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
		"a cache of another type than the query": func(s *kompute.Stream) *kompute.Tensor[float32] {
			at := []ops.Position{ops.At(0), ops.At(0), ops.At(5), ops.At(0)}
			key := ops.RMSNorm(s, heads16, nil, 1e-5)
			ops.SliceUpdate(s, keys16, ops.RoPE(s, key, ops.RoPEParams{}, ops.At(5)), at...)
			ops.SliceUpdate(s, values16, v16, at...)
			return ops.SDPA(s, ops.RoPE(s, ops.RMSNorm(s, heads, nil, 1e-5), ops.RoPEParams{}, ops.At(5)), keys16, values16, ops.SDPAParams[float32]{Scale: 0.125})
		},
		"values from where the key goes": func(s *kompute.Stream) *kompute.Tensor[float32] {
			at := []ops.Position{ops.At(0), ops.At(0), ops.At(5), ops.At(0)}
			turn := func(x *kompute.Tensor[float32]) *kompute.Tensor[float32] {
				return ops.RoPE(s, x, ops.RoPEParams{}, ops.At(5)).Reshape(1, 2, 1, 64)
			}
			ops.SliceUpdate(s, keys, v, at...) // the same before each run
			there := keys.Slice(2, 5, 6)
			defer there.Close()
			ops.SliceUpdate(s, values, there, at...)
			ops.SliceUpdate(s, keys, turn(k), at...)
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
			described, err := region.Describe()
			require.NoError(t, err)
			for _, op := range described.Ops {
				require.NotContains(t, []string{"attention", "residual"}, op.Pass)
			}
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
}
