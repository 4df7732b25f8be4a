package kompute

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/array"
)

func TestReadingsKeepWhatTheyHaveRead(t *testing.T) {
	onDevices(t, func(t *testing.T, d *Device) {
		a, b := newStream(t, d), newStream(t, d)
		one := tensor(t, d, []float32{1}, 1)
		x, err := New(d, make([]float32, 300), 300)
		require.NoError(t, err)
		ones := closing(t, one.Broadcast(300))
		var readings []*Reading[float32]
		for i := range 30 {
			runInto(a, "add", x, x, ones)
			s := a
			if i%3 == 2 {
				s = b // another stream's read, which a's next write waits for
			}
			readings = append(readings, x.ReadAsync(s))
		}
		rows := closing(t, x.Reshape(30, 10))
		view := closing(t, closing(t, rows.Slice(0, 3, 6)).Transpose())
		part := view.ReadAsync(a)
		runInto(a, "neg", x, x)
		require.NoError(t, x.Write(bg, make([]float32, 300)))
		require.NoError(t, view.Close())
		require.NoError(t, x.Close())
		for i := len(readings) - 1; i >= 0; i-- {
			got, err := readings[i].Wait(bg)
			require.NoError(t, err)
			require.Equal(t, float32(i+1), got[0])
			require.Equal(t, float32(i+1), got[299])
			require.True(t, readings[i].Done())
			again, err := readings[i].Wait(bg)
			require.NoError(t, err)
			require.Same(t, &got[0], &again[0])
		}
		got, err := part.Wait(bg)
		require.NoError(t, err)
		require.Len(t, got, 30)
		require.Equal(t, float32(30), got[29])
	})
}

// Content that the host has is read without the device, in the order of the view.
func TestReadingsOfHostContent(t *testing.T) {
	onDevices(t, func(t *testing.T, d *Device) {
		s := newStream(t, d)
		x := tensor(t, d, upTo(6), 2, 3)
		r := closing(t, x.Transpose()).ReadAsync(s)
		require.NoError(t, x.Write(bg, make([]float32, 6)))
		got, err := r.Wait(bg)
		require.NoError(t, err)
		require.Equal(t, []float32{0, 3, 1, 4, 2, 5}, got)
		none, err := tensor(t, d, nil, 0).ReadAsync(s).Wait(bg)
		require.NoError(t, err)
		require.Empty(t, none)
		m, err := NewMapped[float32](d, 4)
		require.NoError(t, err)
		runInto(s, "copy", m.Tensor(), closing(t, closing(t, x.Reshape(6)).Slice(0, 0, 4)))
		got, err = m.Tensor().ReadAsync(s).Wait(bg)
		require.NoError(t, err)
		require.Equal(t, make([]float32, 4), got)
		require.NoError(t, m.Close())
	})
}

func TestReadingsThatCannotStart(t *testing.T) {
	onDevices(t, func(t *testing.T, d *Device) {
		s := newStream(t, d)
		x := tensor(t, d, upTo(4))
		closed, err := New(d, upTo(4))
		require.NoError(t, err)
		require.NoError(t, closed.Close())
		poisoned, gone := newStream(t, d), newStream(t, d)
		bad := closing(t, run(poisoned, "neg", x))
		poisoned.Fail(errTest)
		require.NoError(t, gone.Close())
		for name, c := range map[string]struct {
			t    *Tensor[float32]
			s    *Stream
			want error
		}{
			"no stream":       {x, nil, ErrInvalid},
			"no tensor":       {nil, s, ErrInvalid},
			"another device":  {x, newStream(t, openTest(t, "cpu")), ErrDevice},
			"closed":          {closed, s, ErrClosed},
			"a closed stream": {x, gone, ErrClosed},
			"poisoned":        {x, poisoned, errTest},
			"never made":      {bad, s, errTest},
		} {
			r := c.t.ReadAsync(c.s)
			require.True(t, r.Done(), name)
			_, err := r.Wait(bg)
			require.ErrorIs(t, err, c.want, name)
		}
		require.NoError(t, s.Err(), "a read poisons nothing")
		_, err = s.Capture(func(s *Stream) {
			y := run(s, "neg", x)
			_, err := y.ReadAsync(s).Wait(bg)
			require.ErrorIs(t, err, ErrCapture)
		})
		var capture *CaptureError
		require.ErrorAs(t, err, &capture)
		require.Equal(t, "read", capture.Op)
		require.NoError(t, s.Err())
	})
}

func TestReadingsInFlight(t *testing.T) {
	onDevices(t, func(t *testing.T, d *Device) {
		s := newStream(t, d)
		open := holdBack(t, s)
		x := tensor(t, d, upTo(4))
		y := run(s, "neg", x)
		var r, late *Reading[float32]
		quickly(t, func() { r, late = y.ReadAsync(s), y.ReadAsync(s) })
		require.False(t, r.Done())
		ctx, cancel := contextFor(10)
		defer cancel()
		_, err := r.Wait(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		_, err = r.Wait(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NoError(t, y.Close(), "the read keeps what it needs")
		open()
		got, err := r.Wait(bg)
		require.NoError(t, err)
		require.Equal(t, []float32{0, -1, -2, -3}, got)
		require.NoError(t, s.Close())
		got, err = late.Wait(bg)
		require.NoError(t, err, "closing the stream waited for it")
		require.Equal(t, []float32{0, -1, -2, -3}, got)
	})
}

// An empty view may start beyond the end of its storage.
func TestReadingsOfNothing(t *testing.T) {
	onDevices(t, func(t *testing.T, d *Device) {
		none, err := Zeros[float32](d, 4, 0)
		require.NoError(t, err)
		y := closing(t, closing(t, none).Slice(0, 2, 4))
		got, err := y.ReadAsync(newStream(t, d)).Wait(bg)
		require.NoError(t, err)
		require.Empty(t, got)
		require.Empty(t, read(t, y))
	})
}

func TestReadingsThatFail(t *testing.T) {
	t.Run("an op before", func(t *testing.T) {
		d := openTest(t, "cpu")
		s := newStream(t, d)
		y := closing(t, run(s, "fail", tensor(t, d, upTo(4))))
		_, err := y.ReadAsync(s).Wait(bg)
		require.ErrorIs(t, err, errTest)
	})
	t.Run("another stream's op", func(t *testing.T) {
		d := openTest(t, "cpu")
		s, other := newStream(t, d), newStream(t, d)
		gate := make(chan struct{})
		y := closing(t, Output[float32](s, 4))
		s.Enqueue(Op{Name: "fail", Args: []Arg{Out(y.View())}, CPU: func(a []array.Array, _ []byte) error { <-gate; return errTest }})
		r := y.ReadAsync(other)
		close(gate)
		_, err := r.Wait(bg)
		require.ErrorIs(t, err, errTest)
		require.NoError(t, other.Synchronize(bg), "a read poisons nothing")
	})
	t.Run("the device closes", func(t *testing.T) {
		d := vulkanOrSkip(t)
		s := newStream(t, d)
		y := run(s, "neg", tensor(t, d, upTo(4)))
		taken, left := y.ReadAsync(s), y.ReadAsync(s)
		_, err := taken.Wait(bg)
		require.NoError(t, err)
		require.NoError(t, y.Close())
		require.NoError(t, d.Close())
		require.Empty(t, d.reads)
		_, err = left.Wait(bg)
		require.ErrorIs(t, err, ErrClosed)
		_, err = taken.Wait(bg)
		require.NoError(t, err, "it has its data")
	})
}

func TestForgottenReadingsAreFreed(t *testing.T) {
	d := vulkanOrSkip(t)
	s := newStream(t, d)
	y := closing(t, run(s, "neg", tensor(t, d, upTo(4))))
	for range 10 {
		y.ReadAsync(s)
	}
	require.NoError(t, s.Synchronize(bg))
	require.Eventually(t, func() bool {
		collect()
		d.mu.Lock()
		defer d.mu.Unlock()
		return len(d.reads) == 0
	}, waitLimit, waitStep)
}

// The copy is submitted together with the work that makes the tensor, or alone if
// that work is already running: one submission.
func TestReadIsOneSubmission(t *testing.T) {
	d := vulkanOrSkip(t)
	s, transfers := newStream(t, d), d.backend.(*vulkanBackend).transfers
	x := tensor(t, d, upTo(100))
	y := closing(t, run(s, "neg", closing(t, run(s, "neg", x))))
	require.Equal(t, upTo(100), read(t, y))
	require.EqualValues(t, 1, s.Stats().Submits)
	require.EqualValues(t, 4, s.Stats().Dispatches, "upload, ops, download")
	require.Equal(t, upTo(100), read(t, y), "which the host has now")
	require.EqualValues(t, 1, s.Stats().Submits)
	require.EqualValues(t, 1, d.Stats().Downloads)

	z := closing(t, run(s, "neg", y))
	require.NoError(t, s.Flush())
	closing(t, run(s, "neg", z)) // is not waited for, and not started
	require.Equal(t, float32(-99), read(t, z)[99])
	require.EqualValues(t, 2, s.Stats().Submits, "the work's")
	require.EqualValues(t, 1, transfers.Stats().Submits, "the copy's")
	require.NoError(t, s.Synchronize(bg))
}

// Reads of all and writes of a part, from several goroutines: a read sees the
// content from before a write or from after it.
func TestReadsBesidePartialWrites(t *testing.T) {
	const n, rounds = 100, 50
	onDevices(t, func(t *testing.T, d *Device) {
		s := newStream(t, d)
		y := closing(t, run(s, "neg", tensor(t, d, make([]float32, n))))
		part := closing(t, y.Slice(0, 10, 20))
		var wg sync.WaitGroup
		wg.Go(func() {
			for i := range rounds {
				value := slices.Repeat([]float32{float32(i + 1)}, 10)
				if err := part.Write(bg, value); err != nil {
					t.Error(err)
				}
				if i%7 == 0 { // and only the device has it
					runInto(s, "copy", y, closing(t, run(s, "copy", y)))
				}
			}
		})
		for range 2 {
			wg.Go(func() {
				last := float32(0)
				for range rounds {
					got, err := y.Read(bg)
					if err != nil || slices.Max(got[:10]) != 0 || slices.Max(got[20:]) != 0 || slices.Max(got[10:20]) != slices.Min(got[10:20]) || got[10] < last {
						t.Error(err, got, last)
						return
					}
					last = got[10]
				}
			})
		}
		quickly(t, wg.Wait)
		require.Equal(t, float32(rounds), read(t, closing(t, run(s, "copy", y)))[15])
		require.NoError(t, s.Synchronize(bg))
	})
}

// A tensor that is closed while it is read keeps what the read needs.
func TestReadOfATensorThatIsClosedPoisonsNothing(t *testing.T) {
	onDevices(t, func(t *testing.T, d *Device) {
		s := newStream(t, d)
		open := holdBack(t, s)
		y := run(s, "neg", tensor(t, d, upTo(100)))
		require.NoError(t, s.Flush())
		failed := make(chan error)
		var got []float32
		go func() {
			var err error
			got, err = y.Read(bg)
			failed <- err
		}()
		require.Eventually(t, func() bool {
			d.mu.Lock()
			defer d.mu.Unlock()
			return y.View().st.pins > 0 && d.users > 0
		}, waitLimit, waitStep)
		require.NoError(t, y.Close())
		open()
		require.NoError(t, <-failed)
		require.Equal(t, float32(-99), got[99])
		require.NoError(t, s.Synchronize(bg))
		_, err := y.Read(bg)
		require.ErrorIs(t, err, ErrClosed)
	})
}

// Calls that wait for the same read at once all get its elements.
func TestSeveralWaitsForOneRead(t *testing.T) {
	onDevices(t, func(t *testing.T, d *Device) {
		s := newStream(t, d)
		x := closing(t, run(s, "neg", tensor(t, d, upTo(8), 8)))
		want, err := x.Read(bg)
		require.NoError(t, err)
		for range 100 {
			r := x.ReadAsync(s)
			var all sync.WaitGroup
			for range 4 {
				all.Go(func() {
					got, err := r.Wait(bg)
					assert.NoError(t, err)
					assert.Equal(t, want, got)
				})
			}
			all.Wait()
		}
	})
}
