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

var bg = context.Background()

// always is more calls than there ever are.
const always = ^uint64(0)

// started opens a device with a stream and a tensor.
func started(t *testing.T) (*kompute.Device, *kompute.Stream, *kompute.Tensor[float32]) {
	d, err := kompute.Open("vulkan")
	require.NoError(t, err)
	t.Cleanup(func() {
		control.Disarm()
		_ = d.Close()
	})
	s, err := d.NewStream()
	require.NoError(t, err)
	x, err := kompute.New(d, ramp(1))
	require.NoError(t, err)
	return d, s, x
}

// A stream that finds the device lost, by its work or by a wait, is poisoned with that error.
func TestALostDevicePoisonsTheStream(t *testing.T) {
	for _, function := range []string{"vkQueueSubmit", "vkWaitSemaphores"} {
		t.Run(function, func(t *testing.T) {
			_, s, x := started(t)
			y := ops.Add(s, x, x)
			reading := y.ReadAsync(s)
			control.Fail(function, 1, always, deviceLost)
			z := ops.Add(s, y, x)
			_, err := z.Read(bg)
			require.ErrorIs(t, err, kompute.ErrDeviceLost)
			require.ErrorIs(t, s.Err(), kompute.ErrDeviceLost)
			_, err = reading.Wait(bg)
			require.ErrorIs(t, err, kompute.ErrDeviceLost)
			control.Disarm()
			require.ErrorIs(t, s.Synchronize(bg), kompute.ErrDeviceLost)
		})
	}
}

// Results of a stream that was closed normally, but were not read before the
// device was lost, are gone, and reading them reports that.
func TestResultsOfClosedStreamsOnALostDevice(t *testing.T) {
	_, s, x := started(t)
	y := ops.Add(s, x, x)
	require.NoError(t, s.Close())
	control.Fail("vkQueueSubmit", 1, 1, deviceLost)
	for range 2 {
		got, err := y.Read(bg)
		require.ErrorIs(t, err, kompute.ErrDeviceLost, "%v", got)
	}
}

// Streams of the CPU and of another Vulkan device that wait for an event fail if
// its device is lost before it.
func TestAnEventOfALostDevice(t *testing.T) {
	_, s, x := started(t)
	cpu, err := kompute.Open("cpu")
	require.NoError(t, err)
	defer func() { _ = cpu.Close() }()
	far, err := cpu.NewStream()
	require.NoError(t, err)
	gate := make(chan struct{})
	far.Enqueue(kompute.Op{Name: "faulttest_wait", CPU: func([]array.Array, []byte) error { <-gate; return nil }})
	s.Wait(far.Record())
	ops.Add(s, x, x)
	ev := s.Record()

	other, o, y := started(t)
	require.NotNil(t, other)
	waiting, err := cpu.NewStream()
	require.NoError(t, err)
	control.Fail("vkQueueSubmit", 1, 1, deviceLost)
	close(gate) // the work that was held back is refused
	waiting.Wait(ev)
	o.Wait(ev)
	far2, err := kompute.New(cpu, ramp(1))
	require.NoError(t, err)
	ops.Add(waiting, far2, far2)
	ops.Add(o, y, y)
	for _, s := range []*kompute.Stream{waiting, o} {
		require.Eventually(t, func() bool {
			ctx, cancel := context.WithTimeout(bg, time.Second)
			defer cancel()
			_ = s.Synchronize(ctx)
			return s.Err() != nil
		}, time.Minute, time.Millisecond)
		require.ErrorIs(t, s.Err(), kompute.ErrDeviceLost)
	}
}

// If the driver refuses one read, it may accept the next, and the stream is not
// affected.
func TestAReadThatIsRefusedOnce(t *testing.T) {
	_, s, x := started(t)
	y := ops.Add(s, x, x)
	require.NoError(t, s.Synchronize(bg))
	control.Fail("vkQueueSubmit", 1, always, outOfHostMemory)
	_, err := y.Read(bg)
	require.ErrorIs(t, err, kompute.ErrOutOfMemory)
	control.Disarm()
	got, err := y.Read(bg)
	require.NoError(t, err)
	require.Equal(t, ramp(2), got)
	require.NoError(t, s.Synchronize(bg))
}

// Work that is lost for lack of memory poisons its stream, whichever call learns of it
// first. Such a call must not be repeated as if nothing but itself had failed.
func TestLostWorkPoisonsTheStream(t *testing.T) {
	for name, c := range map[string]struct {
		learn func(t *testing.T, s *kompute.Stream, x *kompute.Tensor[float32], r *kompute.Region)
		own   bool // the call submits the work itself; otherwise another stream's call has
	}{
		"an op": {func(_ *testing.T, s *kompute.Stream, x *kompute.Tensor[float32], _ *kompute.Region) { ops.Add(s, x, x) }, false},
		"an op that waits": {func(t *testing.T, s *kompute.Stream, x *kompute.Tensor[float32], _ *kompute.Region) {
			o, err := s.Device().NewStream()
			require.NoError(t, err)
			y := ops.Add(o, x, x)
			control.Disarm()
			require.NoError(t, o.Flush())
			control.Fail("vkQueueSubmit", 1, 1, outOfHostMemory)
			ops.Add(s, y, y)
		}, true},
		"an upload": {func(t *testing.T, s *kompute.Stream, _ *kompute.Tensor[float32], _ *kompute.Region) {
			y, err := kompute.New(s.Device(), ramp(2))
			require.NoError(t, err)
			s.Upload(y)
		}, false},
		"a read": {func(t *testing.T, s *kompute.Stream, x *kompute.Tensor[float32], _ *kompute.Region) {
			_, err := x.ReadAsync(s).Wait(bg)
			require.ErrorIs(t, err, kompute.ErrOutOfMemory)
		}, false},
		"a capture": {func(t *testing.T, s *kompute.Stream, x *kompute.Tensor[float32], _ *kompute.Region) {
			_, err := s.Capture(func(s *kompute.Stream) { ops.Add(s, x, x) })
			require.ErrorIs(t, err, kompute.ErrOutOfMemory)
		}, false},
		"a replay":                 {replayFails, false},
		"a replay that submits it": {replayFails, true},
	} {
		t.Run(name, func(t *testing.T) {
			d, s, x := started(t)
			out, err := kompute.New(d, ramp(5))
			require.NoError(t, err)
			r, err := s.Capture(func(s *kompute.Stream) { addInto(s, out, x) })
			require.NoError(t, err)
			require.NoError(t, r.Replay(bg))
			require.NoError(t, s.Synchronize(bg))
			lost := ops.Add(s, x, x)
			control.Fail("vkQueueSubmit", 1, 1, outOfHostMemory)
			if !c.own {
				o, err := d.NewStream()
				require.NoError(t, err)
				ops.Add(o, lost, x)
				require.ErrorIs(t, o.Err(), kompute.ErrOutOfMemory)
				require.NoError(t, s.Err(), "the call was not this stream's")
			}
			c.learn(t, s, x, r)
			require.Positive(t, control.Failed())
			require.ErrorIs(t, s.Err(), kompute.ErrOutOfMemory)
			require.ErrorIs(t, s.Synchronize(bg), kompute.ErrOutOfMemory)
		})
	}
}

func replayFails(t *testing.T, _ *kompute.Stream, _ *kompute.Tensor[float32], r *kompute.Region) {
	require.ErrorIs(t, r.Replay(bg), kompute.ErrOutOfMemory)
}

// A capture that the driver refuses leaves the stream as it was; a replay that it
// refuses poisons it.
func TestRefusedRegions(t *testing.T) {
	_, s, x := started(t)
	out, err := kompute.New(s.Device(), ramp(5))
	require.NoError(t, err)
	work := func(s *kompute.Stream) { addInto(s, out, x) }
	control.Fail("vkCreateCommandPool", 1, always, outOfHostMemory)
	_, err = s.Capture(work)
	require.Positive(t, control.Failed())
	require.ErrorIs(t, err, kompute.ErrCapture)
	require.ErrorIs(t, err, kompute.ErrOutOfMemory)
	control.Disarm()
	require.NoError(t, s.Err())
	r, err := s.Capture(work)
	require.NoError(t, err)
	require.NoError(t, r.Replay(bg))
	require.NoError(t, s.Synchronize(bg))
	control.Fail("vkQueueSubmit", 1, always, outOfHostMemory)
	require.ErrorIs(t, r.Replay(bg), kompute.ErrOutOfMemory)
	control.Disarm()
	require.ErrorIs(t, s.Err(), kompute.ErrOutOfMemory)
	require.ErrorIs(t, r.Replay(bg), kompute.ErrOutOfMemory)
}

// If the driver has no memory for an op, the error names the op.
func TestOutOfMemoryNamesTheOp(t *testing.T) {
	d, s, _ := started(t)
	const large = 20 << 20 // elements: more than what is reserved
	x, err := kompute.Empty[float32](d, large)
	require.NoError(t, err)
	control.Fail("vkAllocateMemory", 1, always, outOfDeviceMemory)
	y := ops.Add(s, x, x)
	_, err = y.Read(bg)
	require.ErrorIs(t, err, kompute.ErrOutOfMemory)
	require.Positive(t, control.Failed())
	var op *kompute.OpError
	require.ErrorAs(t, err, &op)
	require.Equal(t, "binary", op.Op)
	require.ErrorIs(t, s.Err(), kompute.ErrOutOfMemory)
}

// A fallback whose operand is lost with the device fails with ErrDeviceLost.
func TestAFallbackOnALostDevice(t *testing.T) {
	_, s, x := started(t)
	y := ops.Add(s, x, x)
	control.Fail("vkQueueSubmit", 1, always, deviceLost)
	_, err := onCPU(s, y).Read(bg)
	require.ErrorIs(t, err, kompute.ErrDeviceLost)
	require.ErrorIs(t, s.Err(), kompute.ErrDeviceLost)
}
