package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// The committed files are up to date with the table.
func TestGeneratedFilesAreFresh(t *testing.T) {
	root := filepath.Join("..", "..", "..")
	files, err := generate(root)
	require.NoError(t, err)
	require.Len(t, files, 3)
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join(root, name))
		require.NoError(t, err)
		require.Equal(t, want, string(got), "%s is stale: run go generate ./internal/opdef", name)
	}
}

func TestRowsThatAreNone(t *testing.T) {
	for text, want := range map[string]string{
		"op x":                       "no row",
		"op b B: x >out\nop a A: x":  "alphabetical",
		"op a A: x\n    uint":        "no field",
		"op a A: x\n    uint n[FEW]": "no constant FEW",
		"    add sub":                "belongs to nothing",
		"const N many":               "invalid syntax",
	} {
		_, err := parse(text)
		require.ErrorContains(t, err, want, text)
	}
	text := "op a A: =b x >out"
	table, err := parse(text)
	require.NoError(t, err)
	require.ErrorContains(t, table.resolve(text), "no op b")
}
