package kompute

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/array"
)

// gated is an op that waits for the gate.
func gated(gate <-chan struct{}, name string) func([]array.Array, []byte) error {
	return func(a []array.Array, params []byte) error {
		<-gate
		return testOps[name](a, params)
	}
}

func contextFor(milliseconds int) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), time.Duration(milliseconds)*time.Millisecond)
}

func TestStreamRunsInOrder(t *testing.T) {
	onDevices(t, func(t *testing.T, d *Device) {
		s := newStream(t, d)
		x := tensor(t, d, []float32{1, 2})
		acc := x
		for range 20 {
			acc = closing(t, run(s, "add", acc, x))
		}
		require.Equal(t, []float32{21, 42}, read(t, acc))
		require.NoError(t, s.Synchronize(bg))
		require.EqualValues(t, 20, s.Stats().Ops)
		require.Empty(t, s.Stats().Fallbacks)
		require.Same(t, d, s.Device())
	})
}

func TestWindowsStartByThemselves(t *testing.T) {
	openBoth(t, func(t *testing.T, open func(...Option) *Device) {
		d := open(WithWindow(10, 1<<40))
		s := newStream(t, d)
		x := tensor(t, d, upTo(4))
		for i := range 35 {
			closing(t, run(s, "neg", x))
			require.EqualValues(t, (i+1)/10, s.Stats().Submits)
		}
		require.NoError(t, s.Synchronize(bg))
		require.EqualValues(t, 4, s.Stats().Submits)

		d = open(WithWindow(0, 100))
		s = newStream(t, d)
		x = tensor(t, d, upTo(10))
		closing(t, run(s, "neg", x))
		require.Zero(t, s.Stats().Submits, "80 bytes")
		closing(t, run(s, "neg", x))
		require.EqualValues(t, 1, s.Stats().Submits, "160 bytes")
	})
}

func TestStreamsDependOnEachOther(t *testing.T) {
	onDevices(t, func(t *testing.T, d *Device) {
		a, b := newStream(t, d), newStream(t, d)
		x := tensor(t, d, upTo(1000))
		y := x
		for i := range 20 {
			s := a
			if i%2 == 1 {
				s = b
			}
			y = closing(t, run(s, "neg", y))
			runInto(s, "add", y, y, x) // b reads what a wrote, and vice versa
		}
		require.True(t, slices.Equal(upTo(1000), read(t, y)), "x - x and back, ten times")
		// A writer waits for another stream's reader.
		z := closing(t, run(a, "add", x, x))
		w := closing(t, run(b, "neg", z))
		runInto(a, "add", z, z, z)
		require.Equal(t, float32(-2*999), read(t, w)[999])
		require.Equal(t, float32(4*999), read(t, z)[999])
	})
}

// Work on what a closed stream has written.
func TestWorkOfClosedStreamsIsThere(t *testing.T) {
	onDevices(t, func(t *testing.T, d *Device) {
		a, b := newStream(t, d), newStream(t, d)
		x := tensor(t, d, upTo(10))
		y := closing(t, run(a, "neg", x))
		require.NoError(t, a.Synchronize(bg))
		var sum *Tensor[float32]
		for range 10 {
			sum = closing(t, run(b, "add", x, y))
		}
		require.NoError(t, b.Synchronize(bg))
		require.EqualValues(t, 1, b.Stats().Submits, "the order is told once: it does not cut the window")
		require.Equal(t, make([]float32, 10), read(t, sum))
		require.NoError(t, a.Close())
		c := newStream(t, d)
		require.Equal(t, float32(-9), read(t, closing(t, run(c, "copy", y)))[9], "of a closed stream")
	})
}

func TestPoison(t *testing.T) {
	onDevices(t, func(t *testing.T, d *Device) {
		s := newStream(t, d)
		x := tensor(t, d, upTo(4))
		before := closing(t, run(s, "neg", x))
		s.Fail(errTest)
		s.Fail(errors.New("another"))
		after := closing(t, run(s, "neg", x))
		require.Equal(t, errTest, s.Err(), "the first stays")
		require.Equal(t, errTest, s.Flush())
		require.Equal(t, errTest, s.Synchronize(bg))
		for _, y := range []*Tensor[float32]{before, after} {
			_, err := y.Read(bg)
			require.Equal(t, errTest, err)
		}
		require.Equal(t, upTo(4), read(t, x), "which the stream did not write")

		// Errors spread only with data.
		other := newStream(t, d)
		fine := closing(t, run(other, "neg", x))
		require.NoError(t, other.Synchronize(bg))
		bad := closing(t, run(other, "copy", after))
		require.Equal(t, errTest, other.Synchronize(bg))
		_, err := bad.Read(bg)
		require.Equal(t, errTest, err)
		_, err = fine.Read(bg)
		require.Equal(t, errTest, err)
		require.Equal(t, errTest, s.Close())
		require.Equal(t, errTest, s.Close())

		require.NoError(t, after.Write(bg, upTo(4)), "new content from the host")
		require.Equal(t, upTo(4), read(t, after))
		s = newStream(t, d)
		s.Fail(nil)
		require.ErrorIs(t, s.Err(), ErrInvalid)
	})
}

func TestOpThatFailsPoisons(t *testing.T) {
	d := openTest(t, "cpu")
	s := newStream(t, d)
	x := tensor(t, d, upTo(4), 2, 2)
	y := closing(t, run(s, "fail", x))
	z := closing(t, run(s, "neg", y))
	other := newStream(t, d)
	w := closing(t, run(other, "neg", z))
	for _, bad := range []*Tensor[float32]{y, z, w} {
		_, err := bad.Read(bg)
		require.ErrorIs(t, err, errTest)
		var op *OpError
		require.ErrorAs(t, err, &op)
		require.Equal(t, "fail", op.Op)
		require.Equal(t, [][]int{{2, 2}, {2, 2}}, op.Shapes)
	}
	require.ErrorIs(t, s.Synchronize(bg), errTest)
	require.ErrorIs(t, other.Synchronize(bg), errTest)
}

func TestEnqueueRefusesBadOperands(t *testing.T) {
	onDevices(t, func(t *testing.T, d *Device) {
		x := tensor(t, d, upTo(6), 2, 3)
		other := openTest(t, "cpu")
		foreign := tensor(t, other, upTo(6))
		closed, err := New(d, upTo(6))
		require.NoError(t, err)
		require.NoError(t, closed.Close())
		layout := func(l array.Layout) *View { return x.View().WithLayout(l) }
		for name, c := range map[string]struct {
			arg  Arg
			want error
		}{
			"closed":   {In(closed.View()), ErrClosed},
			"foreign":  {In(foreign.View()), ErrDevice},
			"zero":     {In(&View{}), ErrInvalid},
			"access":   {Arg{View: x.View(), Access: 7}, ErrInvalid},
			"beyond":   {In(layout(array.Layout{Shape: []int{7}, Strides: []int{1}})), ErrInvalid},
			"before":   {In(layout(array.Layout{Shape: []int{2}, Strides: []int{1}, Offset: -1})), ErrInvalid},
			"negative": {In(layout(array.Layout{Shape: []int{2}, Strides: []int{-1}, Offset: 1})), ErrShape},
			"too many": {In(layout(array.Layout{Shape: make([]int, 9), Strides: make([]int, 9)})), ErrShape},
			"failed":   {In(Failed[float32](nil, errTest).View()), errTest},
		} {
			s := newStream(t, d)
			out := Output[float32](s, 2, 3)
			s.Enqueue(makeOp("neg", c.arg, Out(out.View())))
			require.ErrorIs(t, s.Err(), c.want, name)
			_, err := out.Read(bg)
			require.ErrorIs(t, err, c.want, name)
			require.NoError(t, out.Close())
			require.ErrorIs(t, s.Close(), c.want, name)
		}
	})
}

func TestStreamCloseFinishesItsWork(t *testing.T) {
	onDevices(t, func(t *testing.T, d *Device) {
		s := newStream(t, d)
		x := tensor(t, d, upTo(4))
		y := closing(t, run(s, "neg", x))
		require.NoError(t, s.Close())
		require.NoError(t, s.Close())
		require.Equal(t, []float32{0, -1, -2, -3}, read(t, y))
		require.ErrorIs(t, s.Err(), ErrClosed)
		require.ErrorIs(t, s.Synchronize(bg), ErrClosed)
		late := run(s, "neg", x)
		require.NoError(t, late.Err())
		_, err := late.Read(bg)
		require.ErrorIs(t, err, ErrClosed)
		require.NoError(t, late.Close())
		require.Equal(t, []float32{0, -1, -2, -3}, read(t, y), "still")
	})
}

func TestCancelledWaitsReturnAtOnceAndLeaveTheWorkAlone(t *testing.T) {
	onDevices(t, func(t *testing.T, d *Device) {
		s := newStream(t, d)
		open := holdBack(t, s)
		x := tensor(t, d, upTo(4))
		y := closing(t, run(s, "neg", x))
		ev := s.Record()
		for name, wait := range map[string]func(context.Context) error{
			"Synchronize": s.Synchronize,
			"Event.Wait":  ev.Wait,
			"Read":        func(ctx context.Context) error { _, err := y.Read(ctx); return err },
		} {
			ctx, cancel := contextFor(20)
			start := time.Now()
			require.ErrorIs(t, wait(ctx), context.DeadlineExceeded, name)
			require.Less(t, time.Since(start), time.Second, name)
			require.ErrorIs(t, wait(ctx), context.DeadlineExceeded, name)
			cancel()
		}
		require.NoError(t, x.Close(), "while the work needs it")
		require.NoError(t, s.Err())
		z := closing(t, run(s, "neg", y))
		open()
		require.Equal(t, upTo(4), read(t, z))
		require.Equal(t, []float32{0, -1, -2, -3}, read(t, y))
	})
}

// Eight goroutines share four streams and their inputs; the results are the
// same every time.
func TestEightGoroutinesOnFourStreams(t *testing.T) {
	onDevices(t, func(t *testing.T, d *Device) {
		var streams [4]*Stream
		for i := range streams {
			streams[i] = newStream(t, d)
		}
		shared := tensor(t, d, upTo(256))
		var wg sync.WaitGroup
		for g := range 8 {
			wg.Go(func() {
				if err := goroutineWork(d, streams[:], shared, g); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		for _, s := range streams {
			require.NoError(t, s.Synchronize(bg))
		}
	})
}

func goroutineWork(d *Device, streams []*Stream, shared *Tensor[float32], g int) error {
	own, err := New(d, []float32{float32(g)}, 1)
	if err != nil {
		return err
	}
	defer own.Close()
	wide := own.Broadcast(256)
	defer wide.Close()
	for round := range 15 {
		x := run(streams[(g+round)%4], "add", shared, wide)
		y := run(streams[(g+round+1)%4], "neg", x)
		z := run(streams[(g+round+2)%4], "add", y, y)
		got, err := z.Read(bg)
		if err != nil {
			return err
		}
		for i, v := range got {
			if want := -2 * float32(i+g); v != want {
				return fmt.Errorf("goroutine %d, round %d: element %d is %v, not %v", g, round, i, v, want)
			}
		}
		_, _, _ = x.Close(), y.Close(), z.Close()
	}
	return nil
}
