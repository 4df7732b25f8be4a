package kompute

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
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

func replay(t testing.TB, r *Region, times ...int) { require.NoError(t, r.Replay(bg, times...)) }

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
			replay(t, r, times)
			var want []float32
			for range times {
				sc := s.Scope()
				want = read(t, step(s, x, states[1]))
				sc.Close()
			}
			require.Equal(t, want, read(t, out))
			require.Equal(t, read(t, states[1]), read(t, states[0]))
		}
		replay(t, r, 0)
		require.EqualValues(t, 9, r.Stats().Replays)
		require.EqualValues(t, 3, r.Stats().Ops)
		require.EqualValues(t, 9, s.Stats().Replays)
		require.True(t, strings.HasPrefix(r.String(), "region of 3 ops"), r.String())
		require.True(t, json.Valid(r.JSON()))
		if d.Info().Name != "fake" {
			require.Regexp(t, `(?m)^  (add|binary)$`, r.String())
			require.Contains(t, r.String(), "writes external")
			require.Contains(t, r.String(), "planned")
		}
		require.NoError(t, r.Close())
		require.NoError(t, r.Close())
		require.ErrorIs(t, r.Replay(bg), ErrClosed)
		require.Nil(t, r.JSON())
	})
}

// What the host writes into an input, and into what is updated in place, is
// seen by the next replay; replays before it are not disturbed.
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
		replay(t, r, 2)
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
		replay(t, r, 3)
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
		replay(t, r, 2)
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

// Everything that a region cannot hold fails the capture with the operation's
// name; then nothing has run, and the stream works on.
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

func TestRegionOutlivesItsStream(t *testing.T) {
	onDevices(t, func(t *testing.T, d *Device) {
		s := newStream(t, d)
		x, out := tensor(t, d, upTo(3)), tensor(t, d, upTo(3))
		r := captureTest(t, s, func(s *Stream) { runInto(s, "neg", out, x) })
		replay(t, r, 3)
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
		require.ErrorIs(t, r.Replay(bg, -1), ErrInvalid)
		require.ErrorIs(t, r.Replay(bg, 1, 1), ErrInvalid)
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

// Two regions on two streams share weights and hand a tensor to and fro; the
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
						if err := r.Replay(bg, 1+i%2); err != nil {
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

// A replay allocates nothing, on the CPU and on Vulkan.
func TestReplayAllocatesNothing(t *testing.T) {
	onDevices(t, func(t *testing.T, d *Device) {
		if d.Info().Name == "fake" {
			t.Skip("the fake allocates")
		}
		s := newStream(t, d)
		x, y := tensor(t, d, upTo(64)), tensor(t, d, upTo(64))
		op := makeOp(d, "neg", In(x.View()), Out(y.View()))
		op.CPU = nothing
		r := captureTest(t, s, func(s *Stream) { s.Enqueue(op) })
		replay(t, r, 4)
		require.NoError(t, s.Synchronize(bg))
		before, device := s.Stats(), d.Stats().Allocations
		require.Less(t, testing.AllocsPerRun(50, func() { _ = r.Replay(bg) }), 1.5, "the CPU starts a goroutine")
		require.NoError(t, s.Synchronize(bg))
		after := s.Stats()
		require.Equal(t, before.DescriptorWrites, after.DescriptorWrites)
		require.Equal(t, before.RecordedCommands, after.RecordedCommands)
		require.Equal(t, device, d.Stats().Allocations)
		require.EqualValues(t, 51, after.Submits-before.Submits)
	})
}

func TestTransientsShareMemory(t *testing.T) {
	d := openTest(t, "cpu")
	s := newStream(t, d)
	x := tensor(t, d, upTo(1000))
	var out *Tensor[float32]
	r := captureTest(t, s, func(s *Stream) {
		y := x
		for range 9 {
			y = run(s, "neg", y)
		}
		out = closing(t, Result(s, run(s, "neg", y)))
	})
	require.EqualValues(t, 2*4032, r.Stats().TransientBytes)
	require.EqualValues(t, 9*4032, r.Stats().TransientBytesUnplanned)
	replay(t, r, 2)
	require.Equal(t, upTo(1000), read(t, out))
}

// Transients that are alive at the same time never share bytes.
func TestPlannedTransientsAreApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := make([]transient, rapid.IntRange(0, 12).Draw(t, "tensors"))
		first := 0
		for i := range list {
			first += rapid.IntRange(0, 2).Draw(t, "gap")
			list[i] = transient{
				st: &storage{bytes: rapid.IntRange(1, 300).Draw(t, "bytes")}, first: first,
				last: first + rapid.IntRange(0, 5).Draw(t, "length"),
			}
		}
		bytes, unplanned := planTransients(list)
		require.LessOrEqual(t, bytes, unplanned)
		for i, a := range list {
			require.LessOrEqual(t, a.offset+a.st.bytes, bytes)
			for _, b := range list[:i] {
				together := a.first <= b.last && b.first <= a.last
				apart := a.offset+a.st.bytes <= b.offset || b.offset+b.st.bytes <= a.offset
				require.True(t, !together || apart, fmt.Sprint(a, b))
			}
		}
	})
}

func TestNativeFailuresOfRegions(t *testing.T) {
	d, f := openFake(t)
	s := newStream(t, d)
	x, out := tensor(t, d, upTo(3)), tensor(t, d, upTo(3))
	work := func(s *Stream) { runInto(s, "neg", out, x) }
	for _, what := range []string{"begin capture", "end capture"} {
		f.failing[what] = errTest
		_, err := s.Capture(work)
		require.ErrorIs(t, err, ErrCapture)
		require.ErrorIs(t, err, errTest)
		delete(f.failing, what)
		require.NoError(t, s.Err())
	}
	f.unsupported["neg"] = "not today"
	_, err := s.Capture(work)
	require.ErrorIs(t, err, ErrUnsupported)
	require.ErrorContains(t, err, "neg cannot be captured")
	require.ErrorContains(t, err, "not today")
	delete(f.unsupported, "neg")
	r := captureTest(t, s, work)
	f.failing["upload"] = errTest
	require.NoError(t, x.Write(bg, upTo(3)))
	require.ErrorIs(t, r.Replay(bg), errTest)
	require.NoError(t, s.Err())
	delete(f.failing, "upload")
	f.failing["replay"] = errTest
	require.ErrorIs(t, r.Replay(bg), errTest)
	require.ErrorIs(t, s.Err(), errTest)
}

// While a region is captured, the host reads what it does not write, and other
// streams keep away from what it writes.
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
