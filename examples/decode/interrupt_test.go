package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/cli"
)

// Ctrl-C ends cleanly, with the output so far.
func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var stderr bytes.Buffer
	w := &cancelAfter{n: 5, cancel: cancel}
	trace := filepath.Join(t.TempDir(), "trace.json")
	require.Equal(t, cli.ExitInterrupted, run(ctx, []string{"--device=cpu", "--stats", "--trace", trace}, nil, w, &stderr), stderr.String())
	require.Equal(t, "decode: interrupted\n", stderr.String())
	require.Contains(t, w.out.String(), "ended: cancelled")
	require.Contains(t, w.out.String(), "op of a replayed token", "statistics are written all the same")
	info, err := os.Stat(trace)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())
	require.NotContains(t, w.out.String(), "你好啊", "the second prompt is not begun")

	in, _ := io.Pipe() // a user who types nothing
	require.Equal(t, cli.ExitInterrupted, run(ctx, []string{"--chat", "--device=cpu"}, in, io.Discard, &stderr), stderr.String())
	require.NoError(t, in.Close())
}

// A run that is interrupted before it replays anything says so, and not that a file is missing.
func TestCancelledBeforeTheRegion(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var stderr bytes.Buffer
	file := filepath.Join(t.TempDir(), "region.json")
	w := &cancelAfter{n: 1, cancel: cancel} // the prompt is printed before it is read
	code := run(ctx, []string{"--device=cpu", "--dump-region", file}, nil, w, &stderr)
	require.Equal(t, cli.ExitInterrupted, code)
	require.Equal(t, "decode: interrupted\n", stderr.String())
	require.NoFileExists(t, file)
}

// longAnswer makes the answer to "Tell me a story" 4,000 tokens long; with other seeds it
// could end before a test interrupts it.
var longAnswer = []string{"--temp=90", "--seed=169", "--max-tokens=4000"}

// Either signal ends a run with its JSON and its trace written. A signal that comes before the model is loaded leaves
// no JSON: then the next run gets twice as much time.
func TestSignals(t *testing.T) {
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		wait := 200 * time.Millisecond
		for !signalled(t, s, wait) {
			wait *= 2
			require.Less(t, wait, time.Minute, "no JSON, however late the signal")
		}
	}
}

// signalled reports whether a run that a signal ends after a time has printed its JSON.
func signalled(t *testing.T, s syscall.Signal, after time.Duration) bool {
	trace := filepath.Join(t.TempDir(), "trace.json")
	cmd := exec.Command(os.Args[0], append([]string{"--device=cpu", "--json", "--prompt=Tell me a story", "--trace", trace}, longAnswer...)...)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	require.NoError(t, cmd.Start())
	time.Sleep(after)
	require.NoError(t, cmd.Process.Signal(s))
	_ = cmd.Wait()
	if cmd.ProcessState.ExitCode() == -1 && stdout.Len() == 0 {
		return false // the program had not even begun
	}
	require.Equal(t, cli.ExitInterrupted, cmd.ProcessState.ExitCode(), stderr.String())
	data, err := os.ReadFile(trace)
	if err != nil && stdout.Len() == 0 {
		return false // it had no device yet
	}
	require.NoError(t, err)
	require.True(t, json.Valid(data))
	if stdout.Len() == 0 {
		return false
	}
	var got report
	require.NoError(t, json.Unmarshal(stdout.Bytes(), &got))
	require.Equal(t, "cancelled", got.FinishReason)
	return true
}

// cancelAfter cancels at its n-th write.
type cancelAfter struct {
	out    bytes.Buffer
	n      int
	cancel func()
}

func (w *cancelAfter) Write(p []byte) (int, error) {
	if w.n--; w.n == 0 {
		w.cancel()
	}
	return w.out.Write(p)
}
