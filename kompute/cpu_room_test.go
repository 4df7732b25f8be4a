package kompute

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/array"
)

// flushes enqueues n ops that note their turn, each as a submission. It returns the last error.
func flushes(s *Stream, n int, ran *[]int) (err error) {
	for i := range n {
		hostOp(s, func() { *ran = append(*ran, i) })
		err = s.Flush()
	}
	return err
}

// pendingOf returns how many submissions of the stream are under way, and how many of its items.
func pendingOf(s *Stream) (submissions, items int) {
	s.dev.mu.Lock()
	defer s.dev.mu.Unlock()
	return len(s.queue.(*cpuQueue).ends), int(s.appended - s.done)
}

// staysFull waits until a stream has no room, and requires that no more is submitted then.
func staysFull(t *testing.T, s *Stream) {
	t.Helper()
	full := func() bool { n, _ := pendingOf(s); return n == mostSubmissions }
	require.Eventually(t, full, waitLimit, waitStep)
	require.Never(t, func() bool { return !full() }, 30*time.Millisecond, waitStep)
}

// blocked returns a stream whose first op runs until open is called.
func blocked(t *testing.T, d *Device, opts ...StreamOption) (s *Stream, open func()) {
	t.Helper()
	s, err := d.NewStream(opts...)
	require.NoError(t, err)
	gate := make(chan struct{})
	open = sync.OnceFunc(func() { close(gate) })
	t.Cleanup(open)
	hostOp(s, func() { <-gate })
	require.NoError(t, s.Flush())
	return s, open
}

func TestProducersWaitForRoom(t *testing.T) {
	d := openTest(t, "cpu")
	s, open := blocked(t, d)
	var ran []int
	produced := make(chan error)
	go func() { produced <- flushes(s, 200, &ran) }()
	staysFull(t, s)
	_, items := pendingOf(s)
	require.LessOrEqual(t, items, mostSubmissions+1)
	open()
	require.NoError(t, <-produced)
	require.NoError(t, s.Synchronize(bg))
	require.Len(t, ran, 200)
	require.IsIncreasing(t, ran)
	submissions, _ := pendingOf(s)
	require.Zero(t, submissions)
}

func TestReplaysWaitForRoom(t *testing.T) {
	d := openTest(t, "cpu")
	x := tensor(t, d, upTo(2))
	s := newStream(t, d)
	region := captureTest(t, s, func(s *Stream) { runInto(s, "add", x, x, x) })
	gate := make(chan struct{})
	hostOp(s, func() { <-gate })
	require.NoError(t, s.Flush())
	produced := make(chan error)
	go func() {
		var err error
		for range 100 {
			if err = region.Replay(bg); err != nil {
				break
			}
		}
		produced <- err
	}()
	staysFull(t, s)
	endsInTime(t, "Replay", region.Replay)
	endsInTime(t, "Synchronize", s.Synchronize)
	require.NoError(t, s.Err(), "only the calls ended")
	close(gate)
	require.NoError(t, <-produced)
	require.NoError(t, s.Synchronize(bg))
	require.EqualValues(t, 100, region.Stats().Replays)
}

// The stream's own context ends what Enqueue and Flush wait for, and poisons the stream.
func TestContextsEndWaitsForRoom(t *testing.T) {
	d := openTest(t, "cpu")
	ctx, cancel := context.WithCancel(bg)
	defer cancel()
	s, open := blocked(t, d, WithContext(ctx))
	var ran []int
	require.NoError(t, flushes(s, mostSubmissions-1, &ran))
	staysFull(t, s)
	time.AfterFunc(20*time.Millisecond, cancel)
	quickly(t, func() { require.ErrorIs(t, flushes(s, 1, &ran), context.Canceled) })
	require.ErrorIs(t, s.Err(), context.Canceled)
	d.mu.Lock()
	require.Empty(t, s.queue.(*cpuQueue).waiters)
	d.mu.Unlock()
	open()
	require.ErrorIs(t, s.Close(), context.Canceled)
}

// An error of the stream ends waits for room: what is pending is skipped.
func TestErrorsEndWaitsForRoom(t *testing.T) {
	d := openTest(t, "cpu")
	s, open := blocked(t, d)
	var ran []int
	produced := make(chan error)
	go func() { produced <- flushes(s, 100, &ran) }()
	staysFull(t, s)
	s.Fail(errTest)
	open()
	require.ErrorIs(t, <-produced, errTest)
	require.Empty(t, ran)
	require.ErrorIs(t, s.Close(), errTest)
}

func TestShutdownOfAFullStream(t *testing.T) {
	d := openTest(t, "cpu")
	s, open := blocked(t, d)
	var ran []int
	produced := make(chan error)
	go func() { produced <- flushes(s, 100, &ran) }()
	staysFull(t, s)
	endsInTime(t, "Shutdown", s.Shutdown)
	open()
	require.ErrorIs(t, <-produced, ErrClosed)
	require.NoError(t, s.Close())
	require.GreaterOrEqual(t, len(ran), mostSubmissions-1, "what was enqueued before has run")
	require.IsIncreasing(t, ran)
}

// Work that waits for another stream is not limited: the other may wait for the caller.
func TestHeldWorkHasRoom(t *testing.T) {
	t.Run("of another device", func(t *testing.T) {
		s := newStream(t, openTest(t, "cpu"))
		open := holdBack(t, s)
		var ran []int
		quickly(t, func() { require.NoError(t, flushes(s, 100, &ran)) })
		open()
		require.NoError(t, s.Synchronize(bg))
		require.IsIncreasing(t, ran)
	})
	t.Run("of an op that enqueues it", func(t *testing.T) {
		d := openTest(t, "cpu")
		first, s := newStream(t, d), newStream(t, d)
		var ran []int
		begin := make(chan struct{})
		hostOp(first, func() {
			<-begin
			if err := flushes(s, 100, &ran); err != nil {
				t.Error(err)
			}
		})
		s.Wait(first.Record())
		require.NoError(t, s.Flush())
		close(begin)
		quickly(t, func() { require.NoError(t, first.Synchronize(bg)) })
		require.NoError(t, s.Synchronize(bg))
		require.Len(t, ran, 100)
		require.IsIncreasing(t, ran)
	})
	t.Run("from later on", func(t *testing.T) {
		d := openTest(t, "cpu")
		first, openFirst := blocked(t, d)
		s, open := blocked(t, d)
		s.Wait(first.Record())
		var ran []int
		produced := make(chan error)
		go func() { produced <- flushes(s, 200, &ran) }()
		staysFull(t, s)
		open()
		quickly(t, func() { require.NoError(t, <-produced) })
		require.Empty(t, ran)
		openFirst()
		require.NoError(t, s.Synchronize(bg))
		require.IsIncreasing(t, ran)
	})
}

// Streams whose work is always started by others, before their windows are full, wait for room, too.
func TestWorkThatOthersStartIsBounded(t *testing.T) {
	const window, ops = 10, 500
	d := openTest(t, "cpu", WithWindow(window, 1<<40))
	x := tensor(t, d, upTo(1))
	first, open := blocked(t, d)
	s := newStream(t, d)
	var done atomic.Int64
	count := func(a []array.Array, _ []byte) error {
		done.Add(1)
		return testOps["copy"](a, nil)
	}
	produced := make(chan struct{})
	go func() {
		defer close(produced)
		for range ops {
			y := Output[float32](first, 1)
			first.Enqueue(Op{Name: "made", Args: []Arg{In(x.View()), Out(y.View())}, CPU: count})
			_ = run(s, "neg", y).Close()
			_ = y.Close()
		}
	}()
	bounded := func() bool {
		n, items := pendingOf(first)
		return n <= mostSubmissions+1 && items <= mostSubmissions+2*window
	}
	require.Eventually(t, func() bool { n, _ := pendingOf(first); return n >= mostSubmissions }, waitLimit, waitStep)
	require.Never(t, func() bool { return !bounded() }, 50*time.Millisecond, waitStep)
	open()
	<-produced
	require.NoError(t, s.Synchronize(bg))
	require.NoError(t, first.Synchronize(bg))
	require.EqualValues(t, ops, done.Load())
}
