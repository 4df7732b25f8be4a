package qwen3_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/testmodel"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/checkpoint"
	"github.com/kompute-go/kompute-go/llm/model"
	"github.com/kompute-go/kompute-go/llm/nn"
	"github.com/kompute-go/kompute-go/llm/qwen3"
)

func TestGoldenHiddenStates(t *testing.T) {
	cases, file := testmodel.Goldens(t)
	c := testmodel.OpenMote(t)
	testmodel.EachDevice(t, func(t *testing.T, d *kompute.Device) {
		f := testmodel.NewFixture(t, d, c, model.Options{}, 64)
		defer f.Close()
		net := model.NetworkOf[float32](f.Model).(*nn.Decoder[float32])
		at := nn.At(0)
		layers := nn.PlaceCache(f.State.(*nn.KVCache[float32]), &at)
		sc := f.Stream.Scope()
		defer sc.Close()
		tokens, err := kompute.New(d, testmodel.Unsigned(cases[0].PromptIDs), 1, len(cases[0].PromptIDs))
		require.NoError(t, err)
		defer tokens.Close()
		check := func(i int, x *kompute.Tensor[float32]) {
			got, err := x.Read(context.Background())
			require.NoError(t, err)
			name := fmt.Sprintf("case0.hidden%d", i)
			testmodel.RequireClose(t, testmodel.Golden(t, file, name), got, 1e-3, name)
		}
		x := net.Embedding.Forward(f.Stream, tokens)
		check(0, x)
		for i := range net.Blocks {
			x = net.Blocks[i].Forward(f.Stream, x, layers.Layer(i))
			if i+1 < len(net.Blocks) {
				check(i+1, x)
			}
		}
		check(len(net.Blocks), net.Norm.Forward(f.Stream, x))
	})
}

func TestGoldenLogits(t *testing.T) {
	cases, file := testmodel.Goldens(t)
	c := testmodel.OpenMote(t)
	testmodel.EachDevice(t, func(t *testing.T, d *kompute.Device) {
		f := testmodel.NewFixture(t, d, c, model.Options{}, 128)
		defer f.Close()
		for i, gold := range cases {
			logits := testmodel.Golden(t, file, fmt.Sprintf("case%d.prompt_logits", i))
			require.Len(t, logits, len(gold.PromptIDs)*f.Model.Limits().Vocabulary, "of all tokens")
			f.RequireGolden(file, i, gold.PromptIDs, gold.GeneratedIDs)
		}
	})
}

func TestPromptInPieces(t *testing.T) {
	cases, _ := testmodel.Goldens(t)
	ids := testmodel.Unsigned(append(append([]int{}, cases[2].PromptIDs...), cases[2].GeneratedIDs...))
	c := testmodel.OpenMote(t)
	testmodel.EachDevice(t, func(t *testing.T, d *kompute.Device) {
		f := testmodel.NewFixture(t, d, c, model.Options{}, len(ids))
		defer f.Close()
		whole := f.Logits(model.AllRows, ids...)
		for _, size := range []int{1, 3, 16, 17} {
			require.NoError(t, f.State.Truncate(0))
			var got []float32
			for at := 0; at < len(ids); at += size {
				got = append(got, f.Logits(model.AllRows, ids[at:min(at+size, len(ids))]...)...)
			}
			testmodel.RequireClose(t, whole, got, 1e-4, fmt.Sprintf("pieces of %d", size))
		}
	})
}

// Compares every form of checkpoint with the formulas in float64.
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
		"one bit":            with(func(s *testmodel.Spec) { s.Tied = false; s.Packing = affine(64, 1) }),
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
		"yarn": with(func(s *testmodel.Spec) {
			s.Scaling = model.YarnScaling{Factor: 4, BetaFast: 32, BetaSlow: 1, AttentionFactor: 0.1*math.Log(4) + 1, OldContext: 256}
			s.RopeScaling = object{"rope_type": "yarn", "factor": 4, "original_max_position_embeddings": 256}
		}),
		"bare names": with(func(s *testmodel.Spec) {
			s.Bare, s.Tied = true, false
			s.Overrides = map[string]*testmodel.Module{"model.layers.1.mlp.down_proj": {GroupSize: 32, Bits: 6}, "model.embed_tokens": nil}
		}),
		"biases": with(func(s *testmodel.Spec) { s.AttentionBias = true }),
	}
	ids := []uint32{5, 17, 94, 0, 3, 3, 60, 21, 95}
	for name, spec := range specs {
		t.Run(name, func(t *testing.T) { spec.RequireReference(t, ids) })
	}
	// So many rows are multiplied by the matrices that projections have in common.
	long := slices.Repeat(ids, 8)
	for _, name := range []string{"tied", "dense bfloat16", "nvfp4 and others"} {
		t.Run(name+", long", func(t *testing.T) { specs[name].RequireReference(t, long) })
	}
}

type object = map[string]any

// parse reads the demo model's config.json with some fields replaced; a nil
// value removes the field, null is json.RawMessage("null").
func parse(t *testing.T, changes object) (qwen3.Config, error) {
	t.Helper()
	data, err := testmodel.OpenMote(t).ReadFile(checkpoint.ConfigFile)
	require.NoError(t, err)
	fields := object{}
	require.NoError(t, json.Unmarshal(data, &fields))
	maps.Copy(fields, changes)
	maps.DeleteFunc(fields, func(_ string, v any) bool { return v == nil })
	data, err = json.Marshal(fields)
	require.NoError(t, err)
	raw, err := checkpoint.ParseConfig("dir/config.json", data)
	require.NoError(t, err)
	return qwen3.ReadConfig(raw)
}

func TestConfig(t *testing.T) {
	c, err := parse(t, nil)
	require.NoError(t, err)
	require.Equal(t, qwen3.Config{Transformer: model.Transformer{
		HiddenSize: 256, IntermediateSize: 768, Layers: 6, Heads: 4, KVHeads: 2, HeadDim: 128, VocabSize: 2048,
		MaxPositions: 4096, RMSNormEps: 1e-6, RopeTheta: 1e6, TieWordEmbeddings: true,
	}}, c)
	require.Equal(t, model.Limits{Vocabulary: 2048, Context: 4096, Width: 256}, c.Limits())
	require.Equal(t, nn.CacheShape{Layers: 6, KVHeads: 2, HeadDim: 128, MaxTokens: 4096}, c.Cache())
}

func TestConfigAccepts(t *testing.T) {
	null := json.RawMessage("null")
	accept := func(changes object) qwen3.Config {
		c, err := parse(t, changes)
		require.NoError(t, err, "%v", changes)
		return c
	}
	require.Equal(t, 64, accept(object{"head_dim": nil}).HeadDim)
	require.Equal(t, 64, accept(object{"head_dim": null}).HeadDim)
	require.Equal(t, 4, accept(object{"num_key_value_heads": nil}).KVHeads)
	require.Equal(t, 1e4, accept(object{"rope_theta": nil}).RopeTheta)
	require.Equal(t, 5e5, accept(object{"rope_theta": nil, "rope_parameters": object{"rope_type": "default", "rope_theta": 5e5}}).RopeTheta)
	require.Equal(t, 5e5, accept(object{"rope_theta": nil, "rope_scaling": object{}, "rope_parameters": object{"rope_theta": 5e5}}).RopeTheta)
	require.False(t, accept(object{"tie_word_embeddings": nil}).TieWordEmbeddings)
	require.True(t, accept(object{"tie_word_embeddings": nil}).TieWithoutHead)
	require.False(t, accept(object{"tie_word_embeddings": false}).TieWithoutHead)
	biased := accept(object{"attention_bias": true})
	require.True(t, biased.QKVBias && biased.OutBias)
	require.NotZero(t, accept(object{"layer_types": []string{"full_attention"}}))
}

func TestConfigRejects(t *testing.T) {
	for name, c := range map[string]struct {
		changes object
		err     error
		names   []string
	}{
		"no hidden_size": {object{"hidden_size": nil}, checkpoint.ErrConfig, []string{"hidden_size", "missing"}},
		"zero layers":    {object{"num_hidden_layers": 0}, checkpoint.ErrConfig, []string{"num_hidden_layers"}},
		"many layers":    {object{"num_hidden_layers": 1 << 20}, checkpoint.ErrConfig, []string{"num_hidden_layers"}},
		"negative vocab": {object{"vocab_size": -1}, checkpoint.ErrConfig, []string{"vocab_size"}},
		"huge vocab":     {object{"vocab_size": int64(1) << 40}, checkpoint.ErrConfig, []string{"vocab_size"}},
		"fraction":       {object{"hidden_size": 256.5}, checkpoint.ErrConfig, []string{"hidden_size"}},
		"text":           {object{"intermediate_size": "768"}, checkpoint.ErrConfig, []string{"intermediate_size"}},
		"no context":     {object{"max_position_embeddings": nil}, checkpoint.ErrConfig, []string{"max_position_embeddings"}},
		"kv heads":       {object{"num_key_value_heads": 3}, checkpoint.ErrConfig, []string{"num_key_value_heads", "4"}},
		"odd head_dim":   {object{"head_dim": 127}, checkpoint.ErrConfig, []string{"head_dim"}},
		"huge heads":     {object{"head_dim": 1 << 30}, checkpoint.ErrConfig, []string{"head_dim"}},
		"no head_dim":    {object{"head_dim": nil, "num_attention_heads": 3, "num_key_value_heads": 3}, checkpoint.ErrConfig, []string{"head_dim"}},
		"theta 0":        {object{"rope_theta": 0}, checkpoint.ErrConfig, []string{"rope_theta"}},
		"theta text":     {object{"rope_theta": "1e6"}, checkpoint.ErrConfig, []string{"rope_theta"}},
		"theta infinite": {object{"rope_theta": json.RawMessage("1e999")}, checkpoint.ErrConfig, []string{"rope_theta"}},
		"eps negative":   {object{"rms_norm_eps": -1}, checkpoint.ErrConfig, []string{"rms_norm_eps"}},
		"tie text":       {object{"tie_word_embeddings": "yes"}, checkpoint.ErrConfig, []string{"tie_word_embeddings"}},
		"dynamic":        {object{"rope_scaling": object{"rope_type": "dynamic", "factor": 4}}, checkpoint.ErrUnsupported, []string{"RoPE scaling", "dynamic"}},
		"neighbours":     {object{"rope_traditional": true}, checkpoint.ErrUnsupported, []string{"rope_traditional"}},
		"no name":        {object{"rope_scaling": object{"factor": 4}}, checkpoint.ErrUnsupported, []string{"RoPE scaling"}},
		"old dynamic":    {object{"rope_scaling": object{"type": "dynamic"}}, checkpoint.ErrUnsupported, []string{"dynamic"}},
		"scaling number": {object{"rope_scaling": 4}, checkpoint.ErrConfig, []string{"rope_scaling"}},
		"inner theta":    {object{"rope_parameters": object{"rope_type": "default", "rope_theta": -1}}, checkpoint.ErrConfig, []string{"rope_parameters.rope_theta"}},
		"activation":     {object{"hidden_act": "gelu"}, checkpoint.ErrUnsupported, []string{"hidden_act", "gelu"}},
		"window":         {object{"use_sliding_window": true}, checkpoint.ErrUnsupported, []string{"use_sliding_window"}},
		"layer type":     {object{"layer_types": []string{"sliding_attention"}}, checkpoint.ErrUnsupported, []string{"sliding_attention"}},
	} {
		_, err := parse(t, c.changes)
		require.ErrorIs(t, err, c.err, name)
		require.ErrorContains(t, err, "dir/config.json", name)
		for _, part := range c.names {
			require.ErrorContains(t, err, part, name)
		}
	}
}
