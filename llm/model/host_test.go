package model_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/testmodel"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/checkpoint"
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
	for _, nothing := range []*model.Host{nil, {}} {
		_, err = nothing.Replace(t.Context(), first, lost)
		require.Equal(t, lost, err)
	}
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

// hostThatLogs returns a host whose device calls saw for each line of its log.
func hostThatLogs(t *testing.T, c *checkpoint.Checkpoint, h model.HostOptions, saw func(line string)) *model.Host {
	dev, err := kompute.Open("cpu", kompute.WithLogger(slog.New(watcher{slog.DiscardHandler, saw})))
	require.NoError(t, err)
	t.Cleanup(func() { _ = dev.Close() })
	host, err := model.NewHost(t.Context(), dev, c, model.Options{}, h)
	require.NoError(t, err)
	t.Cleanup(func() { _ = host.Close() })
	return host
}

// A caller whose context ends while it replaces the device leaves that to the next one, who
// only learns that the device is closed, and uses up none of the tries.
func TestHostAfterACancelledReplacement(t *testing.T) {
	c, _ := testmodel.Small().Open(t)
	ctx, cancel := context.WithCancel(t.Context())
	h := hostThatLogs(t, c, model.HostOptions{Most: 1}, func(line string) {
		if line == "a lost device is replaced" {
			cancel()
		}
	})
	first := h.Model()
	lost, closed := fmt.Errorf("made up: %w", kompute.ErrDeviceLost), fmt.Errorf("made up: %w", kompute.ErrClosed)
	_, err := h.Replace(ctx, first, lost)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, kompute.ErrDeviceLost)
	require.Zero(t, h.Replaced())
	_, err = first.Device().NewStream()
	require.ErrorIs(t, err, kompute.ErrClosed)
	_, err = h.Replace(ctx, first, closed)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, kompute.ErrDeviceLost, "it is said why it was closed")
	second, err := h.Replace(t.Context(), first, closed)
	require.NoError(t, err)
	require.Equal(t, 1, h.Replaced())
	_, err = h.Replace(t.Context(), second, closed)
	require.Equal(t, closed, err, "the new device is not lost")
}

// A caller whose context has ended already leaves the device as it is.
func TestHostIsNotReplacedForNobody(t *testing.T) {
	c, _ := testmodel.Small().Open(t)
	h := hostThatLogs(t, c, model.HostOptions{}, func(string) {})
	before := h.Model().Device().Stats().LiveTensors
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := h.Replace(ctx, h.Model(), kompute.ErrDeviceLost)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, kompute.ErrDeviceLost)
	require.Equal(t, before, h.Model().Device().Stats().LiveTensors, "the weights are still there")
	_, err = h.Replace(t.Context(), h.Model(), kompute.ErrClosed)
	require.Equal(t, kompute.ErrClosed, err)
}

// A host whose owner has closed it does not open the device again for those who notice.
func TestClosedHostIsNotReplaced(t *testing.T) {
	c, _ := testmodel.Small().Open(t)
	ctx, cancel := context.WithCancel(t.Context())
	h := hostThatLogs(t, c, model.HostOptions{}, func(string) { cancel() })
	_, err := h.Replace(ctx, h.Model(), kompute.ErrDeviceLost)
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, h.Close())
	_, err = h.Replace(t.Context(), h.Model(), kompute.ErrClosed)
	require.Equal(t, kompute.ErrClosed, err)
}

// breaking returns a host that cannot load its model again, and whose device calls saw for
// each line of its log.
func breaking(t *testing.T, saw func(line string)) *model.Host {
	c, _ := testmodel.Small().Open(t)
	h := hostThatLogs(t, c, model.HostOptions{Most: 3}, saw)
	require.NoError(t, c.Close())
	return h
}

// Between tries that fail a host waits, longer each time, and it returns why each failed.
func TestHostWaitsBetweenTries(t *testing.T) {
	defer model.SetPauses(20*time.Millisecond, 60*time.Millisecond)()
	var tries []time.Time
	h := breaking(t, func(line string) {
		if line == "a lost device is replaced" {
			tries = append(tries, time.Now())
		}
	})
	_, err := h.Replace(t.Context(), h.Model(), kompute.ErrDeviceLost)
	require.ErrorIs(t, err, kompute.ErrDeviceLost)
	require.Equal(t, 3, strings.Count(err.Error(), "after another device was opened"), "%v", err)
	require.Equal(t, 3, h.Replaced())
	require.Len(t, tries, 3)
	require.GreaterOrEqual(t, tries[1].Sub(tries[0]), 20*time.Millisecond)
	require.GreaterOrEqual(t, tries[2].Sub(tries[1]), 60*time.Millisecond)
}

// A context that ends ends the wait for the next try.
func TestHostWaitsNoLongerThanItsContext(t *testing.T) {
	defer model.SetPauses(time.Hour)()
	ctx, cancel := context.WithCancel(t.Context())
	h := breaking(t, func(string) { time.AfterFunc(50*time.Millisecond, cancel) })
	_, err := h.Replace(ctx, h.Model(), kompute.ErrDeviceLost)
	require.ErrorIs(t, err, context.Canceled)
	require.LessOrEqual(t, h.Replaced(), 1)
}

// So does one that ends while another caller replaces the device.
func TestHostWaitsForOthersNoLongerThanItsContext(t *testing.T) {
	defer model.SetPauses(time.Hour)()
	first, cancelFirst := context.WithCancel(t.Context())
	defer cancelFirst()
	second, cancelSecond := context.WithCancel(t.Context())
	h := breaking(t, func(string) { time.AfterFunc(20*time.Millisecond, cancelSecond) })
	ended := make(chan error, 1)
	go func() {
		_, err := h.Replace(first, h.Model(), kompute.ErrDeviceLost)
		ended <- err
	}()
	<-second.Done()
	time.AfterFunc(10*time.Second, cancelFirst) // the test fails
	_, err := h.Replace(second, h.Model(), kompute.ErrDeviceLost)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, kompute.ErrDeviceLost)
	require.NoError(t, first.Err(), "it did not wait for the first one")
	cancelFirst()
	require.ErrorIs(t, <-ended, context.Canceled)
}
