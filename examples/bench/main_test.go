package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTinyModelIsMeasured(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "tiny")
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), []string{
		"--shape", "tiny", "--out", dir, "--device", "cpu", "-p", "8", "-n", "4", "-d", "0,5", "-r", "1", "--json",
	}, &out, io.Discard))
	var got struct {
		Backend string
		Tests   []struct {
			Name            string
			TokensPerSecond float64 `json:"tokens_per_second"`
		}
	}
	require.NoError(t, json.Unmarshal(out.Bytes(), &got))
	require.Equal(t, "cpu", got.Backend)
	var names []string
	for _, r := range got.Tests {
		names = append(names, r.Name)
		require.Positive(t, r.TokensPerSecond, r.Name)
	}
	require.Equal(t, []string{"pp8", "tg4", "pp8 @ d5", "tg4 @ d5"}, names)

	out.Reset()
	require.NoError(t, run(t.Context(), []string{"--model", dir, "--device", "cpu", "-p", "0", "-n", "2", "-r", "1"}, &out, io.Discard))
	require.Contains(t, out.String(), "tg2")
}

func TestSameSeedMakesTheSameFolder(t *testing.T) {
	s, err := findShape("tiny")
	require.NoError(t, err)
	files := func(seed uint64) []byte {
		dir := t.TempDir()
		require.NoError(t, writeFolder(dir, s, seed))
		data, err := os.ReadFile(filepath.Join(dir, "model-00001.safetensors"))
		require.NoError(t, err)
		return data
	}
	one := files(1)
	require.True(t, bytes.Equal(one, files(1)))
	require.False(t, bytes.Equal(one, files(2)))
}

func TestBadArguments(t *testing.T) {
	for _, args := range [][]string{
		{"--shape", "huge"}, {"-p", "x"}, {"-n", "-1"}, {"-r", "0"}, {"--device", "tpu"}, {"--model", "/nonexistent"},
	} {
		require.Error(t, run(t.Context(), append([]string{"--device", "cpu"}, args...), io.Discard, io.Discard), args)
	}
}
