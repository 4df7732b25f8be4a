package kompute

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/array"
)

// failedWriter returns a stream that has failed before it overwrote x, whose earlier work goes on.
func failedWriter(t *testing.T, d *Device, x *Tensor[float32]) *Stream {
	t.Helper()
	s := newStream(t, d)
	open := overwriteGated(t, s, tensor(t, d, upTo(1)), errTest)
	s.Enqueue(makeOp("neg", In(tensor(t, d, upTo(2)).View()), Out(x.View())))
	require.NoError(t, s.Flush())
	open()
	require.Eventually(t, func() bool { return s.Err() != nil }, time.Minute, time.Millisecond)
	return s
}

// What a failed stream skips still comes after the work that it depends on: the next writer of a storage
// depends only on the skipped one.
func TestSkippedWorkKeepsTheOrderOfOthers(t *testing.T) {
	soon := func(open func()) { time.AfterFunc(50*time.Millisecond, open) }
	t.Run("of a writer", func(t *testing.T) {
		d := openTest(t, "cpu")
		x := tensor(t, d, upTo(2))
		first, last := newStream(t, d), newStream(t, d)
		gate := make(chan struct{})
		first.Enqueue(Op{Name: "gated", Args: []Arg{Out(x.View())}, CPU: func(a []Array, _ []byte) error {
			<-gate
			clear(array.Storage[float32](a[0]))
			return nil
		}})
		require.NoError(t, first.Flush())
		failedWriter(t, d, x)
		soon(func() { close(gate) })
		last.Enqueue(makeOp("neg", In(tensor(t, d, upTo(2)).View()), Out(x.View())))
		require.NoError(t, last.Synchronize(bg))
		require.NoError(t, first.Synchronize(bg))
		require.Equal(t, []float32{0, -1}, read(t, x))
	})
	t.Run("of a reader", func(t *testing.T) {
		d := openTest(t, "cpu")
		x, y := tensor(t, d, upTo(2)), tensor(t, d, upTo(2))
		first := newStream(t, d)
		gate := make(chan struct{})
		first.Enqueue(Op{Name: "gated", Args: []Arg{In(x.View()), Out(y.View())}, CPU: func(a []Array, _ []byte) error {
			<-gate
			copy(a[1].Data, a[0].Data)
			return nil
		}})
		require.NoError(t, first.Flush())
		failedWriter(t, d, x)
		soon(func() { close(gate) })
		require.NoError(t, x.Write(bg, []float32{5, 5}))
		require.Equal(t, upTo(2), read(t, y))
	})
	t.Run("of an event", func(t *testing.T) {
		d := openTest(t, "cpu")
		first, s := newStream(t, d), newStream(t, d)
		release := overwriteGated(t, first, tensor(t, d, upTo(1)), nil)
		open := overwriteGated(t, s, tensor(t, d, upTo(1)), errTest)
		s.Wait(first.Record())
		both := s.Record()
		open()
		require.Eventually(t, func() bool { return s.Err() != nil }, time.Minute, time.Millisecond)
		require.Never(t, both.Done, 50*time.Millisecond, time.Millisecond)
		release()
		require.Error(t, s.Synchronize(bg))
	})
}

// A failed stream that is closed lets go of what it had not submitted.
func TestClosingAFailedStreamFreesItsOperands(t *testing.T) {
	d := openTest(t, "cpu")
	x := tensor(t, d, upTo(2))
	var freed atomic.Bool
	func() {
		owner := new([4096]byte)
		runtime.AddCleanup(owner, func(f *atomic.Bool) { f.Store(true) }, &freed)
		w, err := Wrap(d, DTypeUint8, owner[:], owner, len(owner))
		require.NoError(t, err)
		s := newStream(t, d)
		open := overwriteGated(t, s, tensor(t, d, upTo(1)), errTest)
		s.Enqueue(Op{Name: "uses", Args: []Arg{In(w), Out(x.View())}, CPU: func([]Array, []byte) error { return nil }})
		open()
		require.Eventually(t, func() bool { return s.Err() != nil }, time.Minute, time.Millisecond)
		require.ErrorIs(t, s.Close(), errTest)
		require.NoError(t, w.Close())
	}()
	require.NoError(t, x.Write(bg, upTo(2)))
	require.Eventually(t, func() bool { runtime.GC(); return freed.Load() }, time.Minute, 10*time.Millisecond)
	require.Equal(t, upTo(2), read(t, x)) // which remembers the stream
}

// Nobody waits forever for what a failed stream had not submitted when it was closed.
func TestWritesWhileAFailedStreamCloses(t *testing.T) {
	d := openTest(t, "cpu")
	for i := range 2000 {
		x := tensor(t, d, upTo(8))
		s := newStream(t, d)
		open := overwriteGated(t, s, x, errTest)
		s.Enqueue(makeOp("neg", In(x.View()), Out(x.View())))
		open()
		for s.Err() == nil {
			runtime.Gosched()
		}
		var closes sync.WaitGroup
		closes.Go(func() { _ = s.Close() })
		for range i % 50 {
			runtime.Gosched()
		}
		require.NoError(t, x.Write(bg, upTo(8)))
		closes.Wait()
		require.NoError(t, x.Close())
	}
}
