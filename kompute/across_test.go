package kompute

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// quickly fails the test if f takes long: if it blocks.
func quickly(t *testing.T, f func()) {
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	select {
	case <-done:
	case <-time.After(waitLimit):
		t.Error("a call blocks that must not")
		<-done
	}
}

// A chain from the CPU to the GPU and back, which begins with a closed gate.
func TestStreamsOfTwoDevicesWaitForEachOther(t *testing.T) {
	onDevices(t, func(t *testing.T, d *Device) {
		cpu := openTest(t, "cpu")
		first, last, g, free := newStream(t, cpu), newStream(t, cpu), newStream(t, d), newStream(t, d)
		gate := make(chan struct{})
		open := sync.OnceFunc(func() { close(gate) })
		defer open()
		var ran atomic.Bool
		x := tensor(t, d, upTo(100))
		var before, behind *Tensor[float32]
		var ev *Event
		quickly(t, func() {
			before = closing(t, run(g, "neg", x))
			hostOp(first, func() { <-gate })
			g.Wait(first.Record())
			behind = closing(t, run(g, "neg", before))
			ev = g.Record()
			last.Wait(ev)
			hostOp(last, func() { ran.Store(true) })
			require.NoError(t, last.Flush())
		})
		require.Equal(t, float32(-99), read(t, before)[99], "what came before the wait is not held back")
		require.Equal(t, float32(-99), read(t, closing(t, run(free, "neg", x)))[99], "nor is another stream")
		for name, wait := range map[string]func(context.Context) error{
			"Synchronize": g.Synchronize, "Event.Wait": ev.Wait, "the CPU's": last.Synchronize,
			"Read": func(ctx context.Context) error { _, err := behind.Read(ctx); return err },
		} {
			ctx, cancel := contextFor(10)
			require.ErrorIs(t, wait(ctx), context.DeadlineExceeded, name)
			cancel()
		}
		require.False(t, ran.Load() || ev.Done())
		after := closing(t, run(free, "copy", behind)) // held back with its operand
		require.NoError(t, free.Flush())
		open()
		require.NoError(t, last.Synchronize(bg))
		require.True(t, ran.Load())
		require.NoError(t, ev.Wait(bg))
		require.Equal(t, upTo(100), read(t, behind))
		require.Equal(t, upTo(100), read(t, after))
	})
}

// An abandoned read of work that is held back does not delay other reads.
func TestReadsPassWorkThatIsHeldBack(t *testing.T) {
	onDevices(t, func(t *testing.T, d *Device) {
		cpu := openTest(t, "cpu")
		c, g, free := newStream(t, cpu), newStream(t, d), newStream(t, d)
		gate := make(chan struct{})
		defer close(gate)
		hostOp(c, func() { <-gate })
		x, y := tensor(t, d, upTo(10)), tensor(t, d, upTo(10))
		g.Wait(c.Record())
		behind, other := closing(t, run(g, "neg", x)), closing(t, run(free, "neg", y))
		for _, s := range []*Stream{g, free} {
			require.NoError(t, s.Flush())
		}
		ctx, cancel := contextFor(10)
		defer cancel()
		_, err := behind.Read(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		ctx, cancel = contextFor(5_000)
		defer cancel()
		got, err := other.Read(ctx)
		require.NoError(t, err)
		require.Equal(t, float32(-9), got[9])
	})
}

func TestTwoDevicesWaitForEachOther(t *testing.T) {
	onDevices(t, func(t *testing.T, one *Device) {
		two := vulkanOrSkip(t)
		a, b := newStream(t, one), newStream(t, two)
		open := holdBack(t, b)
		x, y := tensor(t, one, upTo(10)), tensor(t, two, upTo(10))
		slow := closing(t, run(b, "neg", y))
		a.Wait(b.Record())
		z := closing(t, run(a, "neg", x))
		ev := a.Record()
		ctx, cancel := contextFor(10)
		defer cancel()
		require.ErrorIs(t, ev.Wait(ctx), context.DeadlineExceeded)
		open()
		require.Equal(t, float32(-9), read(t, z)[9])
		b.Wait(ev)
		require.Equal(t, float32(9), read(t, closing(t, run(b, "neg", slow)))[9])
	})
}

// Rings of streams that were started, and a stream that waits for itself.
func TestRingsOfStreamsComeToAnEnd(t *testing.T) {
	onDevices(t, func(t *testing.T, d *Device) {
		cpu := openTest(t, "cpu")
		streams := []*Stream{newStream(t, cpu), newStream(t, d), newStream(t, d), newStream(t, cpu)}
		x := map[*Device]*Tensor[float32]{cpu: tensor(t, cpu, upTo(10)), d: tensor(t, d, upTo(10))}
		var wg sync.WaitGroup
		for g := range 4 {
			wg.Go(func() {
				for round := range 10 {
					for i, s := range streams {
						s.Wait(streams[(i+g+round)%4].Record())
						s.Wait(s.Record())
						y := run(s, "neg", x[s.dev])
						_ = y.Close()
					}
				}
			})
		}
		wg.Wait()
		ctx, cancel := contextFor(20_000)
		defer cancel()
		for _, s := range streams {
			require.NoError(t, s.Synchronize(ctx))
		}
	})
}

// An event after a wait comes after what was waited for, even without work between.
func TestEventsBehindWaits(t *testing.T) {
	onDevices(t, func(t *testing.T, d *Device) {
		cpu := openTest(t, "cpu")
		first, middle, last := newStream(t, cpu), newStream(t, d), newStream(t, d)
		gate := make(chan struct{})
		hostOp(first, func() { <-gate })
		middle.Wait(first.Record())
		last.Wait(middle.Record())
		ev := last.Record()
		ctx, cancel := contextFor(10)
		defer cancel()
		require.ErrorIs(t, ev.Wait(ctx), context.DeadlineExceeded)
		close(gate)
		require.NoError(t, ev.Wait(bg))
		require.True(t, first.Record().Done())
	})
}

func TestCloseWaitsForHeldWork(t *testing.T) {
	onDevices(t, func(t *testing.T, d *Device) {
		cpu := openTest(t, "cpu")
		c, g := newStream(t, cpu), newStream(t, d)
		x := tensor(t, d, upTo(10))
		hostOp(c, func() { time.Sleep(20 * time.Millisecond) })
		g.Wait(c.Record())
		y := closing(t, run(g, "neg", x))
		require.NoError(t, g.Close())
		require.Equal(t, float32(-9), read(t, y)[9])

		// With nothing after the wait, the device closes at once.
		g = newStream(t, d)
		hostOp(c, func() { time.Sleep(20 * time.Millisecond) })
		g.Wait(c.Record())
	})
}

// The event of a poisoned stream is reached nevertheless.
func TestErrorsOfAnotherDevicesEvent(t *testing.T) {
	onDevices(t, func(t *testing.T, d *Device) {
		cpu := openTest(t, "cpu")
		x := tensor(t, d, upTo(4))
		bad := newStream(t, cpu)
		hostOp(bad, func() { time.Sleep(5 * time.Millisecond) })
		bad.Enqueue(Op{Name: "fail", CPU: testOps["fail"]})
		s := newStream(t, d)
		s.Wait(bad.Record())
		require.Equal(t, float32(-3), read(t, closing(t, run(s, "neg", x)))[3])
		require.ErrorIs(t, bad.Synchronize(bg), errTest)
	})
}
