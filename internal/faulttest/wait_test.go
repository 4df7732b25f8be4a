//go:build cgo && !nogpu

package faulttest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/ops"
)

// heldBack returns an event of a Vulkan device that comes after open is called, its stream, and a CPU device.
func heldBack(t *testing.T) (ev *kompute.Event, s *kompute.Stream, cpu *kompute.Device, open func()) {
	_, s, x := started(t)
	cpu, err := kompute.Open("cpu")
	require.NoError(t, err)
	far, err := cpu.NewStream()
	require.NoError(t, err)
	ctx, open := context.WithCancel(bg)
	t.Cleanup(func() {
		open()
		_ = cpu.Close()
	})
	far.Enqueue(kompute.Op{Name: "faulttest_wait", CPU: func([]array.Array, []byte) error { <-ctx.Done(); return nil }})
	s.Wait(far.Record())
	ops.Add(s, x, x)
	return s.Record(), s, cpu, open
}

// failOneWait lets the driver lack memory for the next wait.
func failOneWait(t *testing.T) {
	control.Fail("vkWaitSemaphores", 1, 1, outOfHostMemory)
	require.Eventually(t, func() bool { return control.Failed() == 1 }, time.Minute, time.Millisecond)
	control.Disarm()
}

// Work after an event of another device, and that of a third stream after it, does not run before the event,
// although the driver once lacks memory to wait for it.
func TestAnEventThatCannotBeWaitedForAtOnce(t *testing.T) {
	ev, s, _, open := heldBack(t)
	_, o, y := started(t)
	third, err := o.Device().NewStream()
	require.NoError(t, err)
	o.Wait(ev)
	z := ops.Add(o, y, y)
	w := ops.Add(third, z, z)
	require.NoError(t, third.Flush())
	failOneWait(t)
	soon, cancel := context.WithTimeout(bg, 100*time.Millisecond)
	defer cancel()
	_, err = w.Read(soon)
	require.ErrorIs(t, err, context.DeadlineExceeded, "it ran before the event")
	open()
	for _, stream := range []*kompute.Stream{s, o, third} {
		require.NoError(t, stream.Synchronize(bg))
	}
	read, err := y.Read(bg)
	require.NoError(t, err)
	got, err := w.Read(bg)
	require.NoError(t, err)
	for i, v := range read {
		require.Equal(t, 4*v, got[i])
	}
}

// Nor does a stream of the CPU that waits for such an event fail.
func TestAnEventThatTheCPUCannotWaitForAtOnce(t *testing.T) {
	ev, s, cpu, open := heldBack(t)
	o, err := cpu.NewStream()
	require.NoError(t, err)
	y, err := kompute.New(cpu, ramp(1))
	require.NoError(t, err)
	o.Wait(ev)
	z := ops.Add(o, y, y)
	require.NoError(t, o.Flush())
	failOneWait(t)
	soon, cancel := context.WithTimeout(bg, 20*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, o.Synchronize(soon), context.DeadlineExceeded)
	open()
	require.NoError(t, s.Synchronize(bg))
	got, err := z.Read(bg)
	require.NoError(t, err)
	require.Equal(t, ramp(2), got)
}
