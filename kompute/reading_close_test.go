package kompute

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// readUnderGate is a read of work that a gate holds back.
type readUnderGate struct {
	tensor  *Tensor[float32]
	reading *Reading[float32]
	want    []float32
}

// Reads of work that a gate holds back, while others close tensors, the streams and the
// device, with contexts that end: each read ends, with its elements or because something
// was closed, and so does each call that closes.
func TestReadsUnderGatesWhileClosing(t *testing.T) {
	openBoth(t, func(t *testing.T, open func(...Option) *Device) {
		spec := map[bool]string{true: "cpu", false: "vulkan"}[open().Info().Backend == "cpu"]
		rapid.Check(t, func(r *rapid.T) {
			d, err := Open(spec)
			require.NoError(r, err)
			cpu, err := Open("cpu")
			require.NoError(r, err)
			for _, err := range closeUnderReads(r, d, cpu) {
				if !errors.Is(err, ErrClosed) {
					t.Errorf("a read ended with %v", err) // also where rapid cannot repeat it
				}
			}
			ctx, cancel := context.WithTimeout(bg, waitLimit)
			defer cancel()
			require.NoError(r, d.Shutdown(ctx))
			require.NoError(r, cpu.Shutdown(ctx))
		})
	})
}

// closeUnderReads returns why reads ended without elements.
func closeUnderReads(t *rapid.T, d, cpu *Device) (ended []error) {
	host, err := cpu.NewStream()
	require.NoError(t, err)
	var streams []*Stream
	for range rapid.IntRange(1, 3).Draw(t, "streams") {
		s, err := d.NewStream()
		require.NoError(t, err)
		streams = append(streams, s)
	}
	gate := make(chan struct{})
	hostOp(host, func() { <-gate })
	x, err := New(d, upTo(8), 8)
	require.NoError(t, err)
	streams[0].Wait(host.Record())
	reads := startReads(t, streams, x)

	actions := []func(context.Context) error{func(context.Context) error { close(gate); return nil }, d.Shutdown}
	for _, s := range streams {
		actions = append(actions, s.Shutdown)
	}
	for _, r := range reads {
		actions = append(actions,
			func(context.Context) error { return r.tensor.Close() },
			func(ctx context.Context) error { _, err := r.reading.Wait(ctx); return err })
	}
	var all sync.WaitGroup
	for i, act := range actions {
		delay, limit := rapid.IntRange(0, 3000).Draw(t, "delay"), rapid.IntRange(0, 3000).Draw(t, "limit")
		if i == 1 && rapid.Bool().Draw(t, "the device last") {
			delay = 4000
		}
		all.Go(func() {
			time.Sleep(time.Duration(delay) * time.Microsecond)
			ctx, cancel := context.WithTimeout(bg, time.Duration(limit)*time.Microsecond)
			defer cancel()
			if err := act(ctx); err != nil && !errors.Is(err, ErrClosed) && !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("action %d: %v", i, err)
			}
		})
	}
	all.Wait()
	ctx, cancel := context.WithTimeout(bg, waitLimit)
	defer cancel()
	for _, r := range reads {
		got, err := r.reading.Wait(ctx)
		if err != nil {
			ended = append(ended, err)
			continue
		}
		require.Equal(t, r.want, got)
	}
	_ = x.Close()
	return ended
}

// startReads enqueues work and reads of it on several streams, each behind the gate that
// the first one waits for.
func startReads(t *rapid.T, streams []*Stream, x *Tensor[float32]) (reads []readUnderGate) {
	want := upTo(8)
	y := x
	for range rapid.IntRange(1, 6).Draw(t, "reads") {
		s := streams[rapid.IntRange(0, len(streams)-1).Draw(t, "stream")]
		for _, other := range streams {
			s.Wait(other.Record())
		}
		y = run(s, "neg", y)
		next := make([]float32, len(want))
		for i, v := range want {
			next[i] = -v
		}
		want = next
		reads = append(reads, readUnderGate{y, y.ReadAsync(s), want})
	}
	return reads
}
