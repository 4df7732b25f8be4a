//go:build cgo && !nogpu

package faulttest

import (
	"bytes"
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/ops"
)

// Tests of a device that hangs must end soon; otherwise a failing test would never end.
const soon = 20 * time.Second

// lockedBuffer is a log that several goroutines write.
type lockedBuffer struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all.String()
}

// hung opens a device that hangs, with work in flight: a region's replay after an
// op. Calls detect that after the limit.
func hung(t *testing.T, opts ...kompute.Option) (*kompute.Device, *kompute.Stream, *kompute.Region, *kompute.Tensor[float32]) {
	d, err := kompute.Open("vulkan", opts...)
	require.NoError(t, err)
	s, err := d.NewStream()
	require.NoError(t, err)
	x, err := kompute.New(d, ramp(1))
	require.NoError(t, err)
	r, err := s.Capture(func(s *kompute.Stream) { addInto(s, x, x) })
	require.NoError(t, err)
	require.NoError(t, r.Replay(bg))
	require.NoError(t, s.Synchronize(bg))
	control.Reset()
	control.Hang(true)
	t.Cleanup(func() {
		control.Hang(false)
		control.Disarm()
	})
	y := ops.Add(s, x, x)
	require.NoError(t, r.Replay(bg))
	return d, s, r, y
}

// inTimeOf fails the test if f takes longer than the limit allows.
func inTimeOf(t *testing.T, what string, f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-time.After(soon):
		require.FailNow(t, "it hangs", what)
		return nil
	}
}

// Close returns after the limit, names the work that hangs, and frees nothing
// that the device may still use.
func TestADeviceThatHangsIsClosed(t *testing.T) {
	var log lockedBuffer
	d, s, _, y := hung(t, kompute.WithHangLimit(300*time.Millisecond), kompute.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	other, err := d.NewStream()
	require.NoError(t, err)
	began := time.Now()
	require.ErrorIs(t, inTimeOf(t, "Stream.Close", s.Close), kompute.ErrDeviceLost)
	require.GreaterOrEqual(t, time.Since(began), 250*time.Millisecond)
	hang := d.Stats().Hang
	require.Contains(t, hang, "stream 1, submission 3")
	require.Contains(t, hang, "1 binary")
	require.Contains(t, hang, "1 times a region of 1 dispatches: 1 binary")
	require.ErrorContains(t, s.Err(), hang)
	require.Contains(t, log.String(), hang)
	_, err = y.Read(bg)
	require.ErrorIs(t, err, kompute.ErrDeviceLost)
	ops.Add(other, y, y)
	require.ErrorIs(t, other.Synchronize(bg), kompute.ErrDeviceLost)
	_, err = d.NewStream()
	require.ErrorIs(t, err, kompute.ErrDeviceLost)
	require.ErrorIs(t, inTimeOf(t, "Device.Close", d.Close), kompute.ErrDeviceLost)
	for _, function := range []string{"vkDestroyDevice", "vkFreeMemory", "vkDestroyBuffer", "vkDestroyCommandPool", "vkDestroyDescriptorPool", "vkDestroyPipeline", "vkDestroySemaphore"} {
		require.Zero(t, control.Called(function), function)
	}
	control.Hang(false)
	again, ok, x := started(t)
	require.NotNil(t, again)
	got, err := ops.Add(ok, x, x).Read(bg)
	require.NoError(t, err)
	require.Equal(t, ramp(2), got)
}

// Without a limit, every call with a context returns when that ends.
func TestCallsOnADeviceThatHangsHeedTheirContexts(t *testing.T) {
	d, s, r, y := hung(t, kompute.WithHangLimit(2*soon)) // so that the test leaves no goroutine behind
	short := func(f func(context.Context) error) func() error {
		return func() error {
			ctx, cancel := context.WithTimeout(bg, 20*time.Millisecond)
			defer cancel()
			return f(ctx)
		}
	}
	for name, f := range map[string]func(context.Context) error{
		"Synchronize": s.Synchronize,
		"Event.Wait":  s.Record().Wait,
		"Read":        func(ctx context.Context) error { _, err := y.Read(ctx); return err },
		"Profile":     func(ctx context.Context) error { _, err := r.Profile(ctx, 1); return err },
		"Replay with many under way": func(ctx context.Context) error {
			for {
				if err := r.Replay(ctx); err != nil {
					return err
				}
			}
		},
	} {
		require.ErrorIs(t, inTimeOf(t, name, short(f)), context.DeadlineExceeded, name)
	}
	require.NoError(t, s.Err(), "none of these poisons the stream")
	// A call that nothing ends does not block others.
	go func() { _ = r.Replay(bg) }()
	require.ErrorIs(t, inTimeOf(t, "Synchronize beside Replay", short(s.Synchronize)), context.DeadlineExceeded)
	require.ErrorIs(t, inTimeOf(t, "Replay beside Replay", short(r.Replay)), context.DeadlineExceeded)
	require.ErrorIs(t, inTimeOf(t, "Stream.Shutdown", short(s.Shutdown)), context.DeadlineExceeded)
	require.ErrorIs(t, inTimeOf(t, "Device.Shutdown", short(d.Shutdown)), context.DeadlineExceeded)
}

// An op that runs out of memory waits for the stream's work before it tries again,
// but no longer than the stream's context allows, which then poisons the stream, or
// than the limit.
func TestAnOpWithoutMemoryOnADeviceThatHangs(t *testing.T) {
	const large = 20 << 20 // elements: more than what is reserved
	for name, limit := range map[string]time.Duration{"context": 2 * soon, "limit": 200 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			d, _, _, _ := hung(t, kompute.WithHangLimit(limit))
			ctx, cancel := context.WithCancel(bg)
			if name == "context" {
				ctx, cancel = context.WithTimeout(bg, 50*time.Millisecond)
			}
			defer cancel()
			s, err := d.NewStream(kompute.WithContext(ctx))
			require.NoError(t, err)
			x, err := kompute.Empty[float32](d, large)
			require.NoError(t, err)
			ops.Add(s, x.Slice(0, 0, 8), x.Slice(0, 8, 16)) // work to wait for
			control.Fail("vkAllocateMemory", 1, always, outOfDeviceMemory)
			err = inTimeOf(t, "an op", func() error { ops.Add(s, x, x); return s.Err() })
			if name == "context" {
				require.ErrorIs(t, err, kompute.ErrOutOfMemory)
				require.ErrorIs(t, err, context.DeadlineExceeded)
			} else {
				require.ErrorIs(t, err, kompute.ErrDeviceLost)
			}
		})
	}
}

// A full window waits for room no longer than the stream's context allows.
func TestEnqueueingOnADeviceThatHangs(t *testing.T) {
	d, _, _, y := hung(t, kompute.WithHangLimit(2*soon), kompute.WithWindow(1, 0))
	ctx, cancel := context.WithTimeout(bg, 50*time.Millisecond)
	defer cancel()
	s, err := d.NewStream(kompute.WithContext(ctx))
	require.NoError(t, err)
	require.ErrorIs(t, inTimeOf(t, "Enqueue", func() error {
		for s.Err() == nil {
			ops.Add(s, y, y)
		}
		return s.Err()
	}), context.DeadlineExceeded)
}

// A caller that waits for an event while its stream is being closed is not told that work is done which
// the device has never done.
func TestAnEventOfAStreamThatHangsAndCloses(t *testing.T) {
	for range 3 {
		_, s, _, _ := hung(t, kompute.WithHangLimit(300*time.Millisecond))
		ev := s.Record()
		var stop atomic.Bool
		waited := make(chan error, 1)
		go func() {
			err := ev.Wait(bg)
			for err != nil && !stop.Load() {
				err = ev.Wait(bg)
			}
			waited <- err
		}()
		require.ErrorIs(t, inTimeOf(t, "Stream.Close", s.Close), kompute.ErrDeviceLost)
		stop.Store(true)
		require.ErrorIs(t, <-waited, kompute.ErrDeviceLost)
		control.Hang(false)
	}
}
