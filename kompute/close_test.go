package kompute

import (
	"context"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// endsInTime calls f with a context that ends soon, and requires its error at once.
func endsInTime(t *testing.T, what string, f func(context.Context) error) {
	t.Helper()
	ctx, cancel := contextFor(20)
	defer cancel()
	quickly(t, func() { require.ErrorIs(t, f(ctx), context.DeadlineExceeded, what) })
}

func TestShutdownOfABusyStream(t *testing.T) {
	onDevices(t, func(t *testing.T, d *Device) {
		s := newStream(t, d)
		x, w := tensor(t, d, upTo(4)), tensor(t, d, upTo(4))
		region := captureTest(t, s, func(s *Stream) { runInto(s, "neg", w, w) })
		open := holdBack(t, s)
		y := closing(t, run(s, "neg", x))
		endsInTime(t, "the first", s.Shutdown)
		endsInTime(t, "the second", s.Shutdown)

		require.ErrorIs(t, s.Err(), ErrClosed)
		require.ErrorIs(t, s.Flush(), ErrClosed)
		require.ErrorIs(t, s.Synchronize(bg), ErrClosed)
		require.ErrorIs(t, s.StartTiming(), ErrClosed)
		require.ErrorIs(t, region.Replay(bg), ErrClosed)
		_, err := s.Capture(func(*Stream) { t.Error("called") })
		require.ErrorIs(t, err, ErrClosed)
		late := closing(t, run(s, "neg", x))
		_, err = late.Read(bg)
		require.ErrorIs(t, err, ErrClosed)
		_, err = x.ReadAsync(s).Wait(bg)
		require.ErrorIs(t, err, ErrClosed)
		s.Scope().Close()

		require.EqualValues(t, 1, d.Stats().LiveTensors-3, "nothing was freed: x, w and late, and y")
		open()
		require.NoError(t, s.Close(), "what came late is no error of the stream's")
		require.Equal(t, []float32{0, -1, -2, -3}, read(t, y))
		require.NoError(t, s.Shutdown(bg))
	})
}

// The stream's own lock is held while an op waits for operands that the CPU needs.
func TestShutdownWhileAnOpIsBeingEnqueued(t *testing.T) {
	d := vulkanOrSkip(t)
	s := newStream(t, d)
	open := holdBack(t, s)
	y := closing(t, run(s, "neg", tensor(t, d, upTo(4))))
	enqueued := make(chan *Tensor[float32])
	go func() { enqueued <- run(s, "only_on_the_cpu", y) }()
	require.Eventually(t, func() bool { return len(d.Stats().Fallbacks["only_on_the_cpu"]) > 0 }, waitLimit, waitStep)
	require.False(t, s.mu.TryLock(), "the op has not begun to wait")
	endsInTime(t, "Shutdown", s.Shutdown)
	require.ErrorIs(t, s.Err(), ErrClosed)
	open()
	z := closing(t, <-enqueued)
	require.NoError(t, s.Close())
	require.Equal(t, upTo(4), read(t, z), "it came before")
}

func TestShutdownOfABusyDevice(t *testing.T) {
	onDevices(t, func(t *testing.T, d *Device) {
		s, other := newStream(t, d), newStream(t, d)
		x := tensor(t, d, upTo(4))
		open := holdBack(t, s)
		y := closing(t, run(s, "neg", x))
		_ = closing(t, run(other, "neg", x))
		endsInTime(t, "the first", d.Shutdown)
		endsInTime(t, "the second", d.Shutdown)
		for _, s := range []*Stream{s, other} {
			require.ErrorIs(t, s.Err(), ErrClosed)
		}
		_, err := d.NewStream()
		require.ErrorIs(t, err, ErrClosed)
		_, err = New(d, upTo(1))
		require.ErrorIs(t, err, ErrClosed)
		_, err = y.Read(bg)
		require.ErrorIs(t, err, ErrClosed)
		require.NoError(t, y.Close())
		open()
		require.NoError(t, d.Close())
		require.NoError(t, s.Close())
		require.Empty(t, d.streams)
	})
}

// Every call that waits for the end returns the stream's error, however late.
func TestShutdownTellsTheStreamsErrors(t *testing.T) {
	onDevices(t, func(t *testing.T, d *Device) {
		s := newStream(t, d)
		open := holdBack(t, s)
		closing(t, run(s, "neg", tensor(t, d, upTo(4))))
		s.Fail(errTest)
		ctx, cancel := contextFor(20)
		defer cancel()
		require.Error(t, s.Shutdown(ctx)) // either error
		open()
		require.ErrorIs(t, s.Close(), errTest)
	})
}

func TestShutdownWithAContextThatHasEnded(t *testing.T) {
	onDevices(t, func(t *testing.T, d *Device) {
		ctx, cancel := context.WithCancel(bg)
		cancel()
		s := newStream(t, d)
		open := holdBack(t, s)
		require.ErrorIs(t, s.Shutdown(ctx), context.Canceled)
		require.ErrorIs(t, s.Err(), ErrClosed, "it is closed all the same")
		open()
		require.NoError(t, s.Shutdown(bg))
	})
}

func TestProfileHeedsItsContext(t *testing.T) {
	onDevices(t, func(t *testing.T, d *Device) {
		s := newStream(t, d)
		x := tensor(t, d, upTo(4))
		region := captureTest(t, s, func(s *Stream) { runInto(s, "neg", x, x) })
		open := holdBack(t, s)
		runInto(s, "neg", x, x)
		endsInTime(t, "Profile", func(ctx context.Context) error {
			_, err := region.Profile(ctx, 1)
			return err
		})
		require.NoError(t, s.Err(), "the work goes on")
		open()
		ctx, cancel := context.WithTimeout(bg, waitLimit)
		defer cancel()
		_, err := region.Profile(ctx, 1)
		require.NoError(t, err)
	})
}

// lostQueue is a queue whose work is lost, and which says so only until it is closed.
type lostQueue struct {
	queue
	closed  bool
	closing func() // called once it is
}

func (q *lostQueue) wait(context.Context, uint64) error {
	if q.closed {
		return nil
	}
	return ErrDeviceLost
}

func (q *lostQueue) close() {
	q.closed = true
	q.closing()
	q.queue.close()
}

// Who waits for lost work while its stream is being closed is not told that it is done.
func TestWaitingWhileALostStreamCloses(t *testing.T) {
	d, err := Open("cpu")
	require.NoError(t, err)
	s := newStream(t, d)
	ev := &Event{mark{s, 1}}
	var during error
	s.queue = &lostQueue{queue: s.queue, closing: func() { during = ev.Wait(bg) }}
	require.ErrorIs(t, s.Close(), ErrDeviceLost)
	require.ErrorIs(t, during, ErrDeviceLost)
	require.ErrorIs(t, ev.Wait(bg), ErrDeviceLost)
	_ = d.Close() // it counts as lost
}

// makingBackend makes memory and queues slowly: Close is called meanwhile.
type makingBackend struct {
	backend
	d     *Device
	freed chan struct{} // closed when the device or a queue is
	end   func()
	early bool
}

func (b *makingBackend) make() error {
	go func() { _ = b.d.Close() }()
	select {
	case <-b.freed:
		b.early = true
	case <-time.After(20 * time.Millisecond):
	}
	return nil
}

func (b *makingBackend) wrap(*storage, []byte) error { return b.make() }
func (b *makingBackend) giveMapped(*storage) error   { return b.make() }
func (b *makingBackend) fill(*storage, []byte) error { return b.make() }
func (b *makingBackend) close()                      { b.end() }

func (b *makingBackend) newQueue(s *Stream) (queue, error) {
	q, err := b.backend.newQueue(s)
	return makingQueue{q, b}, err
}

type makingQueue struct {
	queue
	b *makingBackend
}

func (q makingQueue) timeOps(timing) error { return q.b.make() }
func (q makingQueue) close()               { q.b.end() }

// A device is not freed while tensors and streams are made on it.
func TestCloseWaitsForWhatIsBeingMade(t *testing.T) {
	for name, call := range map[string]func(d *Device) (io.Closer, error){
		"New":       func(d *Device) (io.Closer, error) { return New(d, upTo(2)) },
		"Zeros":     func(d *Device) (io.Closer, error) { return Zeros[float32](d, 2) },
		"Wrap":      func(d *Device) (io.Closer, error) { return Wrap(d, DTypeUint8, make([]byte, 2), nil, 2) },
		"NewMapped": func(d *Device) (io.Closer, error) { return NewMapped[float32](d, 2) },
		"NewStream": func(d *Device) (io.Closer, error) { return d.NewStream() },
	} {
		d := openTest(t, "cpu", WithOpTimes())
		freed := make(chan struct{})
		b := &makingBackend{backend: d.backend, d: d, freed: freed, end: sync.OnceFunc(func() { close(freed) })}
		d.backend = b
		x, err := call(d)
		require.NoError(t, err, name)
		require.False(t, b.early, name)
		require.NoError(t, x.Close())
		require.NoError(t, d.Close())
		_, err = call(d)
		require.ErrorIs(t, err, ErrClosed, name)
	}
}
