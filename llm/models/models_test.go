package models_test

import (
	"bytes"
	"io/fs"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/llm/models"
)

// TestMote: the embedded folder is the one on disk, without the goldens.
func TestMote(t *testing.T) {
	entries, err := fs.ReadDir(models.Mote(), ".")
	require.NoError(t, err)
	require.Len(t, entries, 6)
	for _, e := range entries {
		got, err := fs.ReadFile(models.Mote(), e.Name())
		require.NoError(t, err)
		want, err := os.ReadFile(models.MoteName + "/" + e.Name())
		require.NoError(t, err)
		require.True(t, bytes.Equal(want, got), e.Name())
	}
}
