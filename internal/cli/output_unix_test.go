//go:build unix

package cli

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// A pipe in the place of a file is written if somebody reads it, and not waited for.
func TestCreateOutputInAPipe(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	_, err := CreateOutput(pipe)
	require.ErrorIs(t, err, syscall.ENXIO)
	reader, err := os.OpenFile(pipe, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	require.NoError(t, err)
	f, err := CreateOutput(pipe)
	require.NoError(t, err)
	_, err = f.WriteString("text")
	require.NoError(t, err)
	require.NoError(t, f.Close())
	got := make([]byte, 8)
	n, err := reader.Read(got)
	require.NoError(t, err)
	require.Equal(t, "text", string(got[:n]))
	require.NoError(t, reader.Close())
}
