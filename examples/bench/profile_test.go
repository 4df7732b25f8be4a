package main

import (
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Where the context ends before the tokens to profile, the numbers are still those of one token.
func TestProfileAtTheEndOfTheContext(t *testing.T) {
	s, err := findShape("tiny", defaultPacking)
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, makeFolder(t.Context(), dir, s, 1, io.Discard))
	config := filepath.Join(dir, "config.json")
	text, err := os.ReadFile(config)
	require.NoError(t, err)
	require.Contains(t, string(text), `"max_position_embeddings": 40960`)
	shorter := strings.Replace(string(text), "40960", "64", 1)
	require.NoError(t, os.WriteFile(config, []byte(shorter), 0o600))
	r := measure(t, "--model", dir, "--device", "cpu", "-p", "0", "-n", "2", "-d", "0,62", "-r", "1", "--profile", "4")
	require.Len(t, r.Profiles, 2)
	for i, tokens := range []int{4, 2} {
		require.Equal(t, tokens, r.Profiles[i].Tokens)
		calls := make(map[string]float64)
		for _, o := range r.Profiles[i].EagerOps {
			calls[o.Op] = o.Calls
		}
		require.EqualValues(t, 2, calls["sdpa"])
		require.EqualValues(t, 1, calls["quantized_gather"])
	}
}

// With two threads and so many keys, attention has a second loop on the CPU backend.
func TestProfileOfManyKeys(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	r := measure(t, "--shape", "tiny", "--device", "cpu", "-p", "0", "-n", "2", "-d", "200", "-r", "1", "--profile", "2")
	require.Len(t, r.Profiles, 1)
	require.True(t, slices.ContainsFunc(r.Profiles[0].Kernels, isAttentionParts))
	checkProfile(t, r.Profiles[0], r.Tests[0].Work, true)
}

func isAttentionParts(k kernel) bool { return strings.HasPrefix(k.name(), "attention_parts ") }

// A profile lists as many dispatches as a token has, and the profile of eager
// tokens as many norms and products as the model has. All take time, except for attention's second
// loop where there are few keys.
func checkProfile(t *testing.T, p *profile, region work, manyKeys bool) {
	require.Positive(t, p.ReplayNanos)
	calls := 0
	for _, k := range p.Kernels {
		calls += k.Calls
		if isAttentionParts(k) && !manyKeys { // the first loop has done it
			require.Zero(t, k.Nanos, k.name())
			continue
		}
		require.Positive(t, k.Nanos, k.name())
	}
	require.EqualValues(t, region.Dispatches, calls)
	require.Equal(t, calls, p.BarrierGaps.Calls+p.OtherGaps.Calls)
	products := 0.0
	for _, o := range p.EagerOps {
		require.Positive(t, o.Nanos, o.Op)
		if o.Op == "quantized_matmul" || o.Op == "projection" {
			products += o.Calls
		}
	}
	require.GreaterOrEqual(t, products, 9.0, "two layers of at least four, and the head")
	require.LessOrEqual(t, products, 15.0, "two layers of seven, and the head")
}
