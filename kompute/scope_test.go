package kompute

import (
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
)

func TestScopeClosesWhatOpsCreated(t *testing.T) {
	onDevices(t, func(t *testing.T, d *Device) {
		s := newStream(t, d)
		x := tensor(t, d, upTo(4))
		sc := s.Scope()
		y := run(s, "neg", x)
		view := y.Reshape(2, 2)
		c := Constant(s, []float32{5})
		require.Zero(t, c.Rank())
		require.Equal(t, []float32{5}, read(t, c))
		outside, err := New(d, upTo(2))
		require.NoError(t, err)
		require.Equal(t, 4, d.Stats().LiveTensors)
		sc.Close()
		sc.Close()
		require.Equal(t, 2, d.Stats().LiveTensors)
		for _, z := range []*Tensor[float32]{y, view, c} {
			require.True(t, z.View().Closed())
			_, err := z.Read(bg)
			require.ErrorIs(t, err, ErrClosed)
			require.NoError(t, z.Close())
		}
		require.Equal(t, upTo(2), read(t, outside), "New belongs to nobody")
		require.NoError(t, outside.Close())
		after := closing(t, run(s, "neg", x))
		require.Equal(t, []float32{0, -1, -2, -3}, read(t, after), "no scope is open")
		require.NoError(t, s.Err())
	})
}

// Work that was enqueued in a scope runs although its tensors are closed.
func TestScopeClosesBeforeItsWorkIsDone(t *testing.T) {
	onDevices(t, func(t *testing.T, d *Device) {
		s := newStream(t, d)
		x := tensor(t, d, upTo(4))
		for range 50 {
			sc := s.Scope()
			y := run(s, "neg", run(s, "neg", x))
			runInto(s, "neg", x, y)
			sc.Close()
		}
		require.Equal(t, upTo(4), read(t, x))
	})
}

func TestKeep(t *testing.T) {
	onDevices(t, func(t *testing.T, d *Device) {
		s := newStream(t, d)
		x := tensor(t, d, upTo(4))
		outer := s.Scope()
		inner := s.Scope()
		left := run(s, "neg", x)
		base := run(s, "neg", x)
		kept := Keep(inner, base.Reshape(2, 2))
		inner.Close()
		require.True(t, left.View().Closed())
		require.False(t, kept.View().Closed())
		require.Equal(t, []float32{0, -1, -2, -3}, read(t, base), "the storage was kept, with every view")

		require.Same(t, kept, Keep(outer, kept))
		again := run(s, "neg", x)
		require.Same(t, again, Keep(outer, again))
		outer.Close()
		require.Equal(t, []float32{0, -1, -2, -3}, read(t, kept))
		require.Same(t, kept, Keep(outer, kept), "nobody owns it: nothing happens")
		require.NoError(t, again.Close())

		view := kept.Transpose()
		require.Equal(t, 2, d.Stats().LiveTensors)
		require.NoError(t, base.Close(), "left behind: does not count")
		require.NoError(t, kept.Close())
		require.Equal(t, []float32{0, -2, -1, -3}, read(t, view), "made after Keep: counts")
		require.NoError(t, view.Close())
		require.Equal(t, 1, d.Stats().LiveTensors)

		failed := Failed[float32](nil, errTest)
		require.Same(t, failed, Keep(outer, failed))
		require.Same(t, x, Keep(nil, x))
	})
}

// slowOps is a native library that takes its time to append an op.
type slowOps struct{ native }

func (n slowOps) op(stream unsafe.Pointer, op int32, m *callMemory, arrays, params int) error {
	time.Sleep(20 * time.Millisecond)
	return n.native.op(stream, op, m, arrays, params)
}

// Keep moves a tensor while an op of another stream is being appended that uses it. The
// race detector watches, so nothing else may order the two.
func TestKeepWhileAnotherStreamUsesTheTensor(t *testing.T) {
	d := vulkanOrSkip(t)
	s, other := newStream(t, d), newStream(t, d)
	x := tensor(t, d, upTo(3))
	sc := s.Scope()
	y := run(s, "add", x, x)
	b := d.backend.(*vulkanBackend)
	before := b.native
	b.native = slowOps{before}
	appended := make(chan *Tensor[float32])
	go func() { appended <- run(other, "add", y, y) }()
	time.Sleep(5 * time.Millisecond)
	Keep(sc, y)
	z := closing(t, <-appended)
	b.native = before
	sc.Close()
	require.Equal(t, []float32{0, 4, 8}, read(t, z))
	require.Equal(t, []float32{0, 2, 4}, read(t, closing(t, y)))
}

func TestClosingAnOuterScopeClosesInnerOnes(t *testing.T) {
	d := openTest(t, "cpu")
	s := newStream(t, d)
	x := tensor(t, d, upTo(4))
	outer := s.Scope()
	a := run(s, "neg", x)
	inner := s.Scope()
	b := run(s, "neg", x)
	outer.Close()
	require.True(t, a.View().Closed())
	require.True(t, b.View().Closed())
	inner.Close()

	s.Scope()
	c := run(s, "neg", x)
	require.NoError(t, s.Close())
	require.True(t, c.View().Closed(), "closing the stream closes its scopes")
	late := s.Scope()
	late.Close()
}

func TestClosedInsideAScope(t *testing.T) {
	d := openTest(t, "cpu")
	s := newStream(t, d)
	x := tensor(t, d, upTo(4))
	sc := s.Scope()
	y := run(s, "neg", x)
	require.NoError(t, y.Close())
	require.Equal(t, 1, d.Stats().LiveTensors, "freed early")
	require.Same(t, y, Keep(sc, y), "too late to keep")
	sc.Close()
	require.Equal(t, 1, d.Stats().LiveTensors)
	require.NoError(t, s.Synchronize(bg))
}
