package main

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/testmodel"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/demomodel"
)

// output is the result of a run of the program.
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

// copyDemo writes the demo model to a folder that a test may change.
func copyDemo(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "model")
	require.NoError(t, os.CopyFS(dir, demomodel.FS()))
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
			"load_seconds time_to_first_token_seconds prompt_tokens_per_second generation_tokens_per_second peak_memory_bytes fallbacks per_token") {
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
		require.Positive(t, got.PromptRate)
		require.Positive(t, got.GenerationRate)
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

func TestNoThink(t *testing.T) {
	cases, _ := testmodel.Goldens(t)
	out := runArgs(t, "--prompt", cases[0].Prompt, "--no-think", "--quiet", "--device=cpu")
	require.Equal(t, output{stdout: "My name is Mote. I am a tiny language model that runs on the GPU through Vulkan.\n"}, out)
	require.Equal(t, 1, runArgs(t, "--prompt", "x", "--raw", "--no-think").code)
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

// Penalties keep a greedy answer from repeating words.
func TestPenalties(t *testing.T) {
	repeated := func(more ...string) float64 {
		out := runArgs(t, append([]string{"--prompt", "Tell me a story", "--max-tokens", "60", "--quiet", "--device=cpu"}, more...)...)
		require.Zero(t, out.code, out.stderr)
		words, distinct := strings.Fields(out.stdout), map[string]bool{}
		for _, word := range words {
			distinct[word] = true
		}
		return 1 - float64(len(distinct))/float64(len(words))
	}
	plain := repeated()
	require.Positive(t, plain)
	require.Less(t, repeated("--repetition-penalty", "3"), plain)
	require.Less(t, repeated("--presence-penalty", "20", "--frequency-penalty", "1"), plain)
}

// A --top-p of 0 leaves the likeliest token, at any temperature.
func TestTopPZero(t *testing.T) {
	args := []string{"--prompt", "Tell me a story", "--max-tokens", "20", "--quiet", "--device=cpu"}
	likeliest := runArgs(t, args...)
	require.Zero(t, likeliest.code, likeliest.stderr)
	require.Equal(t, likeliest, runArgs(t, append(args, "--temp", "100", "--top-p", "0")...))
}

// However many tokens are allowed, there is room for no more than the model's context from the start.
func TestRoomForTheLongestAnswer(t *testing.T) {
	folder, err := openFolder("")
	require.NoError(t, err)
	defer folder.Close()
	room := func(maxTokens int) int64 {
		device, err := kompute.Open("cpu")
		require.NoError(t, err)
		defer device.Close()
		a := &app{options: &options{maxTokens: maxTokens, quiet: true}, folder: folder, device: device}
		require.NoError(t, a.load(t.Context(), [][]int{{1, 2, 3}}))
		defer a.Close()
		return device.Stats().LiveBytes
	}
	require.Equal(t, room(folder.Limits().Context), room(math.MaxInt))
	require.Less(t, room(1), room(math.MaxInt))
}

// A step that cannot be captured is reported, with the reason.
func TestUncapturedIsTold(t *testing.T) {
	if !testmodel.VulkanBuilt {
		t.Skip("the CPU backend captures every op")
	}
	t.Setenv("KOMPUTE_GO_DISABLE", "rope")
	args := []string{"--device=vulkan", "--prompt=Hi", "--max-tokens=3"}
	out := runArgs(t, append(args, "--stats")...)
	require.Zero(t, out.code, out.stderr)
	require.Regexp(t, "op by op, not replayed: .*rope", out.stdout)
	require.Regexp(t, "nothing was replayed +.*rope", out.stdout)
	out = runArgs(t, append(args, "--json")...)
	require.Zero(t, out.code, out.stderr)
	var got report
	require.NoError(t, json.Unmarshal([]byte(out.stdout), &got))
	require.Contains(t, got.Uncaptured, "rope")
	require.Regexp(t, "--dump-region: nothing was replayed: .*rope", runArgs(t, append(args, "--dump-region", filepath.Join(t.TempDir(), "x.txt"))...).stderr)
}

func TestHelp(t *testing.T) {
	out := runArgs(t, "--help")
	require.Zero(t, out.code)
	require.Empty(t, out.stderr)
	for _, flag := range strings.Fields("model prompt system max-tokens temp top-p top-k min-p seed repetition-penalty presence-penalty frequency-penalty device dtype cache-type raw prefill-step eager dump-region stats trace chat list-devices json quiet version help") {
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
		{[]string{"--system", "\xff", "--prompt", "hi"}, "--system: invalid UTF-8"},
		{[]string{"--system", "\xff", "--chat"}, "--system: invalid UTF-8"},
		{[]string{"--prompt", strings.Repeat("story ", 5000)}, "context of 4096"},
		{[]string{"--device", "cuda"}, "--device cuda"},
		{[]string{"--device", "vulkan:no such device"}, "--device vulkan:no such device"},
		{[]string{"--device", "vulkan:99"}, "--device vulkan:99"},
		{[]string{"--dtype", "int8"}, "--dtype"},
		{[]string{"--cache-type", "int8"}, "--cache-type"},
		{[]string{"--max-tokens", "0"}, "--max-tokens"},
		{[]string{"--max-tokens", "many"}, "flag --max-tokens"},
		{[]string{"--prefill-step", "-1"}, "--prefill-step"},
		{[]string{"--temp", "-1"}, "temp"},
		{[]string{"--temp", "NaN"}, "temp"},
		{[]string{"--top-p", "1.5"}, "top-p"},
		{[]string{"--min-p", "-0.5"}, "min-p"},
		{[]string{"--top-k", "-2"}, "top-k"},
		{[]string{"--seed", "-1"}, "seed"},
		{[]string{"--repetition-penalty", "-1"}, "repetition penalty"},
		{[]string{"--frequency-penalty", "Inf"}, "frequency penalty"},
		{[]string{"--seed", "1"}, "--seed: requires a --temp"},
		{[]string{"--top-p", "0.9"}, "--top-p: requires a --temp"},
		{[]string{"--top-k", "3", "--temp", "0"}, "--top-k: requires a --temp"},
		{[]string{"--min-p", "0.1"}, "--min-p: requires a --temp"},
		{[]string{"--list-devices", "--json", "--device", "cpu"}, "--list-devices: excludes --device"},
		{[]string{"--trace", "x", "--dump-region", "./y/../x"}, "--trace: names the same file as --dump-region"},
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
