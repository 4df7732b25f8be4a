package model

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/testmodel"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/checkpoint"
	"github.com/kompute-go/kompute-go/llm/models"
	"github.com/kompute-go/kompute-go/ops"
)

// fixture is a loaded model with a stream and a cache.
type fixture struct {
	t      *testing.T
	device *kompute.Device
	model  Model
	stream *kompute.Stream
	cache  Cache
}

func newFixture(t *testing.T, d *kompute.Device, c *checkpoint.Checkpoint, o Options, capacity int) *fixture {
	t.Helper()
	m, err := Load(d, c, o)
	require.NoError(t, err)
	s, err := d.NewStream()
	require.NoError(t, err)
	cache, err := m.NewCache(capacity)
	require.NoError(t, err)
	return &fixture{t: t, device: d, model: m, stream: s, cache: cache}
}

func (f *fixture) close() {
	require.NoError(f.t, f.cache.Close())
	require.NoError(f.t, f.stream.Close())
	require.NoError(f.t, f.model.Close())
}

// logits runs one pass and returns rows x V numbers.
func (f *fixture) logits(rows Rows, ids ...uint32) []float32 {
	f.t.Helper()
	sc := f.stream.Scope()
	defer sc.Close()
	tokens, err := kompute.New(f.device, ids, 1, len(ids))
	require.NoError(f.t, err)
	defer tokens.Close()
	out, err := f.model.Forward(f.stream, Pass{Tokens: tokens, Cache: f.cache, Rows: rows}).Read(context.Background())
	require.NoError(f.t, err)
	return out
}

func openDemo(t *testing.T) *checkpoint.Checkpoint {
	t.Helper()
	c, err := checkpoint.OpenFS(models.Mote(), models.MoteName)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

func openSpec(t *testing.T, s testmodel.Spec) (*checkpoint.Checkpoint, testmodel.Weights) {
	t.Helper()
	dir := t.TempDir()
	w := s.Write(t, dir)
	c, err := checkpoint.Open(dir)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c, w
}

func unsigned(ids []int) []uint32 {
	out := make([]uint32, len(ids))
	for i, id := range ids {
		out[i] = uint32(id)
	}
	return out
}

// requireClose bounds the largest difference by tolerance times the largest
// magnitude that is expected.
func requireClose(t *testing.T, want, got []float32, tolerance float64, what string) {
	t.Helper()
	require.Len(t, got, len(want), what)
	largest, worst, at := 0.0, 0.0, 0
	for i := range want {
		largest = max(largest, math.Abs(float64(want[i])))
		if d := math.Abs(float64(want[i]) - float64(got[i])); !(d <= worst) {
			worst, at = d, i
		}
	}
	require.LessOrEqual(t, worst, tolerance*largest, "%s: element %d is %v, want %v", what, at, got[at], want[at])
}

func TestGoldenHiddenStates(t *testing.T) {
	cases, file := testmodel.Goldens(t)
	c := openDemo(t)
	testmodel.EachDevice(t, func(t *testing.T, d *kompute.Device) {
		f := newFixture(t, d, c, Options{}, 64)
		defer f.close()
		net := f.model.(*loaded[float32]).net
		cache := f.cache.(*KVCache[float32])
		sc := f.stream.Scope()
		defer sc.Close()
		tokens, err := kompute.New(d, unsigned(cases[0].PromptIDs), 1, len(cases[0].PromptIDs))
		require.NoError(t, err)
		defer tokens.Close()
		check := func(i int, x *kompute.Tensor[float32]) {
			got, err := x.Read(context.Background())
			require.NoError(t, err)
			name := fmt.Sprintf("case0.hidden%d", i)
			requireClose(t, testmodel.Golden(t, file, name), got, 1e-3, name)
		}
		x := net.Embedding.Forward(f.stream, tokens)
		check(0, x)
		for i := range net.Blocks {
			x = net.Blocks[i].Forward(f.stream, x, &cache.layers[i], &place{})
			if i+1 < len(net.Blocks) {
				check(i+1, x)
			}
		}
		check(len(net.Blocks), net.Norm.Forward(f.stream, x))
	})
}

func TestGoldenLogits(t *testing.T) {
	cases, file := testmodel.Goldens(t)
	c := openDemo(t)
	testmodel.EachDevice(t, func(t *testing.T, d *kompute.Device) {
		f := newFixture(t, d, c, Options{}, 128)
		defer f.close()
		for i, gold := range cases {
			require.NoError(t, f.cache.Truncate(0))
			name := fmt.Sprintf("case%d.prompt_logits", i)
			requireClose(t, testmodel.Golden(t, file, name), f.logits(AllRows, unsigned(gold.PromptIDs)...), 1e-3, name)
			name = fmt.Sprintf("case%d.step_logits", i)
			if _, ok := file.Tensor(name); !ok {
				continue
			}
			want, vocab := testmodel.Golden(t, file, name), c.Config.VocabSize
			// The first row is the prompt's last one; each further row follows a token.
			for step, id := range gold.GeneratedIDs[:len(gold.GeneratedIDs)-1] {
				row := want[(step+1)*vocab:][:vocab]
				requireClose(t, row, f.logits(LastRow, uint32(id)), 1e-3, fmt.Sprintf("%s, step %d", name, step+1))
			}
		}
	})
}

func TestPromptInPieces(t *testing.T) {
	cases, _ := testmodel.Goldens(t)
	ids := unsigned(append(append([]int{}, cases[2].PromptIDs...), cases[2].GeneratedIDs...))
	c := openDemo(t)
	testmodel.EachDevice(t, func(t *testing.T, d *kompute.Device) {
		f := newFixture(t, d, c, Options{}, len(ids))
		defer f.close()
		whole := f.logits(AllRows, ids...)
		for _, size := range []int{1, 2, 3, 5, 16, 17, 33} {
			require.NoError(t, f.cache.Truncate(0))
			var got []float32
			for at := 0; at < len(ids); at += size {
				got = append(got, f.logits(AllRows, ids[at:min(at+size, len(ids))]...)...)
			}
			requireClose(t, whole, got, 1e-4, fmt.Sprintf("pieces of %d", size))
		}
	})
}

// Every form of checkpoint against the formulas in float64.
func TestSyntheticCheckpoints(t *testing.T) {
	with := func(change func(*testmodel.Spec)) testmodel.Spec {
		s := testmodel.Small()
		change(&s)
		return s
	}
	affine := func(group, bits int) checkpoint.Packing { return checkpoint.Packing{GroupSize: group, Bits: bits} }
	specs := map[string]testmodel.Spec{
		"tied":    testmodel.Small(),
		"untied":  with(func(s *testmodel.Spec) { s.Tied = false }),
		"sharded": with(func(s *testmodel.Spec) { s.Shards = 3 }),
		"overrides": with(func(s *testmodel.Spec) {
			s.Tied = false
			s.Packing = affine(64, 4)
			s.Overrides = map[string]*testmodel.Module{
				"model.embed_tokens":              {GroupSize: 32, Bits: 8},
				"lm_head":                         nil,
				"model.layers.0.self_attn.q_proj": nil,
				"model.layers.1.mlp.down_proj":    {GroupSize: 32, Bits: 6},
				"model.layers.1.mlp.gate_proj":    {GroupSize: 32, Bits: 3},
			}
		}),
		"dense float32":      with(func(s *testmodel.Spec) { s.Packing = affine(0, 0); s.DType = array.Float32 }),
		"dense bfloat16":     with(func(s *testmodel.Spec) { s.Packing = affine(0, 0) }),
		"dense untied":       with(func(s *testmodel.Spec) { s.Packing = affine(0, 0); s.Tied = false; s.DType = array.Float16 }),
		"float16 scales":     with(func(s *testmodel.Spec) { s.DType = array.Float16; s.Packing = affine(32, 5) }),
		"float32 scales":     with(func(s *testmodel.Spec) { s.DType = array.Float32; s.Packing = affine(64, 2) }),
		"one group of heads": with(func(s *testmodel.Spec) { s.Heads, s.KVHeads, s.HeadDim = 6, 1, 32 }),
		"no groups":          with(func(s *testmodel.Spec) { s.Heads, s.KVHeads, s.HeadDim = 4, 4, 16 }),
		"three per group":    with(func(s *testmodel.Spec) { s.Heads, s.KVHeads, s.HeadDim = 6, 2, 80; s.Packing = affine(32, 8) }),
		"mxfp4":              with(func(s *testmodel.Spec) { s.Packing = checkpoint.Packing{GroupSize: 32, Bits: 4, Mode: "mxfp4"} }),
		"mxfp8": with(func(s *testmodel.Spec) {
			s.Packing, s.Tied = checkpoint.Packing{GroupSize: 32, Bits: 8, Mode: "mxfp8"}, false
		}),
		"nvfp4 and others": with(func(s *testmodel.Spec) {
			s.Packing = checkpoint.Packing{GroupSize: 16, Bits: 4, Mode: "nvfp4"}
			s.Overrides = map[string]*testmodel.Module{
				"model.embed_tokens":              {GroupSize: 64, Bits: 6},
				"model.layers.0.self_attn.q_proj": nil,
				"model.layers.0.self_attn.v_proj": {GroupSize: 32, Bits: 8, Mode: "mxfp8"},
			}
		}),
		"biases": with(func(s *testmodel.Spec) { s.AttentionBias = true }),
	}
	ids := []uint32{5, 17, 94, 0, 3, 3, 60, 21, 95}
	for name, spec := range specs {
		t.Run(name, func(t *testing.T) {
			c, weights := openSpec(t, spec)
			var want []float32
			for _, row := range spec.Logits(weights, ids) {
				for _, v := range row {
					want = append(want, float32(v))
				}
			}
			testmodel.EachDevice(t, func(t *testing.T, d *kompute.Device) {
				f := newFixture(t, d, c, Options{DType: array.Float32}, len(ids))
				defer f.close()
				got := f.logits(AllRows, ids[:4]...)
				for _, id := range ids[4:] {
					got = append(got, f.logits(LastRow, id)...)
				}
				requireClose(t, want, got, 1e-4, "logits")
			})
		})
	}
}

// With 16-bit activations the logits are those of float32 but for rounding.
func TestNarrowActivations(t *testing.T) {
	cases, file := testmodel.Goldens(t)
	c := openDemo(t)
	testmodel.EachDevice(t, func(t *testing.T, d *kompute.Device) {
		for dtype, tolerance := range map[array.DType]float64{array.BFloat16: 0.06, array.Float16: 0.01} {
			f := newFixture(t, d, c, Options{DType: dtype}, 64)
			require.Equal(t, dtype, f.model.DType())
			got := f.logits(AllRows, unsigned(cases[0].PromptIDs)...)
			requireClose(t, testmodel.Golden(t, file, "case0.prompt_logits"), got, tolerance, dtype.String())
			f.close()
		}
	})
}

func TestDTypeAuto(t *testing.T) {
	d, err := kompute.Open("cpu")
	require.NoError(t, err)
	defer d.Close()
	dense := testmodel.Small()
	dense.Packing = checkpoint.Packing{}
	for want, spec := range map[array.DType]testmodel.Spec{array.Float32: testmodel.Small(), array.BFloat16: dense} {
		c, _ := openSpec(t, spec)
		m, err := Load(d, c, Options{})
		require.NoError(t, err)
		require.Equal(t, want, m.DType())
		require.Positive(t, m.Bytes())
		require.NoError(t, m.Close())
	}
}

// The same pass serves every position when the device knows the position.
func TestPositionOnDevice(t *testing.T) {
	c, _ := openSpec(t, testmodel.Small())
	ids := []uint32{5, 17, 94, 0, 3}
	testmodel.EachDevice(t, func(t *testing.T, d *kompute.Device) {
		f := newFixture(t, d, c, Options{}, 64)
		defer f.close()
		var want [][]float32
		for _, id := range ids {
			want = append(want, f.logits(LastRow, id))
		}
		state, err := kompute.New(d, NewState(0, 1), StateSize)
		require.NoError(t, err)
		defer state.Close()
		one, err := kompute.New(d, []int32{0, 0, 1, 0, 1}, StateSize)
		require.NoError(t, err)
		defer one.Close()
		for i, id := range ids {
			sc := f.stream.Scope()
			tokens, err := kompute.New(d, []uint32{id}, 1, 1)
			require.NoError(t, err)
			logits := f.model.Forward(f.stream, Pass{Tokens: tokens, Cache: f.cache, State: state})
			ops.SliceUpdate(f.stream, state, ops.Add(f.stream, state, one))
			got, err := logits.Read(context.Background())
			require.NoError(t, err)
			requireClose(t, want[i], got, 1e-5, fmt.Sprintf("step %d", i))
			sc.Close()
			require.NoError(t, tokens.Close())
		}
		moved, err := state.Read(context.Background())
		require.NoError(t, err)
		require.Equal(t, NewState(len(ids), 1), moved)
	})
}

func TestCache(t *testing.T) {
	c, _ := openSpec(t, testmodel.Small())
	testmodel.EachDevice(t, func(t *testing.T, d *kompute.Device) {
		f := newFixture(t, d, c, Options{}, 1)
		defer f.close()
		require.Equal(t, 256, f.cache.Capacity())
		whole := f.logits(AllRows, 1, 2, 3, 4)
		require.Equal(t, 4, f.cache.Len())
		require.NoError(t, f.cache.Truncate(2))
		require.NoError(t, f.cache.Reserve(f.stream, 300))
		require.Equal(t, 512, f.cache.Capacity())
		got := f.logits(AllRows, 3, 4)
		requireClose(t, whole[len(whole)/2:], got, 1e-5, "after truncating and growing")

		require.ErrorIs(t, f.cache.Truncate(5), ErrCache)
		require.ErrorIs(t, f.cache.Truncate(-1), ErrCache)
		require.ErrorIs(t, f.cache.Reserve(f.stream, 513), ErrCache)
		for _, n := range []int{0, -1, 513} {
			_, err := f.model.NewCache(n)
			require.ErrorIs(t, err, ErrCache)
		}
	})
}

// A pass that cannot be made poisons the stream with a typed error.
func TestBadPasses(t *testing.T) {
	c, _ := openSpec(t, testmodel.Small())
	d, err := kompute.Open("cpu")
	require.NoError(t, err)
	defer d.Close()
	m, err := Load(d, c, Options{})
	require.NoError(t, err)
	defer m.Close()
	half, err := Load(d, c, Options{DType: array.Float16})
	require.NoError(t, err)
	defer half.Close()
	tokens, err := kompute.New(d, make([]uint32, 300), 1, 300)
	require.NoError(t, err)
	defer tokens.Close()
	closed, err := m.NewCache(1)
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	require.NoError(t, closed.Close())
	small, err := m.NewCache(1)
	require.NoError(t, err)
	defer small.Close()
	other, err := half.NewCache(1)
	require.NoError(t, err)
	defer other.Close()
	for name, c := range map[string]struct {
		pass Pass
		want error
	}{
		"nil cache":      {Pass{Tokens: tokens}, ErrCache},
		"closed cache":   {Pass{Tokens: tokens, Cache: closed}, ErrCache},
		"full cache":     {Pass{Tokens: tokens, Cache: small}, ErrCache},
		"other model":    {Pass{Tokens: tokens, Cache: other}, ErrCache},
		"no tokens":      {Pass{Cache: small}, kompute.ErrShape},
		"one axis":       {Pass{Tokens: tokens.Reshape(300), Cache: small}, kompute.ErrShape},
		"batch of three": {Pass{Tokens: tokens.Reshape(3, 100), Cache: small}, kompute.ErrShape},
		"empty":          {Pass{Tokens: tokens.Slice(1, 0, 0), Cache: small}, kompute.ErrShape},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := d.NewStream()
			require.NoError(t, err)
			defer s.Close()
			require.ErrorIs(t, m.Forward(s, c.pass).Err(), c.want)
			require.ErrorIs(t, s.Err(), c.want)
			require.Zero(t, small.Len())
		})
	}
}

func TestLoadErrors(t *testing.T) {
	d, err := kompute.Open("cpu")
	require.NoError(t, err)
	defer d.Close()

	c, _ := openSpec(t, testmodel.Small())
	_, err = Load(d, c, Options{DType: array.Int32})
	require.ErrorIs(t, err, kompute.ErrDType)

	c.Config.AttentionBias = true
	_, err = Load(d, c, Options{})
	require.ErrorIs(t, err, checkpoint.ErrMissing)
	require.ErrorContains(t, err, "model.layers.0.self_attn.q_proj.bias")
	c.Config.AttentionBias = false

	c.Config.IntermediateSize *= 2
	_, err = Load(d, c, Options{})
	require.ErrorIs(t, err, checkpoint.ErrMismatch)
	c.Config.IntermediateSize /= 2

	c.Config.Layers++
	_, err = Load(d, c, Options{})
	require.ErrorIs(t, err, checkpoint.ErrMissing)
	require.ErrorContains(t, err, "model.layers.2.")
	c.Config.Layers--

	c.Config.TieWordEmbeddings = false
	_, err = Load(d, c, Options{})
	require.ErrorIs(t, err, checkpoint.ErrMissing)
	require.ErrorContains(t, err, "lm_head")
	require.Zero(t, d.Stats().LiveTensors)
}

// A model that does not fit is refused before anything is loaded.
func TestFit(t *testing.T) {
	c, _ := openSpec(t, testmodel.Small())
	c.Config.MaxPositions = 1 << 40
	testmodel.EachDevice(t, func(t *testing.T, d *kompute.Device) {
		_, err := Load(d, c, Options{Capacity: c.Config.MaxPositions})
		var fit *FitError
		require.ErrorAs(t, err, &fit)
		require.ErrorIs(t, err, ErrFit)
		require.Greater(t, fit.Needed, fit.Available)
		require.ErrorContains(t, err, fmt.Sprint(fit.Needed))
		require.ErrorContains(t, err, fmt.Sprint(fit.Available))
		require.Zero(t, d.Stats().LiveTensors)
		m, err := Load(d, c, Options{Capacity: 256})
		require.NoError(t, err)
		require.NoError(t, m.Close())
	})
}
