package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// When nobody reads the answer any more, the files that were asked for are written all the same.
func TestBrokenPipe(t *testing.T) {
	dir := t.TempDir()
	trace, region := filepath.Join(dir, "trace.json"), filepath.Join(dir, "region.json")
	cmd := exec.Command(os.Args[0], append([]string{"--device=cpu", "--stats", "--prompt=Tell me a story", "--trace", trace, "--dump-region", region}, longAnswer...)...)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	_, err = io.ReadFull(stdout, make([]byte, 200)) // the prompt and the first tokens
	require.NoError(t, err)
	require.NoError(t, stdout.Close())
	var exit *exec.ExitError
	require.ErrorAs(t, cmd.Wait(), &exit)
	require.Equal(t, 1, exit.ExitCode(), stderr.String())
	require.Equal(t, 1, strings.Count(stderr.String(), "broken pipe"), stderr.String())
	for _, file := range []string{trace, region} {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		require.True(t, json.Valid(data), file)
	}
}

// failsAt is an output that fails from its n-th write on.
type failsAt struct{ n int }

func (w *failsAt) Write(p []byte) (int, error) {
	if w.n--; w.n <= 0 {
		return 0, syscall.ENOSPC
	}
	return len(p), nil
}

// An error before anything was replayed is reported, and not that there is no region; the trace is written.
func TestFailedOutput(t *testing.T) {
	dir := t.TempDir()
	trace, region := filepath.Join(dir, "trace.json"), filepath.Join(dir, "region.json")
	var stderr bytes.Buffer
	require.Equal(t, 1, run(t.Context(), []string{"--device=cpu", "--trace", trace, "--dump-region", region}, nil, &failsAt{1}, &stderr))
	require.Equal(t, "decode: no space left on device\n", stderr.String())
	require.FileExists(t, trace)
	require.NoFileExists(t, region)
}
