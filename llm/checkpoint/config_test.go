package checkpoint_test

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/llm/checkpoint"
)

const moteDir = "../models/mote-4bit"

// changed returns the demo model's config.json with some fields replaced; a nil
// value takes the field out, null is json.RawMessage("null").
func changed(t testing.TB, changes map[string]any) []byte {
	t.Helper()
	data, err := os.ReadFile(moteDir + "/config.json")
	require.NoError(t, err)
	fields := map[string]any{}
	require.NoError(t, json.Unmarshal(data, &fields))
	maps.Copy(fields, changes)
	maps.DeleteFunc(fields, func(_ string, v any) bool { return v == nil })
	data, err = json.Marshal(fields)
	require.NoError(t, err)
	return data
}

type object = map[string]any

func TestConfig(t *testing.T) {
	c, err := checkpoint.ParseConfig("config.json", changed(t, nil))
	require.NoError(t, err)
	require.Equal(t, &checkpoint.Config{
		Architecture: "Qwen3ForCausalLM", ModelType: "qwen3", HiddenSize: 256, IntermediateSize: 768, Layers: 6, Heads: 4, KVHeads: 2,
		HeadDim: 128, VocabSize: 2048, MaxPositions: 4096, RMSNormEps: 1e-6, RopeTheta: 1e6, TieWordEmbeddings: true,
		DType: array.BFloat16, BOS: []int{2043}, EOS: []int{2045},
		Quantization: &checkpoint.Quantization{Packing: checkpoint.Packing{GroupSize: 128, Bits: 4}, Overrides: map[string]checkpoint.Packing{}},
	}, c)
}

func TestConfigAccepts(t *testing.T) {
	null := json.RawMessage("null")
	parse := func(changes object) *checkpoint.Config {
		c, err := checkpoint.ParseConfig("config.json", changed(t, changes))
		require.NoError(t, err, "%v", changes)
		return c
	}
	require.Equal(t, 64, parse(object{"head_dim": nil}).HeadDim)
	require.Equal(t, 64, parse(object{"head_dim": null}).HeadDim)
	require.Equal(t, 4, parse(object{"num_key_value_heads": nil}).KVHeads)
	require.Equal(t, 1e4, parse(object{"rope_theta": nil}).RopeTheta)
	require.Equal(t, 5e5, parse(object{"rope_theta": nil, "rope_parameters": object{"rope_type": "default", "rope_theta": 5e5}}).RopeTheta)
	require.Equal(t, []int{1, 2}, parse(object{"eos_token_id": []int{1, 2}}).EOS)
	require.Empty(t, parse(object{"eos_token_id": null, "bos_token_id": nil}).EOS)
	require.Equal(t, array.Float16, parse(object{"torch_dtype": nil, "dtype": "float16"}).DType)
	require.Zero(t, parse(object{"torch_dtype": nil}).DType)
	require.False(t, parse(object{"tie_word_embeddings": nil}).TieWordEmbeddings)
	require.True(t, parse(object{"attention_bias": true}).AttentionBias)
	require.NotNil(t, parse(object{"architectures": nil, "layer_types": []string{"full_attention"}}))
	require.Nil(t, parse(object{"quantization": nil, "quantization_config": nil}).Quantization)
	require.Equal(t, 4, parse(object{"quantization": nil}).Quantization.Bits)
}

func TestConfigRejects(t *testing.T) {
	for name, c := range map[string]struct {
		changes object
		err     error
		names   []string
	}{
		"no model_type":        {object{"model_type": nil}, checkpoint.ErrConfig, []string{"model_type"}},
		"llama":                {object{"model_type": "llama", "architectures": nil}, checkpoint.ErrUnsupported, []string{"llama", "qwen3"}},
		"architecture":         {object{"architectures": []string{"LlamaForCausalLM"}}, checkpoint.ErrUnsupported, []string{"LlamaForCausalLM", "Qwen3ForCausalLM"}},
		"architectures number": {object{"architectures": 3}, checkpoint.ErrConfig, []string{"architectures"}},
		"no hidden_size":       {object{"hidden_size": nil}, checkpoint.ErrConfig, []string{"hidden_size", "missing"}},
		"zero layers":          {object{"num_hidden_layers": 0}, checkpoint.ErrConfig, []string{"num_hidden_layers"}},
		"many layers":          {object{"num_hidden_layers": 1 << 20}, checkpoint.ErrConfig, []string{"num_hidden_layers"}},
		"negative vocab":       {object{"vocab_size": -1}, checkpoint.ErrConfig, []string{"vocab_size"}},
		"huge vocab":           {object{"vocab_size": 1 << 40}, checkpoint.ErrConfig, []string{"vocab_size"}},
		"fraction":             {object{"hidden_size": 256.5}, checkpoint.ErrConfig, []string{"hidden_size"}},
		"text":                 {object{"intermediate_size": "768"}, checkpoint.ErrConfig, []string{"intermediate_size"}},
		"no context":           {object{"max_position_embeddings": nil}, checkpoint.ErrConfig, []string{"max_position_embeddings"}},
		"kv heads":             {object{"num_key_value_heads": 3}, checkpoint.ErrConfig, []string{"num_key_value_heads", "4"}},
		"odd head_dim":         {object{"head_dim": 127}, checkpoint.ErrConfig, []string{"head_dim"}},
		"huge heads":           {object{"head_dim": 1 << 30}, checkpoint.ErrConfig, []string{"head_dim"}},
		"no head_dim":          {object{"head_dim": nil, "num_attention_heads": 3, "num_key_value_heads": 3}, checkpoint.ErrConfig, []string{"head_dim"}},
		"theta 0":              {object{"rope_theta": 0}, checkpoint.ErrConfig, []string{"rope_theta"}},
		"theta text":           {object{"rope_theta": "1e6"}, checkpoint.ErrConfig, []string{"rope_theta"}},
		"theta infinite":       {object{"rope_theta": json.RawMessage("1e999")}, checkpoint.ErrConfig, []string{"rope_theta"}},
		"eps negative":         {object{"rms_norm_eps": -1}, checkpoint.ErrConfig, []string{"rms_norm_eps"}},
		"tie text":             {object{"tie_word_embeddings": "yes"}, checkpoint.ErrConfig, []string{"tie_word_embeddings"}},
		"yarn":                 {object{"rope_scaling": object{"rope_type": "yarn", "factor": 4}}, checkpoint.ErrUnsupported, []string{"RoPE scaling", "yarn"}},
		"old yarn":             {object{"rope_scaling": object{"type": "yarn"}}, checkpoint.ErrUnsupported, []string{"yarn"}},
		"scaling number":       {object{"rope_scaling": 4}, checkpoint.ErrConfig, []string{"rope_scaling"}},
		"inner theta":          {object{"rope_parameters": object{"rope_type": "default", "rope_theta": -1}}, checkpoint.ErrConfig, []string{"rope_parameters.rope_theta"}},
		"dtype":                {object{"torch_dtype": "float8"}, checkpoint.ErrUnsupported, []string{"float8", "bfloat16"}},
		"activation":           {object{"hidden_act": "gelu"}, checkpoint.ErrUnsupported, []string{"hidden_act", "gelu"}},
		"window":               {object{"use_sliding_window": true}, checkpoint.ErrUnsupported, []string{"use_sliding_window"}},
		"layer type":           {object{"layer_types": []string{"sliding_attention"}}, checkpoint.ErrUnsupported, []string{"sliding_attention"}},
		"eos text":             {object{"eos_token_id": "2045"}, checkpoint.ErrConfig, []string{"eos_token_id"}},
		"eos negative":         {object{"eos_token_id": -1}, checkpoint.ErrConfig, []string{"eos_token_id"}},
		"eos too big":          {object{"eos_token_id": []int{1, 2048}}, checkpoint.ErrConfig, []string{"eos_token_id", "2048"}},
	} {
		_, err := checkpoint.ParseConfig("dir/config.json", changed(t, c.changes))
		require.ErrorIs(t, err, c.err, name)
		require.ErrorContains(t, err, "dir/config.json", name)
		for _, part := range c.names {
			require.ErrorContains(t, err, part, name)
		}
	}
	for name, data := range map[string]string{
		"empty": "", "array": "[]", "cut": `{"model_type":`, "duplicate": `{"model_type":"qwen3","model_type":"qwen3"}`, "text": `"x"`, "two": "{}{}", "not UTF-8": "{\"\xff\":1}",
	} {
		_, err := checkpoint.ParseConfig("config.json", []byte(data))
		require.ErrorIs(t, err, checkpoint.ErrConfig, name)
	}
}

func TestQuantization(t *testing.T) {
	parse := func(block any) (*checkpoint.Quantization, error) {
		c, err := checkpoint.ParseConfig("config.json", changed(t, object{"quantization": block, "quantization_config": nil}))
		if err != nil {
			return nil, err
		}
		return c.Quantization, nil
	}
	q, err := parse(object{
		"group_size": 64, "bits": 4, "mode": "affine", "lm_head": object{"group_size": 32, "bits": 8},
		"model.norm": false, "model.embed_tokens": true, "model.x": json.RawMessage("null"),
	})
	require.NoError(t, err)
	type result struct {
		affine    checkpoint.Packing
		quantized bool
	}
	for module, want := range map[string]result{
		"lm_head":            {checkpoint.Packing{GroupSize: 32, Bits: 8}, true},
		"model.norm":         {checkpoint.Packing{}, false},
		"model.embed_tokens": {checkpoint.Packing{GroupSize: 64, Bits: 4}, true},
	} {
		for _, scales := range []bool{true, false} {
			a, quantized := q.For(module, scales)
			require.Equal(t, want, result{a, quantized}, module)
		}
	}
	_, quantized := q.For("model.other", false)
	require.False(t, quantized)
	a, quantized := q.For("model.other", true)
	require.True(t, quantized)
	require.Equal(t, checkpoint.Packing{GroupSize: 64, Bits: 4}, a)
	_, quantized = (*checkpoint.Quantization)(nil).For("x", true)
	require.False(t, quantized)

	q, err = parse(object{
		"group_size": 32, "bits": 4, "mode": "mxfp4", "a": object{"group_size": 64, "bits": 8}, "b": object{"mode": "nvfp4"},
		"c": object{"group_size": 32, "bits": 8, "mode": "mxfp8"}, "d": true,
	})
	require.NoError(t, err)
	require.Equal(t, checkpoint.Packing{GroupSize: 32, Bits: 4, Mode: "mxfp4"}, q.Packing)
	require.Equal(t, map[string]checkpoint.Packing{
		"a": {GroupSize: 64, Bits: 8}, "b": {GroupSize: 16, Bits: 4, Mode: "nvfp4"}, "c": {GroupSize: 32, Bits: 8, Mode: "mxfp8"}, "d": q.Packing,
	}, q.Overrides)

	for name, c := range map[string]struct {
		block any
		err   error
		names string
	}{
		"number":           {4, checkpoint.ErrConfig, "quantization"},
		"no bits":          {object{"group_size": 64}, checkpoint.ErrConfig, "quantization.bits"},
		"bits 7":           {object{"group_size": 64, "bits": 7}, checkpoint.ErrConfig, "quantization.bits"},
		"group 48":         {object{"group_size": 48, "bits": 4}, checkpoint.ErrConfig, "quantization.group_size"},
		"fp3":              {object{"group_size": 32, "bits": 4, "mode": "fp3"}, checkpoint.ErrUnsupported, `"fp3" (supported: affine, mxfp4, mxfp8, nvfp4)`},
		"mxfp4 bits":       {object{"group_size": 32, "bits": 8, "mode": "mxfp4"}, checkpoint.ErrConfig, "mxfp4 has groups of 32 and 4 bits"},
		"awq":              {object{"quant_method": "awq", "bits": 4, "group_size": 128}, checkpoint.ErrUnsupported, "awq"},
		"unknown setting":  {object{"group_size": 64, "bits": 4, "zero_point": 7}, checkpoint.ErrConfig, "quantization.zero_point"},
		"override bits":    {object{"group_size": 64, "bits": 4, "lm_head": object{"group_size": 64, "bits": 9}}, checkpoint.ErrConfig, "quantization.lm_head.bits"},
		"override partial": {object{"group_size": 64, "bits": 4, "lm_head": object{"bits": 8}}, checkpoint.ErrConfig, "quantization.lm_head.group_size"},
		"override nvfp4":   {object{"group_size": 64, "bits": 4, "lm_head": object{"group_size": 64, "bits": 4, "mode": "nvfp4"}}, checkpoint.ErrConfig, "quantization.lm_head.mode"},
	} {
		_, err := parse(c.block)
		require.ErrorIs(t, err, c.err, name)
		require.ErrorContains(t, err, c.names, name)
	}
	_, err = checkpoint.ParseConfig("config.json", changed(t, object{"quantization_config": object{"group_size": 64, "bits": 4}}))
	require.ErrorIs(t, err, checkpoint.ErrConfig)
	require.ErrorContains(t, err, "quantization_config")
}

func TestGeneration(t *testing.T) {
	data, err := os.ReadFile(moteDir + "/generation_config.json")
	require.NoError(t, err)
	g, err := checkpoint.ParseGeneration("g", data, 2048)
	require.NoError(t, err)
	require.Equal(t, []int{2045, 2043}, g.EOS)
	require.Equal(t, 0.6, *g.Temperature)
	require.Equal(t, 0.95, *g.TopP)
	require.Equal(t, 20, *g.TopK)
	require.Nil(t, g.MinP)
	require.True(t, g.DoSample)
	for field, text := range map[string]string{
		"temperature": `{"temperature":-1}`, "top_p": `{"top_p":1.5}`, "min_p": `{"min_p":"0"}`, "top_k": `{"top_k":1.5}`, "eos_token_id": `{"eos_token_id":2048}`, "": `[`,
	} {
		_, err := checkpoint.ParseGeneration("dir/g.json", []byte(text), 2048)
		require.ErrorIs(t, err, checkpoint.ErrConfig, text)
		require.ErrorContains(t, err, field)
	}
}

// FuzzConfig: any bytes are refused with a typed error, or give sizes that
// agree with one another.
func FuzzConfig(f *testing.F) {
	f.Add(changed(f, nil))
	f.Add(changed(f, object{"head_dim": nil, "rope_scaling": object{"rope_type": "default"}, "quantization": object{"group_size": 64, "bits": 3, "a.b": false}, "quantization_config": nil}))
	f.Add(changed(f, object{"vocab_size": 1e18, "eos_token_id": []int{1}}))
	f.Add([]byte(`{"model_type":"qwen3"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, err := checkpoint.ParseGeneration("g", data, 100); err != nil {
			require.ErrorIs(t, err, checkpoint.ErrConfig)
		}
		c, err := checkpoint.ParseConfig("c", data)
		if err != nil {
			var config *checkpoint.ConfigError
			var unsupported *checkpoint.UnsupportedError
			if !errors.As(err, &config) {
				require.ErrorAs(t, err, &unsupported)
			}
			return
		}
		require.Positive(t, min(c.HiddenSize, c.IntermediateSize, c.Layers, c.Heads, c.KVHeads, c.HeadDim, c.VocabSize, c.MaxPositions))
		require.Zero(t, c.Heads%c.KVHeads)
		require.Zero(t, c.HeadDim%2)
	})
}
