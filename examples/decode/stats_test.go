package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The table has the ops of prompt and tokens, on both backends.
func TestStats(t *testing.T) {
	for _, device := range backends() {
		out := runArgs(t, "--prompt", "Hi", "--max-tokens", "4", "--device", device, "--stats")
		require.Zero(t, out.code, out.stderr)
		require.Regexp(t, `(?m)^quantized_matmul +43 +43 +\S+s +\S+s$`, out.stdout)
		require.Regexp(t, `(?m)^replayed, not measured inside +\d+ +\S+s$`, out.stdout)
		require.Regexp(t, `(?m)^calls of products +1 row +2 to 8 +9 to 16 +more$\n^quantized_matmul +[1-9]\d* +\d+ +\d+ +\d+$`, out.stdout)
		require.Regexp(t, `(?m)^peak bytes +[1-9]\d+$`, out.stdout)
	}
}

// Ops that ran on the CPU instead of the device are listed with reason and cost.
func TestStatsOfFallbacks(t *testing.T) {
	t.Setenv("KOMPUTE_GO_DISABLE", "rope,rms_norm")
	for _, device := range backends() {
		out := runArgs(t, "--prompt", "Hi", "--max-tokens", "4", "--device", device, "--stats")
		require.Zero(t, out.code, out.stderr)
		if !strings.Contains(out.stdout, "(vulkan)") {
			require.NotContains(t, out.stdout, "on the CPU instead")
			continue
		}
		require.Regexp(t, `(?m)^op on the CPU instead +calls +reason$\n^rms_norm +[1-9]\d* +disabled$\n^rope +[1-9]\d* +disabled$`, out.stdout)
		require.Regexp(t, `(?m)^moved for it +waits +of +downloads +bytes +uploads +bytes$\n^rms_norm( +[1-9]\S*){6}$\n^rope( +[1-9]\S*){6}$`, out.stdout)
	}
}

// The trace is JSON that has every replayed op.
func TestTrace(t *testing.T) {
	file := filepath.Join(t.TempDir(), "trace.json")
	out := runArgs(t, "--quiet", "--prompt", "Hi", "--max-tokens", "4", "--device=cpu", "--trace", file)
	require.Zero(t, out.code, out.stderr)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var trace struct {
		Events []struct {
			Name string
			Pid  int
		} `json:"traceEvents"`
	}
	require.NoError(t, json.Unmarshal(text, &trace))
	attention := 0
	for _, e := range trace.Events {
		if (e.Name == "sdpa" || e.Name == "attention_step") && e.Pid == 2 { // of the prompt, and of a replayed token
			attention++
		}
	}
	require.GreaterOrEqual(t, attention, 6*4, "six layers, a prompt and three tokens")
}
