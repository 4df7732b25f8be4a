package model_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/testmodel"
	"github.com/kompute-go/kompute-go/llm/checkpoint"
	"github.com/kompute-go/kompute-go/llm/model"
	"github.com/kompute-go/kompute-go/llm/qwen3"
)

// Which architecture a checkpoint is: by either name, or both.
func TestInspect(t *testing.T) {
	const qwen, llama = "Qwen3ForCausalLM", "LlamaForCausalLM"
	for _, c := range []struct {
		changes object
		want    string
	}{
		{object{}, "qwen3"},
		{object{"architectures": []string{"Other", qwen}}, "qwen3"},
		{object{"model_type": nil, "architectures": []string{qwen}}, "qwen3"},
		{object{"model_type": nil, "architectures": []string{"Qwen3Model"}}, "qwen3"},
		{object{"model_type": "llama", "architectures": []string{"LlamaModel"}}, "llama"},
		{object{"model_type": "llama"}, "llama"},
		{object{"model_type": "llama", "architectures": []string{llama}}, "llama"},
	} {
		spec, err := model.Inspect(changed(t, c.changes))
		require.NoError(t, err)
		require.Equal(t, c.want, spec.Type)
		require.Equal(t, model.Limits{Vocabulary: 96, Context: 512, Width: 64}, spec.Config.Limits())
	}
	for name, c := range map[string]struct {
		changes object
		err     error
		names   []string
	}{
		"neither":       {object{"model_type": nil}, checkpoint.ErrConfig, []string{"model_type", "missing"}},
		"unknown type":  {object{"model_type": "mamba"}, checkpoint.ErrUnsupported, []string{"mamba", "llama, qwen2, qwen3"}},
		"unknown class": {object{"model_type": nil, "architectures": []string{"MambaForCausalLM"}}, checkpoint.ErrUnsupported, []string{"MambaForCausalLM", llama + ", LlamaModel, Qwen2ForCausalLM, Qwen2Model, " + qwen + ", Qwen3Model"}},
		"type known":    {object{"architectures": []string{"MambaForCausalLM"}}, checkpoint.ErrUnsupported, []string{"MambaForCausalLM"}},
		"class known":   {object{"model_type": "mamba", "architectures": []string{qwen}}, checkpoint.ErrUnsupported, []string{"mamba"}},
		"two":           {object{"model_type": "llama", "architectures": []string{qwen}}, checkpoint.ErrConfig, []string{"llama", qwen}},
		"bad size":      {object{"hidden_size": -1}, checkpoint.ErrConfig, []string{"hidden_size"}},
		"eos":           {object{"eos_token_id": []int{1, 96}}, checkpoint.ErrConfig, []string{"eos_token_id", "96"}},
	} {
		_, err := model.Inspect(changed(t, c.changes))
		require.ErrorIs(t, err, c.err, name)
		require.ErrorContains(t, err, "config.json", name)
		for _, part := range c.names {
			require.ErrorContains(t, err, part, name)
		}
	}
	dir := t.TempDir()
	testmodel.Small().Write(t, dir)
	require.NoError(t, os.WriteFile(filepath.Join(dir, checkpoint.GenerationFile), []byte(`{"eos_token_id":96}`), 0o600))
	generation, err := checkpoint.Open(dir)
	require.NoError(t, err)
	defer generation.Close()
	_, err = model.Inspect(generation)
	require.ErrorIs(t, err, checkpoint.ErrConfig)
	require.ErrorContains(t, err, filepath.ToSlash(dir)+"/generation_config.json: ")
	require.ErrorContains(t, err, "eos_token_id: token id 96 is not below vocab_size 96")
	var unknown *checkpoint.UnsupportedError
	_, err = model.Inspect(changed(t, object{"model_type": "mamba"}))
	require.ErrorAs(t, err, &unknown)
	require.Equal(t, []string{"llama", "qwen2", "qwen3"}, unknown.Supported)
}

// Two packages cannot claim one name.
func TestRegisterTwice(t *testing.T) {
	require.PanicsWithValue(t, "model: two architectures are called qwen3 or Another", func() {
		model.Register(model.Architecture[qwen3.Config]{Type: "qwen3", Classes: []string{"Another"}})
	})
	require.PanicsWithValue(t, "model: two architectures are called another or Another or Qwen3Model", func() {
		model.Register(model.Architecture[qwen3.Config]{Type: "another", Classes: []string{"Another", "Qwen3Model"}})
	})
}
