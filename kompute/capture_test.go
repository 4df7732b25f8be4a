package kompute

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// An operation that a region cannot hold makes the capture fail with the operation's
// name; then nothing has run, and the stream remains usable.
func TestCapturesThatFail(t *testing.T) {
	onDevices(t, func(t *testing.T, d *Device) {
		s := newStream(t, d)
		x, state := tensor(t, d, upTo(3)), tensor(t, d, upTo(3))
		bad := func(s *Stream) { s.Enqueue(Op{Name: "odd", Args: []Arg{In(x.View()), InOut(state.View())}}) }
		cases := map[string]func(s *Stream){
			"read": func(s *Stream) {
				_, err := run(s, "add", x, state).Read(bg)
				require.ErrorIs(t, err, ErrCapture)
			},
			"write": func(s *Stream) {
				runInto(s, "neg", state, x)
				require.ErrorIs(t, state.Write(bg, upTo(3)), ErrCapture)
			},
			"synchronize": func(s *Stream) { require.ErrorIs(t, s.Synchronize(bg), ErrCapture) },
			"record":      func(s *Stream) { s.Record() },
			"wait":        func(s *Stream) { s.Wait(&Event{mark{s, 0}}) },
			"capture": func(s *Stream) {
				_, err := s.Capture(func(*Stream) { t.Error("called") })
				require.ErrorIs(t, err, ErrCapture)
			},
			"odd":  bad,
			"mine": func(s *Stream) { s.Fail(&OpError{Op: "mine", Err: ErrShape}) },
		}
		for name, fn := range cases {
			var kept *Tensor[float32]
			r, err := s.Capture(func(s *Stream) {
				kept = step(s, x, state)
				fn(s)
				require.ErrorIs(t, s.Err(), ErrCapture)
				run(s, "neg", x) // does nothing
				require.ErrorIs(t, s.Flush(), ErrCapture)
			})
			require.Nil(t, r)
			var refused *CaptureError
			require.ErrorAs(t, err, &refused, name)
			require.ErrorIs(t, err, ErrCapture)
			require.Equal(t, name, refused.Op)
			require.ErrorContains(t, err, name)
			require.Equal(t, upTo(3), read(t, state), name)
			_, err = kept.Read(bg)
			require.ErrorIs(t, err, ErrCapture)
			require.NoError(t, kept.Close())
			y := run(s, "neg", x)
			require.Equal(t, []float32{-0, -1, -2}, read(t, y))
			require.NoError(t, y.Close())
		}
		require.NoError(t, s.Err())
		require.Empty(t, s.Stats().Fallbacks)
		_, err := s.Capture(nil)
		require.ErrorIs(t, err, ErrInvalid)
	})
}

func TestCapturePanicsAndCloses(t *testing.T) {
	onDevices(t, func(t *testing.T, d *Device) {
		s := newStream(t, d)
		x := tensor(t, d, upTo(3))
		require.PanicsWithValue(t, "mine", func() {
			_, _ = s.Capture(func(s *Stream) {
				run(s, "neg", x)
				panic("mine")
			})
		})
		outer := s.Scope()
		_, err := s.Capture(func(s *Stream) { outer.Close() })
		require.ErrorIs(t, err, ErrCapture)
		y := closing(t, run(s, "neg", x))
		require.Equal(t, []float32{-0, -1, -2}, read(t, y))
		_, err = s.Capture(func(s *Stream) {
			run(s, "neg", x)
			require.NoError(t, s.Close())
		})
		require.ErrorIs(t, err, ErrCapture)
		require.ErrorIs(t, s.Err(), ErrClosed)
		_, err = s.Capture(func(s *Stream) {})
		require.ErrorIs(t, err, ErrClosed)
	})
}

func TestCaptureInAScope(t *testing.T) {
	onDevices(t, func(t *testing.T, d *Device) {
		s := newStream(t, d)
		x := tensor(t, d, upTo(3))
		sc := s.Scope()
		var inner, out *Tensor[float32]
		r := captureTest(t, s, func(s *Stream) {
			deep := s.Scope() // left open
			inner = run(s, "neg", x)
			out = Result(s, run(s, "neg", inner))
			_ = deep
		})
		require.True(t, inner.View().Closed())
		replay(t, r)
		require.Equal(t, upTo(3), read(t, out))
		sc.Close()
		require.True(t, out.View().Closed(), "a result belongs to the scope around the capture")
		require.ErrorIs(t, r.Replay(bg), ErrClosed)
		same := closing(t, run(s, "neg", x))
		require.Same(t, same, Result(s, same), "no capture: it stays as it is")
	})
}

// A region cannot hold an op that the device would leave to the CPU.
func TestCaptureOfWhatFallsBack(t *testing.T) {
	d := vulkanOrSkip(t, WithDisabled("unary"))
	s := newStream(t, d)
	x, out := tensor(t, d, upTo(3)), tensor(t, d, upTo(3))
	_, err := s.Capture(func(s *Stream) { runInto(s, "neg", out, x) })
	require.ErrorIs(t, err, ErrUnsupported)
	require.EqualError(t, err, "unary cannot be captured: unary float32[3], float32[3]: it would run on the CPU: disabled: not supported")
	require.NoError(t, s.Err())
	r := captureTest(t, s, func(s *Stream) { runInto(s, "copy", out, x) })
	replay(t, r)
	require.Equal(t, upTo(3), read(t, out))
}

// While a region is captured, the host may read what it does not write, and other
// streams may not use what it writes.
func TestOthersDuringACapture(t *testing.T) {
	onDevices(t, func(t *testing.T, d *Device) {
		s, other, bad := newStream(t, d), newStream(t, d), newStream(t, d)
		x, state := tensor(t, d, upTo(3)), tensor(t, d, upTo(3))
		early := closing(t, run(s, "neg", x))
		r := captureTest(t, s, func(s *Stream) {
			runInto(s, "add", state, state, x)
			require.Equal(t, []float32{-0, -1, -2}, read(t, early), "enqueued before, it runs")
			require.Equal(t, []float32{-0, -1, -2}, read(t, closing(t, run(other, "neg", x))))
			closing(t, run(bad, "neg", state))
			require.ErrorIs(t, bad.Err(), ErrCapture)
		})
		require.NoError(t, s.Err())
		replay(t, r)
		require.Error(t, bad.Synchronize(bg))
		runInto(other, "copy", state, x)
		replay(t, r)
		require.Equal(t, []float32{0, 2, 4}, read(t, state))
	})
}
