package demomodel_test

import (
	"bytes"
	"io/fs"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/llm/demomodel"
)

// TestFS: the embedded folder is the one on disk, without the goldens.
func TestFS(t *testing.T) {
	entries, err := fs.ReadDir(demomodel.FS(), ".")
	require.NoError(t, err)
	require.Len(t, entries, 6)
	for _, e := range entries {
		got, err := fs.ReadFile(demomodel.FS(), e.Name())
		require.NoError(t, err)
		want, err := os.ReadFile(demomodel.Name + "/" + e.Name())
		require.NoError(t, err)
		require.True(t, bytes.Equal(want, got), e.Name())
	}
}
