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

// Only the links that the system has in /dev are followed, not those in a folder that all may write.
func TestOutputThroughLinksInDev(t *testing.T) {
	require.True(t, inDev("/dev/stdout"))
	require.True(t, inDev("/dev/fd/../fd/1"))
	require.False(t, inDev("/dev/fd/1/x"))
	dir, err := os.MkdirTemp("/dev/shm", "kompute-go")
	if err != nil {
		t.Skipf("no folder in /dev that this user may write: %v", err)
	}
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	file, link := filepath.Join(t.TempDir(), "file"), filepath.Join(dir, "link")
	require.NoError(t, os.WriteFile(file, []byte("text"), 0o600))
	require.NoError(t, os.Symlink(file, link))
	require.ErrorContains(t, CheckOutput("trace", link), "is a symbolic link")
	_, err = CreateOutput(link)
	require.ErrorContains(t, err, "is a symbolic link")
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "text", string(text))
}
