package kompute

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/array"
)

func TestEvents(t *testing.T) {
	onDevices(t, func(t *testing.T, d *Device) {
		a, b := newStream(t, d), newStream(t, d)
		x := tensor(t, d, upTo(4))
		require.True(t, a.Record().Done(), "nothing was enqueued")
		y := closing(t, run(a, "neg", x))
		ev := a.Record()
		b.Wait(ev)
		a.Wait(ev)
		z := closing(t, run(b, "copy", y))
		require.NoError(t, b.Synchronize(bg))
		require.NoError(t, ev.Wait(bg))
		require.True(t, ev.Done())
		require.Equal(t, []float32{0, -1, -2, -3}, read(t, z))

		closing(t, run(a, "neg", y))
		polled := a.Record() // never waited for
		require.Eventually(t, polled.Done, waitLimit, waitStep)

		s := newStream(t, d)
		s.Wait(nil)
		require.ErrorIs(t, s.Err(), ErrInvalid)
		s = newStream(t, d)
		var none Event
		s.Wait(&none)
		require.ErrorIs(t, s.Err(), ErrInvalid)
		require.ErrorIs(t, none.Wait(bg), ErrInvalid)
		require.True(t, none.Done())
	})
}

// An event covers the work before it, also of a stream whose context has ended while
// others hold the stream.
func TestRecordOfACancelledStream(t *testing.T) {
	onDevices(t, func(t *testing.T, d *Device) {
		ctx, cancel := context.WithCancel(bg)
		s, err := d.NewStream(WithContext(ctx))
		require.NoError(t, err)
		open := holdBack(t, s)
		y := closing(t, run(s, "neg", tensor(t, d, upTo(2))))
		cancel()
		s.mu.Lock()
		recorded := make(chan *Event, 1)
		go func() { recorded <- s.Record() }()
		time.Sleep(20 * time.Millisecond) // so that Record waits for the lock
		s.mu.Unlock()
		ev := <-recorded
		require.False(t, ev.Done())
		open()
		require.NoError(t, ev.Wait(bg))
		require.Equal(t, []float32{0, -1}, read(t, y))
	})
}

func TestEventOrdersStreamsWithoutData(t *testing.T) {
	d := openTest(t, "cpu")
	a, b := newStream(t, d), newStream(t, d)
	gate := make(chan struct{})
	var mu sync.Mutex
	var order []string
	note := func(s *Stream, name string, wait <-chan struct{}) {
		s.Enqueue(Op{Name: name, CPU: func([]array.Array, []byte) error {
			if wait != nil {
				<-wait
			}
			mu.Lock()
			defer mu.Unlock()
			order = append(order, name)
			return nil
		}})
	}
	note(a, "first", gate)
	b.Wait(a.Record())
	note(b, "second", nil)
	require.NoError(t, b.Flush())
	time.Sleep(5 * time.Millisecond)
	close(gate)
	require.NoError(t, b.Synchronize(bg))
	require.Equal(t, []string{"first", "second"}, order)
}
