package main

import (
	"encoding/binary"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/llm/checkpoint"
)

// edit changes a JSON file of a model folder.
func edit(t *testing.T, dir, file string, change func(map[string]any)) {
	t.Helper()
	path := filepath.Join(dir, file)
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	var fields map[string]any
	require.NoError(t, json.Unmarshal(data, &fields))
	change(fields)
	data, err = json.Marshal(fields)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, data, 0o600))
}

// editHeader changes the header of the weights, whose data stays as it is.
func editHeader(t *testing.T, dir string, change func(map[string]any)) {
	t.Helper()
	path := filepath.Join(dir, checkpoint.WeightsFile)
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	n := binary.LittleEndian.Uint64(data)
	var header map[string]any
	require.NoError(t, json.Unmarshal(data[8:8+n], &header))
	change(header)
	fresh, err := json.Marshal(header)
	require.NoError(t, err)
	out := binary.LittleEndian.AppendUint64(nil, uint64(len(fresh)))
	require.NoError(t, os.WriteFile(path, append(append(out, fresh...), data[8+n:]...), 0o600))
}

func TestBadFolders(t *testing.T) {
	const config, weights, index, words = checkpoint.ConfigFile, checkpoint.WeightsFile, checkpoint.IndexFile, checkpoint.TokenizerFile
	const tensor = "model.layers.3.mlp.up_proj.weight"
	set := func(file, field string, value any) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			edit(t, dir, file, func(f map[string]any) { f[field] = value })
		}
	}
	remove := func(file string) func(*testing.T, string) {
		return func(t *testing.T, dir string) { require.NoError(t, os.Remove(filepath.Join(dir, file))) }
	}
	write := func(file, text string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			require.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600))
		}
	}
	header := func(change func(map[string]any)) func(*testing.T, string) {
		return func(t *testing.T, dir string) { editHeader(t, dir, change) }
	}
	field := func(name, key string, value any) func(*testing.T, string) {
		return header(func(h map[string]any) { h[name].(map[string]any)[key] = value })
	}
	for name, c := range map[string]struct {
		spoil func(t *testing.T, dir string)
		want  []string
	}{
		"truncated weights":      {func(t *testing.T, dir string) { require.NoError(t, os.Truncate(filepath.Join(dir, weights), 100_000)) }, []string{weights}},
		"empty weights":          {write(weights, ""), []string{weights}},
		"header length lies":     {write(weights, "\xff\xff\xff\x7f\x00\x00\x00\x00{}"), []string{weights, "header length"}},
		"offsets outside":        {field(tensor, "data_offsets", []int64{0, 1 << 40}), []string{weights, tensor}},
		"offsets overlap":        {field(tensor, "data_offsets", []int{0, 98304}), []string{weights, "model."}},
		"unknown dtype":          {field(tensor, "dtype", "Q9"), []string{weights, tensor, "Q9"}},
		"dtype contradicts":      {field("model.norm.weight", "dtype", "I16"), []string{weights, "model.norm.weight", "I16"}},
		"shape contradicts":      {field(tensor, "shape", []int{32, 768}), []string{weights, tensor, "[768 32]"}},
		"shape overflows":        {field(tensor, "shape", []int64{1 << 62, 1 << 62}), []string{weights, tensor}},
		"no weights":             {remove(weights), []string{weights}},
		"missing shard":          {func(t *testing.T, dir string) { spoilIndex(t, dir, tensor, "model-00002-of-00002.safetensors") }, []string{"model-00002-of-00002.safetensors"}},
		"shard outside":          {func(t *testing.T, dir string) { spoilIndex(t, dir, tensor, "../model.safetensors") }, []string{index, "../model.safetensors"}},
		"malformed index":        {func(t *testing.T, dir string) { inShard(t, dir); write(index, "{")(t, dir) }, []string{index}},
		"missing tensor":         {func(t *testing.T, dir string) { spoilIndex(t, dir, tensor, "") }, []string{tensor, "missing"}},
		"no config":              {remove(config), []string{config}},
		"malformed config":       {write(config, `{"model_type": "qwen3"`), []string{config}},
		"config is binary":       {write(config, "\x00\xff\xfe"), []string{config}},
		"unknown architecture":   {set(config, "architectures", []string{"MambaForCausalLM"}), []string{config, "MambaForCausalLM"}},
		"unknown model type":     {set(config, "model_type", "mamba"), []string{config, "mamba"}},
		"unknown mode":           {func(t *testing.T, dir string) { spoilMode(t, dir, "mxfp4") }, []string{config, "mxfp4"}},
		"hidden size differs":    {set(config, "hidden_size", 512), []string{weights, "model."}},
		"more layers than there": {set(config, "num_hidden_layers", 7), []string{"model.layers.6"}},
		"heads do not divide":    {set(config, "num_key_value_heads", 3), []string{config, "num_key_value_heads"}},
		"rope scaling":           {set(config, "rope_scaling", map[string]any{"rope_type": "dynamic"}), []string{config, "dynamic"}},
		"negative size":          {set(config, "hidden_size", -256), []string{config, "hidden_size"}},
		"no tokenizer":           {remove(words), []string{words}},
		"malformed tokenizer":    {write(words, "{}"), []string{words}},
		"unknown tokenizer":      {set(words, "model", map[string]any{"type": "Unigram"}), []string{words, "Unigram"}},
		"malformed template":     {set(checkpoint.TokenizerConfigFile, "chat_template", "{% if %}"), []string{checkpoint.TokenizerConfigFile}},
		"no template":            {set(checkpoint.TokenizerConfigFile, "chat_template", nil), []string{"no chat template"}},
		"a file for a folder":    {func(t *testing.T, dir string) { require.NoError(t, os.RemoveAll(dir)); write("", "x")(t, dir) }, []string{"not a folder"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := copyDemo(t)
			c.spoil(t, dir)
			before := listing(t, dir)
			requireRefused(t, runArgs(t, "--model", dir, "--prompt", "hi", "--device=cpu"), c.want...)
			require.Equal(t, before, listing(t, dir), "something was written")
		})
	}
}

// inShard makes the weights a shard: the index is not read beside model.safetensors.
func inShard(t *testing.T, dir string) {
	t.Helper()
	const shard = "model-00001-of-00001.safetensors"
	require.NoError(t, os.Rename(filepath.Join(dir, checkpoint.WeightsFile), filepath.Join(dir, shard)))
	edit(t, dir, checkpoint.IndexFile, func(f map[string]any) {
		for tensor := range f["weight_map"].(map[string]any) {
			f["weight_map"].(map[string]any)[tensor] = shard
		}
	})
}

func spoilIndex(t *testing.T, dir, tensor, shard string) {
	inShard(t, dir)
	edit(t, dir, checkpoint.IndexFile, func(f map[string]any) {
		if f["weight_map"].(map[string]any)[tensor] = shard; shard == "" {
			delete(f["weight_map"].(map[string]any), tensor)
		}
	})
}

func spoilMode(t *testing.T, dir, mode string) {
	edit(t, dir, checkpoint.ConfigFile, func(f map[string]any) {
		for _, block := range []string{"quantization", "quantization_config"} {
			f[block].(map[string]any)["mode"] = mode
		}
	})
}

// listing returns names and sizes of the files below dir.
func listing(t *testing.T, dir string) map[string]int64 {
	t.Helper()
	out := map[string]int64{}
	require.NoError(t, filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err == nil {
			out[path] = info.Size()
		}
		return err
	}))
	return out
}

// A model that does not fit is refused before it is loaded, with both sizes.
func TestTooLarge(t *testing.T) {
	dir := copyDemo(t)
	edit(t, dir, checkpoint.ConfigFile, func(f map[string]any) { f["max_position_embeddings"] = 1 << 30 })
	out := runArgs(t, "--model", dir, "--prompt", "hi", "--device=cpu", "--max-tokens", "1000000000")
	requireRefused(t, out, "does not fit the device", "it needs 12288", "is available in all")
}
