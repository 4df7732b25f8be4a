package main

import (
	"bytes"
	"flag"
	"io"
	"math"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBadArguments(t *testing.T) {
	for _, args := range [][]string{
		{"--shape", "huge"}, {"--packing", "7g64"}, {"--packing", "4g64x"}, {"--packing", "fp4"}, {"-p", "x"}, {"-n", "-1"}, {"-r", "0"}, {"--repetitions", "0"}, {"--device", "tpu"}, {"--model", "/nonexistent"},
		{"--profile", "-1"}, {"--eager", "--region"}, {"--plot", "a.pdf"}, {"tg128"}, {"--no-such-flag"},
	} {
		var out bytes.Buffer
		require.Error(t, run(t.Context(), append([]string{"--device", "cpu"}, args...), &out, io.Discard), args)
		require.Zero(t, out.Len())
	}
}

// requireRefused checks that the program refuses arguments with an error that contains want, before it measures.
func requireRefused(t *testing.T, want string, args ...string) {
	t.Helper()
	var out, shown bytes.Buffer
	args = append([]string{"--shape", "demo", "--device", "cpu"}, args...)
	require.ErrorContains(t, run(t.Context(), args, &out, &shown), want, args)
	require.Zero(t, out.Len(), args)
	require.NotContains(t, shown.String(), "test 1", "nothing was measured")
}

// An empty name would be that of the best device.
func TestDevicesWithoutAName(t *testing.T) {
	for _, list := range []string{"cpu,", ",cpu", ",", "cpu,,cpu"} {
		requireRefused(t, "--device: a device without a name", "--batch", "1", "--device", list)
	}
}

// A list that cannot be read is an error also where another option looks at it.
func TestBadListsBesideBatch(t *testing.T) {
	for _, depths := range []string{"x", "", "-1"} {
		requireRefused(t, "--n-depth", "--batch", "4", "-d", depths)
	}
	requireRefused(t, "--batch", "--batch", "x", "-d", "x")
	requireRefused(t, "qwen3-8b or demo", "--shape", "huge")
}

// An empty list, as of a variable that is not set, is not taken for no list: something else would be measured.
func TestEmptyLists(t *testing.T) {
	requireRefused(t, `--ops: there is no op ""`, "--ops", "")
	requireRefused(t, `--ops: there is no op ""`, "--ops", "copy,")
	for _, name := range []string{"--batch", "--threads", "--sizes", "--rows"} {
		requireRefused(t, name+`: "" is not a number`, name, "")
	}
}

// Numbers that would overflow, or that the model has no room for, are refused.
func TestHugeNumbers(t *testing.T) {
	const huge = "9223372036854775807"
	requireRefused(t, "--n-prompt", "-p", "99999999999999999")
	requireRefused(t, "--n-gen", "-n", huge)
	requireRefused(t, "--n-depth", "-d", huge)
	requireRefused(t, "--batch", "--batch", huge)
	requireRefused(t, "--draft: 9223372036854775807 is more than 2147483647", "--batch", "4", "--draft", huge)
	requireRefused(t, "--chunk: ", "--batch", "4", "--chunk", huge)
	requireRefused(t, "--repetitions: 9223372036854775807 is more than 65536", "-r", huge)
	requireRefused(t, "--window: ", "--window", huge)
	requireRefused(t, "--profile: 65537 is more than 65536", "--profile", "65537")
	requireRefused(t, "--batch: 16385 clients with --draft 0 are more than 16384 rows", "--batch", "1,16385")
	requireRefused(t, "--batch: 8192 clients with --draft 2 are more", "--batch", "1,8192", "--draft", "2")
	for _, penalty := range []string{"0", "-1", "1e-40", "NaN", "1e39"} {
		requireRefused(t, "--repetition-penalty: want a number of at least 1e-30", "--batch", "1", "--repetition-penalty", penalty)
	}
	for _, name := range []string{"--presence-penalty", "--frequency-penalty"} {
		requireRefused(t, "--presence-penalty and --frequency-penalty: want numbers", "--batch", "1", name, "-Inf")
		requireRefused(t, "--presence-penalty and --frequency-penalty: want numbers", "--batch", "1", name, "NaN")
	}
	requireRefused(t, `--sizes: "1073741825" is not a number from 1 to`, "--ops", "copy", "--sizes", "4096,1073741825")
	requireRefused(t, `--rows: "1048577" is not a number from 1 to`, "--ops", "quantized_matmul", "--sizes", "4096", "--rows", "1048577")
	const context = "exceed the model's context of 4096"
	requireRefused(t, "pp2147483647: 2147483647 tokens "+context, "-p", "2147483647")
	requireRefused(t, "pp4096 @ d1: 4097 tokens "+context, "-p", "4096", "-n", "0", "-d", "1")
	requireRefused(t, "tg4096: 4097 tokens "+context, "-p", "4096", "-n", "4096")
	requireRefused(t, "--context: 4097 tokens "+context, "--batch", "1", "--context", "4097")
	requireRefused(t, "--batch: prompts of 4000 and answers of 97 tokens "+context, "--batch", "1", "-p", "4000", "-n", "97")
	o := options{prompts: []int{4096}, gens: []int{4095}, depths: []int{0}}
	require.NoError(t, o.checkContext(4096))
}

// Flags that would have no effect are refused.
func TestIgnoredFlags(t *testing.T) {
	for _, c := range []struct {
		want string
		args []string
	}{
		{"--shape demo excludes --packing", []string{"--shape", "demo", "--packing", "4g64"}},
		{"--shape demo excludes --out", []string{"--shape", "demo", "--out", "x"}},
		{"--sizes and --rows require --ops", []string{"--shape", "demo", "--sizes", "4096"}},
		{"--sizes and --rows require --ops", []string{"--shape", "demo", "--rows", "1"}},
		{"--rows has no effect on scan,copy", []string{"--ops", "scan,copy", "--rows", "3"}},
		{"--batch excludes --threads, --eager, --region", []string{"--shape", "demo", "--batch", "1", "--region"}},
		{"--batch-invariance and several devices need --batch", []string{"--shape", "demo", "--batch-invariance"}},
		{"penalties, --logprobs, --schema, --batch-invariance and several devices need --batch", []string{"--shape", "demo", "--logprobs"}},
		{"need --batch", []string{"--shape", "demo", "--schema", "x"}},
		{"--special-clients needs penalties, --logprobs or --schema", []string{"--shape", "demo", "--batch", "1", "-p", "1", "-n", "2", "--special-clients", "1"}},
		{"need --batch", []string{"--shape", "demo", "--repetition-penalty", "1.1"}},
		{"need --batch", []string{"--shape", "demo", "--presence-penalty", "1"}},
		{"need --batch", []string{"--shape", "demo", "--frequency-penalty", "1"}},
		{"exclude each other", []string{"--shape", "demo", "--batch", "1", "-p", "1", "-n", "2", "--batch-invariance", "--no-batch-invariance"}},
		{"--ops excludes --batch", []string{"--ops", "copy", "--batch", "2"}},
		{"--ops excludes --model", []string{"--ops", "copy", "--model", "x"}},
		{"--ops excludes --shape", []string{"--ops", "copy", "--shape", "tiny"}},
		{"--ops excludes -p", []string{"--ops", "copy", "-p", "1"}},
		{"--ops excludes --n-gen", []string{"--ops", "copy", "--n-gen", "1"}},
		{"--ops excludes --repetitions", []string{"--ops", "copy", "--repetitions", "1"}},
		{"--ops excludes --seed", []string{"--ops", "copy", "--seed", "1"}},
		{"--ops excludes --threads", []string{"--ops", "copy", "--threads", "1"}},
		{"--ops excludes --top-k", []string{"--ops", "copy", "--top-k", "1"}},
		{"--ops excludes --dtype", []string{"--ops", "copy", "--dtype", "float16"}},
		{"--top-k requires a --temp", []string{"--shape", "demo", "--top-k", "1"}},
		{"--top-p requires a --temp", []string{"--shape", "demo", "--top-p", "0.5", "--temp", "0"}},
		{"--min-p requires a --temp", []string{"--shape", "demo", "--min-p", "0.5"}},
		{"--model excludes --shape", []string{"--model", "x", "--shape", "tiny"}},
		{"--model excludes --packing", []string{"--model", "x", "--packing", "4g64"}},
		{"--model excludes --out", []string{"--model", "x", "--out", "y"}},
		{"nothing to measure", []string{"--shape", "demo", "-p", "0", "-n", "0,0"}},
	} {
		var shown bytes.Buffer
		require.ErrorContains(t, run(t.Context(), append(c.args, "--device", "cpu"), io.Discard, &shown), c.want, c.args)
		require.Zero(t, shown.Len(), c.args)
	}
}

// A --top-p of 0 leaves the likeliest token, as in decode.
func TestTopPZero(t *testing.T) {
	for given, want := range map[string]float64{"0": math.SmallestNonzeroFloat64, "0.5": 0.5, "1": 1} {
		o, err := parse([]string{"--temp", "1", "--top-p", given}, io.Discard)
		require.NoError(t, err)
		require.Equal(t, want, o.sampling.TopP)
	}
}

func TestHelp(t *testing.T) {
	var out bytes.Buffer
	require.ErrorIs(t, run(t.Context(), []string{"--help"}, &out, io.Discard), flag.ErrHelp)
	for _, flag := range []string{"-p, --n-prompt", "-n, --n-gen", "-d, --n-depth", "-r, --repetitions", "--model", "--plot", "--json", "--version"} {
		require.Contains(t, out.String(), "\n  "+flag)
	}
	out.Reset()
	require.ErrorIs(t, run(t.Context(), []string{"--version"}, &out, io.Discard), flag.ErrHelp)
	require.Regexp(t, `^bench \(kompute-go\) .+\n$`, out.String())
}

// What cannot be drawn is refused before it is measured.
func TestPlotWithoutAPicture(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.svg")
	requireRefused(t, "--threads cannot be drawn", "--threads", "1", "--plot", file)
	requireRefused(t, "nothing to measure", "-p", "0", "-n", "0", "--plot", file)
	o := options{plot: file, ops: "copy", prompts: []int{0}, gens: []int{0}, depths: []int{0}}
	if err := o.checkPlot(); err != nil {
		require.ErrorContains(t, err, plotter, "ops can be drawn")
	}
}
