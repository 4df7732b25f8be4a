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

const moteDir = "../demomodel/mote-4bit"

// changed returns the demo model's config.json with some fields replaced; a nil
// value removes the field, null is json.RawMessage("null").
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
	require.Equal(t, "config.json", c.File())
	require.Equal(t, "qwen3", c.ModelType)
	require.Equal(t, []string{"Qwen3ForCausalLM"}, c.Architectures)
	require.Equal(t, array.BFloat16, c.DType)
	require.Equal(t, []int{2043}, c.BOS)
	require.Equal(t, []int{2045}, c.EOS)
	require.Equal(t, &checkpoint.Quantization{
		Packing: checkpoint.Packing{GroupSize: 128, Bits: 4}, Overrides: map[string]checkpoint.Packing{},
	}, c.Quantization)
}

func TestConfigAccepts(t *testing.T) {
	null := json.RawMessage("null")
	parse := func(changes object) *checkpoint.Config {
		c, err := checkpoint.ParseConfig("config.json", changed(t, changes))
		require.NoError(t, err, "%v", changes)
		return c
	}
	require.Equal(t, []int{1, 2}, parse(object{"eos_token_id": []int{1, 2}}).EOS)
	require.Empty(t, parse(object{"eos_token_id": null, "bos_token_id": nil}).EOS)
	require.Equal(t, array.Float16, parse(object{"torch_dtype": nil, "dtype": "float16"}).DType)
	require.Equal(t, array.Float32, parse(object{"torch_dtype": "torch.float32"}).DType)
	require.Zero(t, parse(object{"torch_dtype": nil}).DType)
	require.Equal(t, "mamba", parse(object{"model_type": "mamba"}).ModelType, "which architectures there are is not known here")
	require.Empty(t, parse(object{"architectures": nil, "model_type": null}).ModelType)
	require.Nil(t, parse(object{"quantization": nil, "quantization_config": nil}).Quantization)
	require.Equal(t, 4, parse(object{"quantization": nil}).Quantization.Bits)
	stale := object{"quant_method": "fp8", "weight_block_size": []int{128, 128}}
	require.Equal(t, 128, parse(object{"quantization_config": stale}).Quantization.GroupSize, "of the model that was quantized again")
}

func TestConfigRejects(t *testing.T) {
	for name, c := range map[string]struct {
		changes object
		err     error
		names   []string
	}{
		"architectures number": {object{"architectures": 3}, checkpoint.ErrConfig, []string{"architectures"}},
		"model_type number":    {object{"model_type": 3}, checkpoint.ErrConfig, []string{"model_type"}},
		"dtype":                {object{"torch_dtype": "float8"}, checkpoint.ErrUnsupported, []string{"float8", "bfloat16"}},
		"eos text":             {object{"eos_token_id": "2045"}, checkpoint.ErrConfig, []string{"eos_token_id"}},
		"eos negative":         {object{"eos_token_id": -1}, checkpoint.ErrConfig, []string{"eos_token_id"}},
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
		"inner duplicate": `{"a":[{"b":1,"\u0062":2}]}`, "null": "null",
	} {
		_, err := checkpoint.ParseConfig("config.json", []byte(data))
		require.ErrorIs(t, err, checkpoint.ErrConfig, name)
	}
}

// Fields reads by type, names the place of an error, and keeps the first one.
func TestFields(t *testing.T) {
	parse := func(text string) *checkpoint.Fields {
		c, err := checkpoint.ParseConfig("dir/config.json", []byte(text))
		require.NoError(t, err)
		return c.Fields()
	}
	f := parse(`{"size":7,"n":null,"x":1.5,"on":true,"word":"w","words":["a","b"],"one":3,"some":[4,5],"in":{"deep":{"size":9}}}`)
	require.Equal(t, 7, f.Size("size"))
	require.Equal(t, 3, f.SizeOr("n", 3))
	require.False(t, f.Has("n"))
	require.InDelta(t, 1.5, f.Number("x", 0, 1, 2), 0)
	require.InDelta(t, 8, f.Number("y", 8, 1, 2), 0)
	require.True(t, f.Flag("on"))
	require.False(t, f.Flag("off"))
	require.Equal(t, "w", f.Text("word"))
	require.Equal(t, []string{"a", "b"}, f.Texts("words"))
	require.Equal(t, []int{3}, f.IDs("one"))
	require.Equal(t, []int{4, 5}, f.IDs("some"))
	require.Equal(t, 9, f.Object("in").Object("deep").Size("size"))
	require.Nil(t, f.Object("out"))
	require.NoError(t, f.Err())

	const text = `{"zero":0,"negative":-1,"huge":1073741825,"half":256.5,"text":"768","yes":"yes","infinite":1e999,"in":{"x":{"n":-1}},"list":[1]}`
	for want, read := range map[string]func(f *checkpoint.Fields){
		"missing: missing":          func(f *checkpoint.Fields) { f.Size("missing") },
		"zero: 0 is not":            func(f *checkpoint.Fields) { f.Size("zero") },
		"negative: -1":              func(f *checkpoint.Fields) { f.SizeOr("negative", 1) },
		"huge: 1073741825":          func(f *checkpoint.Fields) { f.Size("huge") },
		"half: 256.5":               func(f *checkpoint.Fields) { f.Size("half") },
		`text: "768"`:               func(f *checkpoint.Fields) { f.Size("text") },
		`text: "768" is not a n`:    func(f *checkpoint.Fields) { f.Number("text", 1, 0, 1) },
		"infinite: 1e999":           func(f *checkpoint.Fields) { f.Number("infinite", 1, 0, 1e15) },
		"half: 256.5 is not from 0": func(f *checkpoint.Fields) { f.Number("half", 1, 0, 1) },
		`yes: "yes" is not true`:    func(f *checkpoint.Fields) { f.Flag("yes") },
		"half: 256.5 is not a str":  func(f *checkpoint.Fields) { f.Text("half") },
		"list: [1] is not an arr":   func(f *checkpoint.Fields) { f.Texts("list") },
		"in.x.n: -1":                func(f *checkpoint.Fields) { f.Object("in").Object("x").Size("n") },
		"half: 256.5 is not an obj": func(f *checkpoint.Fields) { f.Object("half") },
		"other: 3 of 4":             func(f *checkpoint.Fields) { f.Fail("other", "%d of %d", 3, 4) },
	} {
		f := parse(text)
		read(f)
		require.ErrorIs(t, f.Err(), checkpoint.ErrConfig, want)
		require.ErrorContains(t, f.Err(), "dir/config.json: ", want)
		require.ErrorContains(t, f.Err(), want)
		first := f.Err()
		f.Fail("later", "x")
		f.Unsupported("thing", "x")
		require.Equal(t, first, f.Err(), "the first error stays")
	}
	f = parse("{}")
	f.Unsupported("activation", "relu", "silu")
	require.ErrorIs(t, f.Err(), checkpoint.ErrUnsupported)
	require.ErrorContains(t, f.Err(), `dir/config.json: unsupported activation "relu" (supported: silu)`)
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
	a, quantized := q.For("norm", true)
	require.Equal(t, result{}, result{a, quantized}, "the name of an override may have a prefix")
	a, quantized = q.For("model.lm_head", true)
	require.Equal(t, result{checkpoint.Packing{GroupSize: 32, Bits: 8}, true}, result{a, quantized})
	_, quantized = q.For("model.other", false)
	require.False(t, quantized)
	a, quantized = q.For("model.other", true)
	require.True(t, quantized)
	require.Equal(t, checkpoint.Packing{GroupSize: 64, Bits: 4}, a)
	_, quantized = (*checkpoint.Quantization)(nil).For("x", true)
	require.False(t, quantized)

	q, err = parse(object{
		"group_size": 32, "bits": 4, "mode": "mxfp4", "a": object{"group_size": 64, "bits": 8}, "b": object{"mode": "nvfp4"},
		"c": object{"group_size": 32, "bits": 8, "mode": "mxfp8"}, "d": true,
		"e": object{"bits": 8}, "f": object{"group_size": 32, "mode": "affine"},
	})
	require.NoError(t, err)
	require.Equal(t, checkpoint.Packing{GroupSize: 32, Bits: 4, Mode: "mxfp4"}, q.Packing)
	require.Equal(t, map[string]checkpoint.Packing{
		"a": {GroupSize: 64, Bits: 8}, "b": {GroupSize: 16, Bits: 4, Mode: "nvfp4"}, "c": {GroupSize: 32, Bits: 8, Mode: "mxfp8"}, "d": q.Packing,
		"e": {GroupSize: 64, Bits: 8}, "f": {GroupSize: 32, Bits: 4},
	}, q.Overrides)

	for name, c := range map[string]struct {
		block any
		err   error
		names string
	}{
		"number":           {4, checkpoint.ErrConfig, "quantization"},
		"no bits":          {object{"group_size": 64}, checkpoint.ErrConfig, "quantization.bits"},
		"no group":         {object{"bits": 4}, checkpoint.ErrConfig, "quantization.group_size"},
		"bits 7":           {object{"group_size": 64, "bits": 7}, checkpoint.ErrConfig, "quantization.bits"},
		"group 48":         {object{"group_size": 48, "bits": 4}, checkpoint.ErrConfig, "quantization.group_size"},
		"fp3":              {object{"group_size": 32, "bits": 4, "mode": "fp3"}, checkpoint.ErrUnsupported, `"fp3" (supported: affine, mxfp4, mxfp8, nvfp4)`},
		"mxfp4 bits":       {object{"group_size": 32, "bits": 8, "mode": "mxfp4"}, checkpoint.ErrConfig, "mxfp4 has groups of 32 and 4 bits"},
		"awq":              {object{"quant_method": "awq", "bits": 4, "group_size": 128}, checkpoint.ErrUnsupported, "\"awq\" (supported: mlx)"},
		"unknown setting":  {object{"group_size": 64, "bits": 4, "zero_point": 7}, checkpoint.ErrConfig, "quantization.zero_point"},
		"override bits":    {object{"group_size": 64, "bits": 4, "lm_head": object{"group_size": 64, "bits": 9}}, checkpoint.ErrConfig, "quantization.lm_head.bits"},
		"override partial": {object{"group_size": 64, "bits": 4, "lm_head": object{"group_size": 48}}, checkpoint.ErrConfig, "quantization.lm_head.group_size"},
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
	g, err := checkpoint.ParseGeneration("g", data)
	require.NoError(t, err)
	require.Equal(t, []int{2045, 2043}, g.EOS)
	require.Equal(t, 0.6, *g.Temperature)
	require.Equal(t, 0.95, *g.TopP)
	require.Equal(t, 20, *g.TopK)
	require.Nil(t, g.MinP)
	require.True(t, g.DoSample)
	g, err = checkpoint.ParseGeneration("g", []byte(`{"top_k":-1}`))
	require.NoError(t, err)
	require.Zero(t, *g.TopK, "all tokens")
	require.Nil(t, g.RepetitionPenalty)
	g, err = checkpoint.ParseGeneration("g", []byte(`{"repetition_penalty":1.05}`))
	require.NoError(t, err)
	require.Equal(t, 1.05, *g.RepetitionPenalty)
	for field, text := range map[string]string{
		"temperature": `{"temperature":-1}`, "top_p": `{"top_p":1.5}`, "min_p": `{"min_p":"0"}`, "top_k": `{"top_k":1.5}`,
		"repetition_penalty": `{"repetition_penalty":0}`, "top_k: -2": `{"top_k":-2}`, "eos_token_id": `{"eos_token_id":-1}`, "": `[`,
	} {
		_, err := checkpoint.ParseGeneration("dir/g.json", []byte(text))
		require.ErrorIs(t, err, checkpoint.ErrConfig, text)
		require.ErrorContains(t, err, field)
	}
}

// FuzzConfig: any bytes are refused with a typed error, or can be read, with
// sizes within their bounds.
func FuzzConfig(f *testing.F) {
	f.Add(changed(f, nil))
	f.Add(changed(f, object{"head_dim": nil, "rope_scaling": object{"rope_type": "default", "factor": 9}, "quantization": object{"group_size": 64, "bits": 3, "a.b": false}, "quantization_config": nil}))
	f.Add(changed(f, object{"vocab_size": 1e18, "eos_token_id": []int{1}}))
	f.Add([]byte(`{"model_type":"qwen3"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, err := checkpoint.ParseGeneration("g", data); err != nil {
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
		fields := c.Fields()
		size, inner := fields.SizeOr("hidden_size", 1), fields.Object("rope_scaling")
		if inner != nil {
			inner.Number("factor", 1, 1, 8)
		}
		if fields.Err() == nil {
			require.Positive(t, size)
			require.LessOrEqual(t, size, checkpoint.MaxSize)
		} else {
			require.ErrorIs(t, fields.Err(), checkpoint.ErrConfig)
		}
	})
}
