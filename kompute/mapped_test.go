package kompute

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMapped(t *testing.T) {
	onDevices(t, func(t *testing.T, d *Device) {
		s := newStream(t, d)
		m, err := NewMapped[float32](d, 4)
		require.NoError(t, err)
		defer m.Close()
		x := tensor(t, d, upTo(4))
		require.Equal(t, make([]float32, 4), read(t, m.Tensor()))
		_, err = s.Capture(func(s *Stream) {
			runInto(s, "add", m.Tensor(), m.Tensor(), x)
			require.ErrorIs(t, m.Peek(make([]float32, 1), 0), ErrCapture)
		})
		require.ErrorContains(t, err, "peek cannot be captured")
		r := captureTest(t, s, func(s *Stream) { runInto(s, "add", m.Tensor(), m.Tensor(), x) })
		submits := s.Stats().Submits
		var last [2]float32
		for i := range 5 {
			replay(t, r)
			require.NoError(t, s.Record().Wait(bg))
			require.NoError(t, m.Peek(last[:], 2))
			require.Equal(t, [2]float32{float32(2 * (i + 1)), float32(3 * (i + 1))}, last)
		}
		require.EqualValues(t, 5, s.Stats().Submits-submits, "reading needs no work")
		require.NoError(t, m.Tensor().Write(bg, []float32{9, 9, 9, 9}))
		replayN(t, r, 2)
		require.Equal(t, []float32{9, 11, 13, 15}, read(t, m.Tensor()))
		y := closing(t, run(s, "neg", m.Tensor()))
		require.Equal(t, []float32{-9, -11, -13, -15}, read(t, y))
		submits = s.Stats().Submits
		require.NoError(t, m.Poke([]float32{5, 7}, 1))
		require.NoError(t, m.Peek(last[:], 1))
		require.Equal(t, [2]float32{5, 7}, last)
		require.Equal(t, submits, s.Stats().Submits, "writing needs no work")
		replay(t, r)
		require.Equal(t, []float32{9, 6, 9, 18}, read(t, m.Tensor()))
		require.ErrorIs(t, m.Poke(last[:], 3), ErrShape)
		require.ErrorIs(t, m.Peek(last[:], 3), ErrShape)
		require.ErrorIs(t, m.Peek(last[:], -1), ErrShape)
		require.NoError(t, m.Close())
		require.ErrorIs(t, m.Peek(last[:], 0), ErrClosed)
		require.ErrorIs(t, m.Poke(last[:], 0), ErrClosed)
		require.ErrorIs(t, r.Replay(bg), ErrClosed)
	})
}

// An op that falls back reads and writes mapped memory in the stream's order.
func TestMappedFallsBack(t *testing.T) {
	openBoth(t, func(t *testing.T, open func(...Option) *Device) {
		d := open(WithDisabled("unary"))
		s := newStream(t, d)
		m, err := NewMapped[float32](d, 3)
		require.NoError(t, err)
		defer m.Close()
		x := tensor(t, d, upTo(3))
		runInto(s, "add", m.Tensor(), m.Tensor(), x)
		runInto(s, "neg", m.Tensor(), m.Tensor())
		runInto(s, "add", m.Tensor(), m.Tensor(), m.Tensor())
		require.Equal(t, []float32{0, -2, -4}, read(t, m.Tensor()))
		require.NoError(t, m.Tensor().Write(bg, upTo(3)))
		require.Equal(t, upTo(3), read(t, m.Tensor()))
	})
}

func TestMappedRefuses(t *testing.T) {
	onDevices(t, func(t *testing.T, d *Device) {
		_, err := NewMapped[float32](d, -1)
		require.ErrorIs(t, err, ErrShape)
		_, err = NewMapped[float32](d, 1<<20)
		require.ErrorIs(t, err, ErrOutOfMemory)
		m, err := NewMapped[float32](d, 0)
		require.NoError(t, err)
		require.NoError(t, m.Peek(nil, 0))
		require.NoError(t, m.Close())
	}, WithMemoryBudget(1<<20))
}

// Memory is freed only once nobody copies it, and goroutines may copy it at once.
func TestPeekWhileOthersClose(t *testing.T) {
	for _, name := range []string{"cpu", "auto"} {
		d, err := Open(name)
		require.NoError(t, err)
		m, err := NewMapped[float32](d, 1<<16)
		require.NoError(t, err)
		require.NoError(t, m.Poke([]float32{1, 2, 3}, 1<<16-3))
		var peeks sync.WaitGroup
		var begun sync.WaitGroup
		begun.Add(4)
		for range 4 {
			peeks.Go(func() {
				into := make([]float32, 1<<16)
				assert.NoError(t, m.Peek(into, 0))
				begun.Done()
				for err := error(nil); err == nil; err = m.Peek(into, 0) {
					assert.Equal(t, []float32{0, 1, 2, 3}, into[1<<16-4:])
				}
				assert.ErrorIs(t, m.Peek(into, 0), ErrClosed)
			})
		}
		begun.Wait()
		if name == "cpu" {
			require.NoError(t, m.Close())
		}
		require.NoError(t, d.Close())
		peeks.Wait()
	}
}
