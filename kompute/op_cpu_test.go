package kompute

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/array"
)

// scaled is an op that multiplies by its parameter. Its function uses its parameter and its arrays as scratch memory.
func scaled(x, out *Tensor[float32], params []byte) Op {
	return Op{Name: "my_scale", Params: params, Args: []Arg{In(x.View()), Out(out.View())}, CPU: func(a []array.Array, p []byte) error {
		src, dst := array.Storage[float32](a[0]), array.Storage[float32](a[1])
		for i := range dst {
			dst[i] = src[a[0].Offset+i] * float32(p[0])
		}
		p[0], a[0] = 0, a[1]
		return nil
	}}
}

// A function gets its own parameters and arrays in each call: what it does to them changes neither the caller's nor
// those of the next replay.
func TestCallsOfAnOpAreApart(t *testing.T) {
	onDevices(t, func(t *testing.T, d *Device) {
		s := newStream(t, d)
		x, params := tensor(t, d, []float32{1, 2}), []byte{5, 0, 0, 0}
		for range 2 {
			out := closing(t, Output[float32](s, 2))
			s.Enqueue(scaled(x, out, params))
			require.Equal(t, []float32{5, 10}, read(t, out))
		}
		if !d.onCPU() { // which alone can capture ops without a native kernel
			return
		}
		var out *Tensor[float32]
		r := captureTest(t, s, func(s *Stream) {
			out = closing(t, Result(s, Output[float32](s, 2)))
			s.Enqueue(scaled(x, out, params))
		})
		for range 3 {
			require.NoError(t, r.Replay(bg))
			require.Equal(t, []float32{5, 10}, read(t, out))
			require.NoError(t, out.Write(bg, []float32{0, 0}))
		}
	})
}

// An operand that is written, and repeats elements, can be of any size; on the way back to a GPU it would need memory
// for all of them.
func TestFallbackRefusesRepeatedElements(t *testing.T) {
	d := vulkanOrSkip(t)
	s := newStream(t, d)
	x := tensor(t, d, []float32{1})
	wide := closing(t, x.Broadcast(1<<30, 1<<30))
	s.Enqueue(Op{Name: "my_op", Args: []Arg{InOut(wide.View())}, CPU: func([]array.Array, []byte) error { return nil }})
	require.ErrorIs(t, s.Synchronize(bg), ErrInvalid)
}

// viewless is no tensor of this package.
type viewless struct{}

func (viewless) View() *View { return nil }
func (viewless) Err() error  { return nil }

func TestTensorsWithoutViews(t *testing.T) {
	onDevices(t, func(t *testing.T, d *Device) {
		s := newStream(t, d)
		s.Upload(viewless{})
		require.ErrorIs(t, s.Err(), ErrInvalid)
		require.ErrorIs(t, (&Manager{d}).Sequence().Record(SyncLocal(viewless{})).Eval(bg), ErrInvalid)
	})
}
