package kompute

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// step is work with a transient, a result, and a tensor updated in place:
// out = -(x + state), state = x + state.
func step(s *Stream, x, state *Tensor[float32]) *Tensor[float32] {
	sum := run(s, "add", x, state)
	runInto(s, "copy", state, sum)
	return Result(s, run(s, "neg", sum))
}

func captureTest(t testing.TB, s *Stream, fn func(s *Stream)) *Region {
	r, err := s.Capture(fn)
	require.NoError(t, err)
	return r
}

func replay(t testing.TB, r *Region) { require.NoError(t, r.Replay(bg)) }

func replayN(t testing.TB, r *Region, n int) { require.NoError(t, r.ReplayN(bg, n)) }

func TestReplaysEqualEagerRuns(t *testing.T) {
	onDevices(t, func(t *testing.T, d *Device) {
		s := newStream(t, d)
		x := tensor(t, d, []float32{1, 0.1, 1e-3, 7}, 4)
		states := []*Tensor[float32]{tensor(t, d, upTo(4)), tensor(t, d, upTo(4))}
		var out *Tensor[float32]
		r := captureTest(t, s, func(s *Stream) { out = closing(t, step(s, x, states[0])) })
		_, err := out.Read(bg)
		require.ErrorContains(t, err, "not replayed yet")
		require.Equal(t, upTo(4), read(t, states[0]), "nothing has run")
		for _, times := range []int{1, 2, 1, 5} {
			replayN(t, r, times)
			var want []float32
			for range times {
				sc := s.Scope()
				want = read(t, step(s, x, states[1]))
				sc.Close()
			}
			require.Equal(t, want, read(t, out))
			require.Equal(t, read(t, states[1]), read(t, states[0]))
		}
		replayN(t, r, 0)
		require.EqualValues(t, 9, r.Stats().Replays)
		require.EqualValues(t, 3, r.Stats().Ops)
		require.EqualValues(t, 9, s.Stats().Replays)
		require.True(t, strings.HasPrefix(r.String(), "region of 3 ops"), r.String())
		require.Regexp(t, `(?m)^  (add|binary)$`, r.String())
		require.Contains(t, r.String(), "writes external")
		require.Contains(t, r.String(), "planned")
		require.NoError(t, r.Close())
		require.NoError(t, r.Close())
		require.ErrorIs(t, r.Replay(bg), ErrClosed)
		_, err = r.Describe()
		require.ErrorIs(t, err, ErrClosed)
	})
}

// The next replay sees what the host wrote into an input or a tensor that is updated
// in place; earlier replays do not.
func TestHostWritesBetweenReplays(t *testing.T) {
	onDevices(t, func(t *testing.T, d *Device) {
		s := newStream(t, d)
		x, state := tensor(t, d, upTo(3)), tensor(t, d, make([]float32, 3))
		r := captureTest(t, s, func(s *Stream) { closing(t, step(s, x, state)) })
		replay(t, r)
		require.NoError(t, x.Write(bg, []float32{10, 10, 10}))
		replay(t, r)
		require.Equal(t, []float32{10, 11, 12}, read(t, state))
		require.NoError(t, state.Write(bg, []float32{1, 2, 3}))
		replayN(t, r, 2)
		require.Equal(t, []float32{21, 22, 23}, read(t, state))
		runInto(s, "neg", state, x)
		replay(t, r)
		require.Equal(t, []float32{0, 0, 0}, read(t, state))
	})
}

// A Constant made while capturing keeps its content, though it is a transient.
func TestConstantsOfARegion(t *testing.T) {
	onDevices(t, func(t *testing.T, d *Device) {
		s := newStream(t, d)
		state := tensor(t, d, make([]float32, 2))
		r := captureTest(t, s, func(s *Stream) {
			c := Constant(s, []float32{1, 10}, 2)
			runInto(s, "add", state, state, c)
			runInto(s, "add", state, state, c)
		})
		other := tensor(t, d, make([]float32, 2))
		runInto(s, "copy", other, closing(t, run(s, "neg", other))) // memory of others is not the constant's
		replayN(t, r, 3)
		require.Equal(t, []float32{6, 60}, read(t, state))
	})
}

func TestReplayAfterATensorWasClosed(t *testing.T) {
	onDevices(t, func(t *testing.T, d *Device) {
		s := newStream(t, d)
		x, err := New(d, upTo(3))
		require.NoError(t, err)
		state := tensor(t, d, upTo(3))
		out := tensor(t, d, upTo(3))
		r := captureTest(t, s, func(s *Stream) { runInto(s, "add", out, state, x) })
		replayN(t, r, 2)
		require.NoError(t, x.Close())
		for range 2 {
			err = r.Replay(bg)
			require.ErrorIs(t, err, ErrClosed)
			var op *OpError
			require.ErrorAs(t, err, &op)
			require.Contains(t, []string{"add", "binary"}, op.Op)
		}
		require.Equal(t, []float32{0, 2, 4}, read(t, out))
		runInto(s, "neg", out, state)
		require.NoError(t, s.Synchronize(bg), "the stream is usable")
	})
}

// What fn closes is not the region's own if the caller made it.
func TestReplayAfterFnClosedATensorOfTheCallers(t *testing.T) {
	onDevices(t, func(t *testing.T, d *Device) {
		s := newStream(t, d)
		x, err := New(d, upTo(3))
		require.NoError(t, err)
		r := captureTest(t, s, func(s *Stream) {
			closing(t, Result(s, run(s, "neg", x)))
			require.NoError(t, x.Close())
		})
		require.ErrorIs(t, r.Replay(bg), ErrClosed)
		require.NoError(t, s.Synchronize(bg))
	})
}

// A stream that waits for a call on one of its regions is closed while others are closed.
func TestRegionsThatAreClosedWithTheirStream(t *testing.T) {
	d := openTest(t, "cpu")
	x := tensor(t, d, upTo(3))
	s := newStream(t, d)
	var regions [3]*Region
	for i := range regions {
		regions[i] = captureTest(t, s, func(s *Stream) { closing(t, Result(s, run(s, "neg", x))) })
	}
	last := regions[len(regions)-1]
	require.NoError(t, last.enter()) // a call
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Close() }()
	require.Eventually(t, func() bool { return errors.Is(last.Replay(bg), errRegionClosed) || s.Err() != nil }, waitLimit, waitStep)
	require.Eventually(t, func() bool { d.mu.Lock(); defer d.mu.Unlock(); return last.closed }, waitLimit, waitStep)
	require.NoError(t, regions[0].Close())
	d.mu.Lock()
	last.leave()
	d.mu.Unlock()
	<-done
	for _, r := range regions {
		require.True(t, r.closed)
	}
}

func TestRegionOutlivesItsStream(t *testing.T) {
	onDevices(t, func(t *testing.T, d *Device) {
		s := newStream(t, d)
		x, out := tensor(t, d, upTo(3)), tensor(t, d, upTo(3))
		r := captureTest(t, s, func(s *Stream) { runInto(s, "neg", out, x) })
		replayN(t, r, 3)
		require.NoError(t, s.Close())
		require.ErrorIs(t, r.Replay(bg), ErrClosed)
		require.NoError(t, r.Close())
		require.Equal(t, []float32{-0, -1, -2}, read(t, out))
	})
}

func TestReplayRefuses(t *testing.T) {
	onDevices(t, func(t *testing.T, d *Device) {
		s := newStream(t, d)
		x := tensor(t, d, upTo(3))
		r := captureTest(t, s, func(s *Stream) { closing(t, step(s, x, x)) })
		require.ErrorIs(t, r.ReplayN(bg, -1), ErrInvalid)
		require.ErrorIs(t, r.ReplayN(bg, mostReplays+1), ErrInvalid)
		ctx, cancel := context.WithCancel(bg)
		cancel()
		require.ErrorIs(t, r.Replay(ctx), context.Canceled)
		_, err := s.Capture(func(*Stream) { require.ErrorIs(t, r.Replay(bg), ErrCapture) })
		require.ErrorIs(t, err, ErrCapture)

		bad, out := newStream(t, d), tensor(t, d, upTo(3))
		runInto(bad, "neg", out, x)
		onBad := captureTest(t, s, func(s *Stream) { runInto(s, "add", out, out, x) })
		bad.Fail(errTest)
		require.ErrorIs(t, onBad.Replay(bg), errTest, "an input was never made")
		require.NoError(t, s.Err())
		s.Fail(errTest)
		require.ErrorIs(t, r.Replay(bg), errTest)
		_, err = s.Capture(func(*Stream) { t.Error("called") })
		require.ErrorIs(t, err, errTest)
	})
}

// Two regions on two streams share weights and pass a tensor back and forth; the
// device keeps the order of the calls.
func TestRegionsOnTwoStreams(t *testing.T) {
	onDevices(t, func(t *testing.T, d *Device) {
		a, b := newStream(t, d), newStream(t, d)
		w, x := tensor(t, d, []float32{1, 2, 3}), tensor(t, d, make([]float32, 3))
		ra := captureTest(t, a, func(s *Stream) { runInto(s, "add", x, x, w) })
		rb := captureTest(t, b, func(s *Stream) { runInto(s, "add", x, x, x) })
		want := make([]float32, 3)
		for range 8 {
			replay(t, ra)
			replay(t, rb)
			for i := range want {
				want[i] = 2 * (want[i] + float32(i+1))
			}
		}
		require.Equal(t, want, read(t, x))
	})
}

// A region's first replay follows what another region, which ran before the capture, has replayed since.
func TestFirstReplayFollowsOtherRegions(t *testing.T) {
	onDevices(t, func(t *testing.T, d *Device) {
		one, x := tensor(t, d, []float32{1}), tensor(t, d, []float32{0})
		a, b := newStream(t, d), newStream(t, d)
		count := captureTest(t, a, func(s *Stream) { runInto(s, "add", x, x, one) })
		replay(t, count)
		negate := captureTest(t, b, func(s *Stream) { runInto(s, "neg", x, x) })
		open := holdBack(t, a)
		replay(t, count)
		replay(t, negate)
		ctx, cancel := contextFor(10)
		defer cancel()
		require.ErrorIs(t, b.Synchronize(ctx), context.DeadlineExceeded)
		open()
		require.Equal(t, []float32{-2}, read(t, x))
	})
}

func TestRegionsFromManyGoroutines(t *testing.T) {
	onDevices(t, func(t *testing.T, d *Device) {
		w := tensor(t, d, upTo(100))
		var wg sync.WaitGroup
		for range 4 {
			s := newStream(t, d)
			state := tensor(t, d, make([]float32, 100))
			r := captureTest(t, s, func(s *Stream) { runInto(s, "add", state, state, w) })
			var both sync.WaitGroup
			for range 2 {
				both.Add(1)
				wg.Add(1)
				go func() {
					defer wg.Done()
					for i := range 20 {
						if err := r.ReplayN(bg, 1+i%2); err != nil {
							t.Error(err)
						}
					}
					both.Done()
				}()
			}
			wg.Add(1)
			go func() {
				defer wg.Done()
				both.Wait()
				got, err := state.Read(bg)
				if err != nil || got[99] != 99*60 {
					t.Error(got, err)
				}
				_ = r.Close()
			}()
		}
		wg.Wait()
	})
}
