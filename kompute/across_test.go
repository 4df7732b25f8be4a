package kompute

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/array"
)

// withGPUs runs a test with devices that are no CPU backend: the fake, and
// Vulkan where it is built in.
func withGPUs(t *testing.T, test func(t *testing.T, gpu *Device)) {
	t.Run("fake", func(t *testing.T) {
		d, _ := openFake(t)
		test(t, d)
	})
	if _, err := vulkanDevices(); !errors.Is(err, errNotBuilt) {
		t.Run("vulkan", func(t *testing.T) { test(t, openTest(t, "vulkan")) })
	}
}

// hostOp enqueues f on a stream of the CPU backend.
func hostOp(s *Stream, f func()) {
	s.Enqueue(Op{Name: "host", CPU: func([]array.Array) error { f(); return nil }})
}

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
	withGPUs(t, func(t *testing.T, gpu *Device) {
		cpu := openTest(t, "cpu")
		first, last, g, free := newStream(t, cpu), newStream(t, cpu), newStream(t, gpu), newStream(t, gpu)
		gate := make(chan struct{})
		open := sync.OnceFunc(func() { close(gate) })
		defer open()
		var ran atomic.Bool
		x := tensor(t, gpu, upTo(100))
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
		after := closing(t, run(free, "copy", behind)) // held with what it reads
		require.NoError(t, free.Flush())
		open()
		require.NoError(t, last.Synchronize(bg))
		require.True(t, ran.Load())
		require.NoError(t, ev.Wait(bg))
		require.Equal(t, upTo(100), read(t, behind))
		require.Equal(t, upTo(100), read(t, after))
	})
}

// A read of what is held back, and given up, stands in no other read's way.
func TestReadsPassWorkThatIsHeldBack(t *testing.T) {
	withGPUs(t, func(t *testing.T, gpu *Device) {
		cpu := openTest(t, "cpu")
		c, g, free := newStream(t, cpu), newStream(t, gpu), newStream(t, gpu)
		gate := make(chan struct{})
		defer close(gate)
		hostOp(c, func() { <-gate })
		x, y := tensor(t, gpu, upTo(10)), tensor(t, gpu, upTo(10))
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

func TestTwoGPUsWaitForEachOther(t *testing.T) {
	withGPUs(t, func(t *testing.T, one *Device) {
		two, f := openFake(t)
		f.gate = make(chan struct{})
		a, b := newStream(t, one), newStream(t, two)
		x, y := tensor(t, one, upTo(10)), tensor(t, two, upTo(10))
		slow := closing(t, run(b, "neg", y))
		a.Wait(b.Record())
		z := closing(t, run(a, "neg", x))
		ev := a.Record()
		ctx, cancel := contextFor(10)
		defer cancel()
		require.ErrorIs(t, ev.Wait(ctx), context.DeadlineExceeded)
		close(f.gate)
		require.Equal(t, float32(-9), read(t, z)[9])
		b.Wait(ev)
		require.Equal(t, float32(9), read(t, closing(t, run(b, "neg", slow)))[9])
	})
}

// Rings of streams that were started, and a stream that waits for itself.
func TestRingsOfStreamsComeToAnEnd(t *testing.T) {
	withGPUs(t, func(t *testing.T, gpu *Device) {
		cpu := openTest(t, "cpu")
		streams := []*Stream{newStream(t, cpu), newStream(t, gpu), newStream(t, gpu), newStream(t, cpu)}
		x := map[*Device]*Tensor[float32]{cpu: tensor(t, cpu, upTo(10)), gpu: tensor(t, gpu, upTo(10))}
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

// An event behind a wait lies behind what was waited for, also without work.
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
	withGPUs(t, func(t *testing.T, gpu *Device) {
		cpu := openTest(t, "cpu")
		c, g := newStream(t, cpu), newStream(t, gpu)
		x := tensor(t, gpu, upTo(10))
		hostOp(c, func() { time.Sleep(20 * time.Millisecond) })
		g.Wait(c.Record())
		y := closing(t, run(g, "neg", x))
		require.NoError(t, g.Close())
		require.Equal(t, float32(-9), read(t, y)[9])

		// Nothing behind the wait, and the device goes at once.
		g = newStream(t, gpu)
		hostOp(c, func() { time.Sleep(20 * time.Millisecond) })
		g.Wait(c.Record())
	})
}

func TestErrorsOfAnotherDevicesEvent(t *testing.T) {
	cpu := openTest(t, "cpu")
	gpu, f := openFake(t)
	x := tensor(t, gpu, upTo(4))

	// A poisoned stream's event is reached all the same.
	bad := newStream(t, cpu)
	hostOp(bad, func() { time.Sleep(5 * time.Millisecond) })
	bad.Enqueue(Op{Name: "fail", CPU: testOps["fail"]})
	g := newStream(t, gpu)
	g.Wait(bad.Record())
	require.Equal(t, float32(-3), read(t, closing(t, run(g, "neg", x)))[3])
	require.ErrorIs(t, bad.Synchronize(bg), errTest)

	// A lost device's never is, and fails who waits.
	f.mu.Lock()
	f.gate = make(chan struct{})
	f.mu.Unlock()
	lost := newStream(t, gpu)
	closing(t, run(lost, "neg", x))
	ev := lost.Record()
	f.mu.Lock()
	f.failing["wait"] = nativeError(codeDeviceLost, 0, 0, "VK_ERROR_DEVICE_LOST")
	f.mu.Unlock()
	c := newStream(t, cpu)
	c.Wait(ev)
	other, _ := openFake(t)
	o := newStream(t, other)
	o.Wait(ev)
	for _, s := range []*Stream{c, o} {
		closing(t, run(s, "neg", tensor(t, s.dev, upTo(4))))
		require.Eventually(t, func() bool { return errors.Is(s.Synchronize(bg), ErrDeviceLost) }, waitLimit, waitStep)
	}
	f.mu.Lock()
	clear(f.failing)
	close(f.gate)
	f.mu.Unlock()

	// The native library refuses.
	gpu, f = openFake(t)
	f.failing["hold"] = nativeError(codeDeviceLost, 0, 0, "VK_ERROR_DEVICE_LOST")
	g, c = newStream(t, gpu), newStream(t, cpu)
	gate := make(chan struct{})
	hostOp(c, func() { <-gate })
	g.Wait(c.Record())
	require.ErrorIs(t, g.Err(), ErrDeviceLost)
	close(gate)
}
