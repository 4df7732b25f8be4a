package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/testmodel"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/checkpoint"
	"github.com/kompute-go/kompute-go/llm/models"
)

// output is what a run of the program gave.
type output struct {
	code           int
	stdout, stderr string
}

func runWith(ctx context.Context, stdin string, args ...string) output {
	var stdout, stderr bytes.Buffer
	code := run(ctx, args, strings.NewReader(stdin), &stdout, &stderr)
	return output{code, stdout.String(), stderr.String()}
}

func runArgs(t *testing.T, args ...string) output {
	return runWith(t.Context(), "", args...)
}

// backends are values of --device: one for each backend of this build.
func backends() []string {
	if testmodel.VulkanBuilt {
		return []string{"cpu", "vulkan"}
	}
	return []string{"cpu"}
}

// copyDemo writes the demo model to a folder that a test may spoil.
func copyDemo(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "model")
	require.NoError(t, os.CopyFS(dir, models.Mote()))
	return dir
}

func TestDemo(t *testing.T) {
	cases, _ := testmodel.Goldens(t)
	out := runArgs(t, "--device", "cpu")
	require.Zero(t, out.code, out.stderr)
	for _, c := range cases[:2] {
		require.Contains(t, out.stdout, c.Prompt)
		require.Contains(t, out.stdout, strings.TrimSuffix(c.Text, "<|im_end|>"))
	}
	require.Contains(t, out.stdout, "(cpu)")
	require.Contains(t, out.stdout, "first token after")
	require.Contains(t, out.stdout, "tokens/s")
}

func TestJSON(t *testing.T) {
	cases, _ := testmodel.Goldens(t)
	c := cases[1]
	devices, _ := kompute.Devices()
	for _, d := range devices {
		if !d.Usable {
			continue
		}
		device := "cpu"
		if d.Backend == "vulkan" {
			device = "vulkan:" + d.Name
		}
		out := runArgs(t, "--json", "--prompt", c.Prompt, "--device", device)
		require.Zero(t, out.code, out.stderr)
		var keys map[string]json.RawMessage
		require.NoError(t, json.Unmarshal([]byte(out.stdout), &keys))
		for _, key := range strings.Fields("model device backend prompt prompt_ids generated_ids text finish_reason " +
			"load_seconds time_to_first_token_seconds prompt_tps generation_tps peak_memory_bytes fallbacks per_token") {
			require.Contains(t, keys, key)
		}
		var perToken map[string]float64
		require.NoError(t, json.Unmarshal(keys["per_token"], &perToken))
		for _, key := range strings.Fields("submits dispatches barriers descriptor_writes recorded_commands allocations host_enqueue_ns") {
			require.Contains(t, perToken, key)
		}
		require.LessOrEqual(t, perToken["submits"], 1.0)
		require.Zero(t, perToken["recorded_commands"])
		var got report
		require.NoError(t, json.Unmarshal([]byte(out.stdout), &got))
		require.Equal(t, "mote-4bit", got.Model)
		require.Equal(t, d.Backend, got.Backend)
		require.Equal(t, d.Name, got.Device)
		require.Equal(t, c.Prompt, got.Prompt)
		require.Equal(t, c.PromptIDs, got.PromptIDs)
		require.Equal(t, c.GeneratedIDs, got.GeneratedIDs)
		require.Equal(t, strings.TrimSuffix(c.Text, "<|im_end|>"), got.Text)
		require.Equal(t, "stop", got.FinishReason)
		require.Positive(t, got.TimeToFirstToken)
		require.Positive(t, got.PromptTPS)
		require.Positive(t, got.GenerationTPS)
		require.Positive(t, got.PeakMemoryBytes)
		require.NotNil(t, got.Fallbacks)
		require.Empty(t, got.Fallbacks)
	}
}

func TestQuietFromStdin(t *testing.T) {
	cases, _ := testmodel.Goldens(t)
	out := runWith(t.Context(), cases[3].Prompt+"\n", "--prompt", "-", "--quiet", "--device=cpu")
	require.Equal(t, output{stdout: strings.TrimSuffix(cases[3].Text, "<|im_end|>") + "\n"}, out)
}

func TestRaw(t *testing.T) {
	cases, _ := testmodel.Goldens(t)
	out := runArgs(t, "--prompt", cases[0].Rendered, "--raw", "--quiet", "--device=cpu", "--max-tokens", "3")
	require.Equal(t, output{stdout: "<think>\nOkay\n"}, out)
}

func TestEager(t *testing.T) {
	cases, _ := testmodel.Goldens(t)
	out := runArgs(t, "--prompt", cases[0].Prompt, "--device=cpu", "--json", "--eager")
	require.Zero(t, out.code, out.stderr)
	var got report
	require.NoError(t, json.Unmarshal([]byte(out.stdout), &got))
	require.Equal(t, cases[0].GeneratedIDs, got.GeneratedIDs)
	require.Zero(t, got.Stats.Replays)
	require.Positive(t, got.Stats.Ops)
}

func TestSampledRunsAgree(t *testing.T) {
	args := []string{"--prompt", "Tell me a story", "--temp", "1.2", "--top-p=0.95", "--top-k=30", "--min-p=0.01", "--quiet", "--device=cpu"}
	first := runArgs(t, append(args, "--seed", "5")...)
	require.Zero(t, first.code, first.stderr)
	require.Equal(t, first, runArgs(t, append(args, "--seed", "5")...))
	require.NotEqual(t, first.stdout, runArgs(t, append(args, "--seed", "6")...).stdout)
}

// Ctrl-C ends cleanly, with what was reached.
func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var stderr bytes.Buffer
	w := &cancelAfter{n: 5, cancel: cancel}
	require.Zero(t, run(ctx, []string{"--device=cpu"}, nil, w, &stderr), stderr.String())
	require.Contains(t, w.out.String(), "ended: cancelled")
	require.NotContains(t, w.out.String(), "你好啊", "the second prompt is not begun")

	in, _ := io.Pipe() // a user who types nothing
	require.Zero(t, run(ctx, []string{"--chat", "--device=cpu"}, in, io.Discard, &stderr), stderr.String())
	require.NoError(t, in.Close())
}

// cancelAfter cancels at its n-th write.
type cancelAfter struct {
	out    bytes.Buffer
	n      int
	cancel func()
}

func (w *cancelAfter) Write(p []byte) (int, error) {
	if w.n--; w.n == 0 {
		w.cancel()
	}
	return w.out.Write(p)
}

func TestListDevices(t *testing.T) {
	out := runArgs(t, "--list-devices")
	require.Zero(t, out.code)
	require.Contains(t, out.stdout, "DEVICE")
	require.Contains(t, out.stdout, "cpu ")
}

func TestHelp(t *testing.T) {
	out := runArgs(t, "--help")
	require.Zero(t, out.code)
	require.Empty(t, out.stderr)
	for _, flag := range strings.Fields("model prompt system max-tokens temp top-p top-k min-p seed device dtype raw prefill-step eager dump-region stats trace chat list-devices json quiet version help") {
		require.Contains(t, out.stdout, "\n  --"+flag)
	}
	out = runArgs(t, "--version")
	require.Zero(t, out.code)
	require.Regexp(t, `^decode \(kompute-go\) .+\n$`, out.stdout)
}

// The keys of everything that --json prints are in one style.
func TestKeysAreSnakeCase(t *testing.T) {
	for _, args := range [][]string{{"--list-devices", "--json"}, {"--json", "--device=cpu", "--prompt", "Hi", "--max-tokens", "2"}} {
		out := runArgs(t, args...)
		require.Zero(t, out.code, out.stderr)
		keys := regexp.MustCompile(`"([^"]*)": `).FindAllStringSubmatch(out.stdout, -1)
		require.Greater(t, len(keys), 10)
		for _, key := range keys {
			require.Regexp(t, `^[a-z][a-z_]*$`, key[1])
		}
	}
}

// A file that cannot be written is found before the model answers.
func TestBadOutputs(t *testing.T) {
	none := filepath.Join(t.TempDir(), "no", "such")
	for _, args := range [][]string{{"--trace", none}, {"--dump-region", none}, {"--trace", t.TempDir()}, {"--dump-region", t.TempDir()}} {
		requireRefused(t, runArgs(t, append(args, "--device=cpu")...), args[0]+": ", args[1])
	}
}

// requireRefused checks what holds for all bad input: exit code 1, one line on
// stderr that says what and where, and nothing else.
func requireRefused(t *testing.T, out output, parts ...string) {
	t.Helper()
	require.Equal(t, 1, out.code)
	require.Empty(t, out.stdout)
	require.True(t, strings.HasPrefix(out.stderr, "decode: "), out.stderr)
	require.Equal(t, 1, strings.Count(out.stderr, "\n"), out.stderr)
	for _, part := range parts {
		require.Contains(t, out.stderr, part)
	}
}

func TestBadFlags(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--prompt", ""}, "prompt: empty"},
		{[]string{"--prompt", "", "--raw"}, "prompt: empty"},
		{[]string{"--prompt", "-"}, "prompt: empty"},
		{[]string{"--prompt", "a\xffb"}, "invalid UTF-8"},
		{[]string{"--prompt", "a\xffb", "--raw"}, "invalid UTF-8"},
		{[]string{"--system", "\xff", "--prompt", "hi"}, "invalid UTF-8"},
		{[]string{"--prompt", strings.Repeat("story ", 5000)}, "context of 4096"},
		{[]string{"--device", "cuda"}, "--device cuda"},
		{[]string{"--device", "vulkan:no such device"}, "--device vulkan:no such device"},
		{[]string{"--device", "vulkan:99"}, "--device vulkan:99"},
		{[]string{"--dtype", "int8"}, "--dtype"},
		{[]string{"--max-tokens", "0"}, "--max-tokens"},
		{[]string{"--max-tokens", "many"}, "flag --max-tokens"},
		{[]string{"--prefill-step", "0"}, "--prefill-step"},
		{[]string{"--temp", "-1"}, "temp"},
		{[]string{"--temp", "NaN"}, "temp"},
		{[]string{"--top-p", "1.5"}, "top-p"},
		{[]string{"--min-p", "-0.5"}, "min-p"},
		{[]string{"--top-k", "-2"}, "top-k"},
		{[]string{"--seed", "-1"}, "seed"},
		{[]string{"--model", "/no/such/folder"}, "/no/such/folder"},
		{[]string{"--chat", "--json"}, "--chat"},
		{[]string{"--dump-region", "x.svg", "--eager"}, "--dump-region"},
		{[]string{"--json", "--quiet"}, "--json"},
		{[]string{"--json", "--stats"}, "--stats"},
		{[]string{"--raw", "--system", "x"}, "--raw"},
		{[]string{"--chat", "--prompt", "x"}, "--chat"},
		{[]string{"--chat", "--raw"}, "--chat"},
		{[]string{"--no-such-flag"}, ": --no-such-flag"},
		{[]string{"hello"}, "hello"},
	} {
		t.Run(strings.Join(c.args, " ")[:min(40, len(strings.Join(c.args, " ")))], func(t *testing.T) {
			requireRefused(t, runArgs(t, c.args...), c.want)
		})
	}
}

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
		"offsets outside":        {field(tensor, "data_offsets", []int{0, 1 << 40}), []string{weights, tensor}},
		"offsets overlap":        {field(tensor, "data_offsets", []int{0, 98304}), []string{weights, "model."}},
		"unknown dtype":          {field(tensor, "dtype", "Q9"), []string{weights, tensor, "Q9"}},
		"dtype contradicts":      {field("model.norm.weight", "dtype", "I16"), []string{weights, "model.norm.weight", "I16"}},
		"shape contradicts":      {field(tensor, "shape", []int{32, 768}), []string{weights, tensor, "[768 32]"}},
		"shape overflows":        {field(tensor, "shape", []int{1 << 62, 1 << 62}), []string{weights, tensor}},
		"no weights":             {remove(weights), []string{weights}},
		"missing shard":          {func(t *testing.T, dir string) { spoilIndex(t, dir, tensor, "model-00002-of-00002.safetensors") }, []string{"model-00002-of-00002.safetensors"}},
		"shard outside":          {func(t *testing.T, dir string) { spoilIndex(t, dir, tensor, "../model.safetensors") }, []string{index, "../model.safetensors"}},
		"malformed index":        {write(index, "{"), []string{index}},
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
		"rope scaling":           {set(config, "rope_scaling", map[string]any{"rope_type": "yarn"}), []string{config, "yarn"}},
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

func spoilIndex(t *testing.T, dir, tensor, shard string) {
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
