package kompute

import (
	"context"
	"testing"
	"time"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/stretchr/testify/require"
)

// A profile replays the region, twice for each requested run, and lists the time of
// every dispatch.
func TestProfileTimesEachDispatch(t *testing.T) {
	onDevices(t, func(t *testing.T, d *Device) {
		s := newStream(t, d)
		x, state := tensor(t, d, upTo(3)), tensor(t, d, make([]float32, 3))
		r := captureTest(t, s, func(s *Stream) { closing(t, step(s, x, state)) })
		replay(t, r)
		require.NoError(t, x.Write(bg, []float32{10, 10, 10}))
		p, err := r.Profile(bg, 3)
		require.NoError(t, err)
		require.Equal(t, []float32{60, 61, 62}, read(t, state), "six replays with the new input")
		require.EqualValues(t, 7, r.Stats().Replays)
		require.Equal(t, 3, p.Times)
		require.Positive(t, p.Replay)
		require.Positive(t, p.Timed)
		replay(t, r)
		require.Equal(t, []float32{70, 71, 72}, read(t, state))
		require.Len(t, p.Dispatches, 3)
		for _, one := range p.Dispatches {
			require.Positive(t, one.Time)
			require.GreaterOrEqual(t, one.Gap, time.Duration(0))
			require.NotEmpty(t, one.Kernel)
			require.Positive(t, one.Grid[0])
		}
		require.Regexp(t, "^(add|binary)$", p.Dispatches[0].Op.Name)
		require.Equal(t, "copy", p.Dispatches[1].Op.Name)
		require.False(t, p.Dispatches[0].Barrier)
		require.True(t, p.Dispatches[1].Barrier, "it reads the sum")
		require.NoError(t, r.Close())
		_, err = r.Profile(bg, 1)
		require.ErrorIs(t, err, ErrClosed)
	})
}

// The profile shows the op that takes long.
func TestProfileFindsTheSlowOp(t *testing.T) {
	d := openTest(t, "cpu")
	s := newStream(t, d)
	x, y := tensor(t, d, upTo(3)), tensor(t, d, upTo(3))
	slow := makeOp("neg", In(x.View()), Out(y.View()))
	slow.CPU = func([]array.Array, []byte) error { time.Sleep(5 * time.Millisecond); return nil }
	r := captureTest(t, s, func(s *Stream) {
		runInto(s, "copy", y, x)
		s.Enqueue(slow)
		runInto(s, "copy", y, x)
	})
	p, err := r.Profile(bg, 3)
	require.NoError(t, err)
	require.GreaterOrEqual(t, p.Dispatches[1].Time, 5*time.Millisecond)
	require.Less(t, p.Dispatches[0].Time+p.Dispatches[2].Time, 5*time.Millisecond)
	require.GreaterOrEqual(t, p.Replay, 5*time.Millisecond)
}

func TestProfileRefuses(t *testing.T) {
	onDevices(t, func(t *testing.T, d *Device) {
		s := newStream(t, d)
		x := tensor(t, d, upTo(3))
		r := captureTest(t, s, func(s *Stream) { closing(t, step(s, x, x)) })
		for _, times := range []int{0, -1, mostReplays + 1} {
			_, err := r.Profile(bg, times)
			require.ErrorIs(t, err, ErrInvalid)
		}
		ctx, cancel := context.WithCancel(bg)
		cancel()
		_, err := r.Profile(ctx, 1)
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, upTo(3), read(t, x), "nothing has run")
		_, err = s.Capture(func(*Stream) {
			_, inside := r.Profile(bg, 1)
			require.ErrorIs(t, inside, ErrCapture)
		})
		require.ErrorIs(t, err, ErrCapture)
		s.Fail(errTest)
		_, err = r.Profile(bg, 1)
		require.ErrorIs(t, err, errTest)
	})
}

func TestOpsAreTimedWhenAsked(t *testing.T) {
	onDevices(t, func(t *testing.T, d *Device) {
		s := newStream(t, d)
		x, y := tensor(t, d, upTo(3)), tensor(t, d, upTo(3))
		runInto(s, "neg", y, x)
		require.NoError(t, s.Synchronize(bg))
		require.Empty(t, s.Stats().OpTimes)
		runInto(s, "neg", y, x) // pending, and not measured
		require.NoError(t, s.StartTiming())
		for range 4 {
			runInto(s, "copy", y, x)
		}
		runInto(s, "neg", y, x)
		require.NoError(t, s.Synchronize(bg))
		require.NoError(t, s.StopTiming())
		runInto(s, "copy", y, x)
		require.NoError(t, s.Synchronize(bg))
		times := s.Stats().OpTimes
		require.Len(t, times, 2)
		require.EqualValues(t, 4, times["copy"].Calls)
		require.EqualValues(t, 4, times["copy"].Dispatches)
		for op, one := range times {
			require.Positive(t, one.Time, op)
			if op != "copy" {
				require.EqualValues(t, 1, one.Calls)
			}
		}
	})
}

func TestTimingChangesInsideACapture(t *testing.T) {
	onDevices(t, func(t *testing.T, d *Device) {
		s := newStream(t, d)
		for _, change := range []func(*Stream) error{(*Stream).StartTiming, (*Stream).StopTiming} {
			_, err := s.Capture(func(s *Stream) { require.ErrorIs(t, change(s), ErrCapture) })
			require.ErrorIs(t, err, ErrCapture)
			require.NoError(t, change(s))
		}
	})
}
