package model_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/testmodel"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/model"
)

// A host replaces a lost device as often as it may, then by the CPU, which it never replaces.
// Others that used the old device get the replacement, also if their error is ErrClosed.
func TestHostReplaces(t *testing.T) {
	c, _ := testmodel.Small().Open(t)
	dev, err := kompute.Open("cpu")
	require.NoError(t, err)
	defer dev.Close()
	h, err := model.NewHost(t.Context(), dev, c, model.Options{}, model.HostOptions{Most: 1, OnCPU: true})
	require.NoError(t, err)
	defer h.Close()
	lost, closed := fmt.Errorf("made up: %w", kompute.ErrDeviceLost), fmt.Errorf("made up: %w", kompute.ErrClosed)
	first := h.Model()
	_, err = h.Replace(t.Context(), first, closed)
	require.Equal(t, closed, err, "nobody has replaced it")
	second, err := h.Replace(t.Context(), first, lost)
	require.NoError(t, err)
	for _, cause := range []error{lost, closed} {
		same, err := h.Replace(t.Context(), first, cause)
		require.NoError(t, err)
		require.Same(t, second, same)
	}
	onCPU, err := h.Replace(t.Context(), second, lost)
	require.NoError(t, err)
	require.NotSame(t, second, onCPU)
	_, err = h.Replace(t.Context(), onCPU, lost)
	require.Equal(t, lost, err)
	require.Equal(t, 1, h.Replaced())
}

// watcher is a log that calls a function for each line.
type watcher struct {
	slog.Handler
	saw func(line string)
}

func (w watcher) Enabled(context.Context, slog.Level) bool { return true }

func (w watcher) Handle(_ context.Context, r slog.Record) error {
	w.saw(r.Message)
	return nil
}

// Others can read a host's model while its device is replaced, which may take long.
func TestHostIsReadWhileItReplaces(t *testing.T) {
	c, _ := testmodel.Small().Open(t)
	var h *model.Host
	during := make(chan model.Model, 1)
	saw := func(line string) {
		if line != "a lost device is replaced" {
			return
		}
		go func() {
			h.Replaced()
			during <- h.Model()
		}()
		select {
		case m := <-during:
			during <- m
		case <-time.After(30 * time.Second): // the test fails
		}
	}
	dev, err := kompute.Open("cpu", kompute.WithLogger(slog.New(watcher{slog.DiscardHandler, saw})))
	require.NoError(t, err)
	defer dev.Close()
	h, err = model.NewHost(t.Context(), dev, c, model.Options{}, model.HostOptions{})
	require.NoError(t, err)
	defer h.Close()
	first := h.Model()
	_, err = h.Replace(t.Context(), first, fmt.Errorf("made up: %w", kompute.ErrDeviceLost))
	require.NoError(t, err)
	require.Len(t, during, 1, "it could be read")
	require.Same(t, first, <-during)
}
