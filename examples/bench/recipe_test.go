package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/llm/checkpoint"
)

// What an interrupted run leaves in a folder that was there before is made again, also in another shape.
func TestAnInterruptedFolderIsMadeAgain(t *testing.T) {
	four, err := findShape("tiny", defaultPacking)
	require.NoError(t, err)
	eight, err := findShape("tiny", "8g128")
	require.NoError(t, err)
	for _, first := range []shape{four, eight} {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "notes.txt"), []byte("mine"), 0o600))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, makeFolder(ctx, dir, first, 1, io.Discard), context.Canceled)
		require.FileExists(t, filepath.Join(dir, checkpoint.ConfigFile), "it was begun")
		left := filepath.Join(dir, "model-00007.safetensors")
		require.NoError(t, os.WriteFile(left, nil, 0o600))

		var shown bytes.Buffer
		require.NoError(t, makeFolder(t.Context(), dir, four, 1, &shown))
		require.Contains(t, shown.String(), "bench: making tiny")
		require.NoFileExists(t, left)
		require.FileExists(t, filepath.Join(dir, "notes.txt"))
		c, err := checkpoint.Open(dir)
		require.NoError(t, err)
		require.Equal(t, 4, c.Config.Quantization.Bits)
		require.NoError(t, c.Close())
		shown.Reset()
		require.NoError(t, makeFolder(t.Context(), dir, four, 1, &shown))
		require.Zero(t, shown.Len(), "it is complete")
	}
}

// Files that this program has not made are not overwritten.
func TestForeignFilesAreKept(t *testing.T) {
	s, err := findShape("tiny", defaultPacking)
	require.NoError(t, err)
	for _, name := range []string{checkpoint.ConfigFile, checkpoint.TokenizerFile, checkpoint.TokenizerConfigFile, checkpoint.GenerationFile,
		checkpoint.IndexFile, checkpoint.WeightsFile, "model-00001.safetensors", recipeFile} {
		dir := t.TempDir()
		file := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(file, []byte("mine"), 0o600))
		err := makeFolder(t.Context(), dir, s, 1, io.Discard)
		require.ErrorContains(t, err, "--out: "+file, name)
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Equal(t, "mine", string(text))
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Len(t, entries, 1)
	}
}
