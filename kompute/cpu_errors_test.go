package kompute

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// overwriteGated enqueues an op that overwrites x, which waits until open is called and then
// returns err.
func overwriteGated(t *testing.T, s *Stream, x *Tensor[float32], err error) (open func()) {
	gate := make(chan struct{})
	open = sync.OnceFunc(func() { close(gate) })
	t.Cleanup(open)
	s.Enqueue(Op{Name: "gated", Args: []Arg{Out(x.View())}, CPU: func([]Array, []byte) error { <-gate; return err }})
	require.NoError(t, s.Flush())
	return open
}

// Work fails with the error of what should have made its operands, even if they are
// overwritten before it runs.
func TestErrorsOfOverwrittenOperands(t *testing.T) {
	d := openTest(t, "cpu")
	for _, here := range []bool{true, false} { // the stream of the reader overwrites
		x := tensor(t, d, upTo(2))
		maker, s := newStream(t, d), newStream(t, d)
		open := overwriteGated(t, maker, x, errTest)
		r := x.ReadAsync(s)
		y := closing(t, run(s, "neg", x))
		other := s
		if !here {
			other = newStream(t, d)
		}
		other.Enqueue(makeOp("neg", In(tensor(t, d, upTo(2)).View()), Out(x.View())))
		open()
		require.ErrorIs(t, s.Synchronize(bg), errTest)
		_, err := r.Wait(bg)
		require.ErrorIs(t, err, errTest)
		_, err = y.Read(bg)
		require.ErrorIs(t, err, errTest)
		if !here {
			require.Equal(t, []float32{0, -1}, read(t, x), "it was overwritten")
		}
	}
}

// So does work that overwrites only a part of what should have been made: the rest stays missing.
func TestErrorsOfPartlyOverwrittenTensors(t *testing.T) {
	d := openTest(t, "cpu")
	x := tensor(t, d, upTo(4))
	maker, s := newStream(t, d), newStream(t, d)
	open := overwriteGated(t, maker, x, errTest)
	s.Enqueue(makeOp("neg", In(tensor(t, d, upTo(2)).View()), Out(closing(t, x.Slice(0, 0, 2)).View())))
	open()
	require.ErrorIs(t, s.Synchronize(bg), errTest)
	_, err := x.Read(bg)
	require.ErrorIs(t, err, errTest)
}

// Nor does work fail because of what happens to its operands after it was enqueued.
func TestLaterErrorsOfOperands(t *testing.T) {
	d := openTest(t, "cpu")
	s, other := newStream(t, d), newStream(t, d)
	x, busy := tensor(t, d, upTo(2)), tensor(t, d, upTo(1))
	open := overwriteGated(t, s, busy, nil)
	r := x.ReadAsync(s)
	y := closing(t, run(s, "neg", x))
	other.Enqueue(makeOp("neg", In(y.View()), Out(x.View())))
	other.Fail(errTest)
	open()
	got, err := r.Wait(bg)
	require.NoError(t, err)
	require.Equal(t, upTo(2), got)
	require.Equal(t, []float32{0, -1}, read(t, y))
	require.NoError(t, s.Synchronize(bg))
}

// A replay whose input has failed is refused, whether its maker failed when it was
// enqueued or when it ran.
func TestReplayOfAnInputThatFailsWhenItRuns(t *testing.T) {
	d := openTest(t, "cpu")
	maker, s := newStream(t, d), newStream(t, d)
	x := tensor(t, d, upTo(2))
	maker.Enqueue(makeOp("neg", In(tensor(t, d, upTo(2)).View()), Out(x.View())))
	var y *Tensor[float32]
	r := captureTest(t, s, func(s *Stream) { y = Result(s, run(s, "neg", x)) })
	defer y.Close()
	replay(t, r)
	require.NoError(t, s.Synchronize(bg))
	overwriteGated(t, maker, x, errTest)()
	require.ErrorIs(t, maker.Synchronize(bg), errTest)
	require.ErrorIs(t, r.Replay(bg), errTest)
	require.NoError(t, s.Err(), "the stream is unchanged")
	require.NoError(t, x.Write(bg, upTo(2)))
	replay(t, r)
	require.Equal(t, []float32{0, -1}, read(t, y))
}

// A captured op that writes a tensor before it names the same tensor as its input needs that input all the same.
func TestReplayOfAFailedInputThatIsNamedLast(t *testing.T) {
	d := openTest(t, "cpu")
	maker, s := newStream(t, d), newStream(t, d)
	x := tensor(t, d, upTo(2))
	r := captureTest(t, s, func(s *Stream) {
		s.Enqueue(Op{Name: "swapped", Args: []Arg{Out(x.View()), In(x.View())}, CPU: func([]Array, []byte) error { return nil }})
	})
	replay(t, r)
	overwriteGated(t, maker, x, errTest)()
	require.ErrorIs(t, maker.Synchronize(bg), errTest)
	require.ErrorIs(t, r.Replay(bg), errTest)
}

// An operand may fail after the call that uses it has looked at it.
func TestErrorsWhileAnOpIsEnqueued(t *testing.T) {
	d := openTest(t, "cpu")
	maker, s := newStream(t, d), newStream(t, d)
	x, y := tensor(t, d, upTo(2)), tensor(t, d, upTo(2))
	open := overwriteGated(t, maker, x, errTest)
	op := makeOp("neg", In(x.View()), Out(y.View()))
	require.NoError(t, s.admit(&op))
	open()
	require.ErrorIs(t, maker.Synchronize(bg), errTest)
	require.ErrorIs(t, s.queue.append(op), errTest)
	_, err := s.queue.read(x.View().st, 0, 8)
	require.ErrorIs(t, err, errTest)
	require.Equal(t, upTo(2), read(t, y))
}

// lateBackend calls after when a write is done, before the caller knows it.
type lateBackend struct {
	backend
	after func()
}

func (b lateBackend) write(ctx context.Context, v *View, data []byte) error {
	defer b.after()
	return b.backend.write(ctx, v, data)
}

// The error of work that runs as soon as a write of the host is done stays, although the caller of the write does not
// know yet that it is.
func TestErrorsOfWorkThatFollowsAWrite(t *testing.T) {
	d := openTest(t, "cpu")
	s, x := newStream(t, d), tensor(t, d, upTo(2))
	d.backend = lateBackend{d.backend, func() {
		overwriteGated(t, s, x, errTest)()
		require.ErrorIs(t, s.Synchronize(bg), errTest)
	}}
	require.NoError(t, x.Write(bg, upTo(2)))
	_, err := x.Read(bg)
	require.ErrorIs(t, err, errTest)
}
