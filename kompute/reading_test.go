package kompute

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"time"

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

// What the host has needs no device, and an order of elements is kept.
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
		runInto(s, "copy", m.Tensor, closing(t, closing(t, x.Reshape(6)).Slice(0, 0, 4)))
		got, err = m.ReadAsync(s).Wait(bg)
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
	check := func(t *testing.T, d *Device, open func(), slow func(s *Stream, x *Tensor[float32]) *Tensor[float32]) {
		s := newStream(t, d)
		x := tensor(t, d, upTo(4))
		y := slow(s, x)
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
	}
	t.Run("cpu", func(t *testing.T) {
		gate := make(chan struct{})
		check(t, openTest(t, "cpu"), func() { close(gate) }, func(s *Stream, x *Tensor[float32]) *Tensor[float32] {
			y := Output[float32](s, 4)
			s.Enqueue(Op{Name: "slow", Args: []Arg{In(x.View()), Out(y.View())}, CPU: gated(gate, "neg")})
			return y
		})
	})
	t.Run("fake", func(t *testing.T) {
		d, f := openFake(t)
		f.gate = make(chan struct{})
		check(t, d, func() { close(f.gate) }, func(s *Stream, x *Tensor[float32]) *Tensor[float32] { return run(s, "neg", x) })
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
		s.Enqueue(Op{Name: "fail", Args: []Arg{Out(y.View())}, CPU: func(a []array.Array) error { <-gate; return errTest }})
		r := y.ReadAsync(other)
		close(gate)
		_, err := r.Wait(bg)
		require.ErrorIs(t, err, errTest)
		require.NoError(t, other.Synchronize(bg), "a read poisons nothing")
	})
	for _, call := range []string{"flush", "wait", "download"} {
		t.Run(call, func(t *testing.T) {
			d, f := openFake(t)
			s := newStream(t, d)
			y := closing(t, run(s, "neg", tensor(t, d, upTo(4))))
			f.mu.Lock()
			f.gate = make(chan struct{})
			f.failing[call] = nativeError(codeDeviceLost, 0, 0, "VK_ERROR_DEVICE_LOST")
			f.mu.Unlock()
			_, err := y.ReadAsync(s).Wait(bg)
			require.ErrorIs(t, err, ErrDeviceLost)
			f.mu.Lock()
			clear(f.failing)
			close(f.gate)
			f.mu.Unlock()
			runtime.KeepAlive(y)
		})
	}
	t.Run("the device closes", func(t *testing.T) {
		d, f := openFake(t)
		s := newStream(t, d)
		y := run(s, "neg", tensor(t, d, upTo(4)))
		taken, left := y.ReadAsync(s), y.ReadAsync(s)
		_, err := taken.Wait(bg)
		require.NoError(t, err)
		require.NoError(t, y.Close())
		require.NoError(t, d.Close())
		require.Zero(t, f.reads)
		_, err = left.Wait(bg)
		require.ErrorIs(t, err, ErrClosed)
		_, err = taken.Wait(bg)
		require.NoError(t, err, "it has its data")
	})
}

func TestForgottenReadingsAreFreed(t *testing.T) {
	d, f := openFake(t)
	s := newStream(t, d)
	y := closing(t, run(s, "neg", tensor(t, d, upTo(4))))
	for range 10 {
		y.ReadAsync(s)
	}
	require.NoError(t, s.Synchronize(bg))
	require.Eventually(t, func() bool {
		collect()
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.reads == 0
	}, waitLimit, waitStep)
}

// The copy goes with the work that makes the tensor, or alone if that is under
// way: one submission and one wait.
func TestReadIsOneSubmissionAndOneWait(t *testing.T) {
	d, f := openFake(t)
	s := newStream(t, d)
	x := tensor(t, d, upTo(100))
	y := closing(t, run(s, "neg", closing(t, run(s, "neg", x))))
	require.Equal(t, upTo(100), read(t, y))
	require.EqualValues(t, 1, f.submits)
	require.Equal(t, 1, f.waits)
	require.Equal(t, upTo(100), read(t, y), "which the host has now")
	require.EqualValues(t, 1, f.submits)
	require.EqualValues(t, 1, d.Stats().Downloads)

	z := closing(t, run(s, "neg", y))
	require.NoError(t, s.Flush())
	closing(t, run(s, "neg", z)) // is not waited for, and not started
	require.Equal(t, float32(-99), read(t, z)[99])
	require.EqualValues(t, 1+2, f.submits, "the work's and the copy's")
	require.Equal(t, 2, f.waits)
	require.NoError(t, s.Synchronize(bg))

	if _, err := vulkanDevices(); err == nil {
		d := openTest(t, "vulkan")
		s := newStream(t, d)
		y := closing(t, run(s, "neg", tensor(t, d, upTo(100))))
		require.Equal(t, float32(-99), read(t, y)[99])
		require.EqualValues(t, 1, s.Stats().Submits)
		require.EqualValues(t, 3, s.Stats().Dispatches, "upload, op, download")
	}
}

// A read and a write of a part both need the stream of transfers, and the
// write moves the content meanwhile.
func TestReadsBesidePartialWrites(t *testing.T) {
	d, _ := openFake(t)
	s := newStream(t, d)
	y := closing(t, run(s, "neg", tensor(t, d, upTo(100))))
	require.NoError(t, s.Synchronize(bg))
	part := closing(t, y.Slice(0, 0, 10))
	transfers := &d.backend.(*vulkanBackend).transfers.mu
	var wg sync.WaitGroup
	transfers.Lock()
	wg.Go(func() {
		_, err := y.Read(bg)
		require.NoError(t, err)
	})
	time.Sleep(5 * time.Millisecond) // so that it most likely comes first
	wg.Go(func() { require.NoError(t, part.Write(bg, make([]float32, 10))) })
	require.Eventually(t, func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		return y.View().st.busy
	}, waitLimit, waitStep)
	transfers.Unlock()
	quickly(t, wg.Wait)
	require.Equal(t, append(make([]float32, 10), read(t, closing(t, run(s, "copy", y)))[10:]...), read(t, y))
}

// A tensor that is closed while it is read is the reader's mistake alone.
func TestReadOfATensorThatIsClosedPoisonsNothing(t *testing.T) {
	d, _ := openFake(t)
	s := newStream(t, d)
	y := run(s, "neg", tensor(t, d, upTo(100)))
	require.NoError(t, s.Synchronize(bg))
	transfers := &d.backend.(*vulkanBackend).transfers.mu
	transfers.Lock()
	failed := make(chan error)
	go func() {
		_, err := y.Read(bg)
		failed <- err
	}()
	require.Eventually(t, func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		return y.View().st.pins > 0
	}, waitLimit, waitStep)
	require.NoError(t, y.Close())
	transfers.Unlock()
	require.ErrorIs(t, <-failed, ErrClosed)
	require.NoError(t, s.Synchronize(bg))
}

// A driver that refuses one read may take the next.
func TestReadThatIsRefusedOnce(t *testing.T) {
	d, f := openFake(t)
	s := newStream(t, d)
	y := closing(t, run(s, "neg", tensor(t, d, upTo(100))))
	require.NoError(t, s.Synchronize(bg))
	f.mu.Lock()
	f.failing["flush"] = nativeError(codeOutOfMemory, 0, 0, "VK_ERROR_OUT_OF_HOST_MEMORY")
	f.mu.Unlock()
	_, err := y.Read(bg)
	require.ErrorIs(t, err, ErrOutOfMemory)
	f.mu.Lock()
	clear(f.failing)
	require.Zero(t, f.reads)
	f.mu.Unlock()
	require.Equal(t, float32(-99), read(t, y)[99])
	require.NoError(t, s.Synchronize(bg))
}
