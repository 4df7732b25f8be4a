package kompute

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/array"
)

// Whoever waits for an op runs when it is done, and so does whom it wakes, although the
// stream has more work and there is no other processor.
func TestWaitersRunBeforeTheNextOps(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	d := openTest(t, "cpu")
	s := newStream(t, d)
	x := tensor(t, d, upTo(3))
	const ops, each = 100, 200 * time.Microsecond
	begin := make(chan struct{})
	var done atomic.Int32
	enqueue := func(run func()) {
		op := makeOp("neg", InOut(x.View()))
		op.CPU = func([]array.Array, []byte) error {
			run()
			done.Add(1)
			return nil
		}
		s.Enqueue(op)
	}
	enqueue(func() { <-begin })
	first := s.Record()
	for range ops - 1 {
		enqueue(func() {
			for start := time.Now(); time.Since(start) < each; {
			}
		})
	}
	require.NoError(t, s.Flush())
	woken, seen := make(chan error), make(chan int32)
	go func() { woken <- first.Wait(bg) }()
	go func() {
		err := <-woken
		seen <- done.Load()
		woken <- err
	}()
	for waiting := 0; waiting == 0; runtime.Gosched() {
		d.mu.Lock()
		waiting = len(s.queue.(*cpuQueue).waiters)
		d.mu.Unlock()
	}
	close(begin)
	require.Less(t, <-seen, int32(ops/10))
	require.NoError(t, <-woken)
	require.NoError(t, s.Synchronize(bg))
}

// Whoever stops waiting leaves nothing behind, although the work has not ended.
func TestWaitersThatGiveUp(t *testing.T) {
	d := openTest(t, "cpu")
	s := newStream(t, d)
	begin := make(chan struct{})
	defer close(begin)
	op := makeOp("neg", InOut(tensor(t, d, upTo(3)).View()))
	op.CPU = func([]array.Array, []byte) error {
		<-begin
		return nil
	}
	s.Enqueue(op)
	event := s.Record()
	require.NoError(t, s.Flush())
	ctx, cancel := context.WithTimeout(bg, time.Millisecond)
	defer cancel()
	require.ErrorIs(t, event.Wait(ctx), context.DeadlineExceeded)
	d.mu.Lock()
	defer d.mu.Unlock()
	require.Empty(t, s.queue.(*cpuQueue).waiters)
}
