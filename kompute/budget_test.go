package kompute_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/kompute"
)

// everyDevice runs a test on the CPU and, where Vulkan was built in, on Vulkan.
func everyDevice(t *testing.T, test func(t *testing.T, d *kompute.Device), opts ...kompute.Option) {
	specs := []string{"cpu"}
	if list, _ := kompute.Devices(); len(list) > 1 {
		specs = append(specs, "vulkan")
	}
	for _, spec := range specs {
		t.Run(spec, func(t *testing.T) {
			d, err := kompute.Open(spec, opts...)
			require.NoError(t, err)
			t.Cleanup(func() { _ = d.Close() })
			test(t, d)
		})
	}
}

// A budget means the same everywhere, and its message says each size once.
func TestABudgetIsTheSameOnEveryBackend(t *testing.T) {
	everyDevice(t, func(t *testing.T, d *kompute.Device) {
		x, err := kompute.New(d, make([]float32, 300_000))
		require.NoError(t, err)
		_, err = kompute.New(d, make([]float32, 100_001))
		require.ErrorIs(t, err, kompute.ErrOutOfMemory)
		var sizes *kompute.MemoryError
		require.ErrorAs(t, err, &sizes)
		require.Equal(t, kompute.MemoryError{Requested: 400_004, Available: 400_000, Budget: 1_600_000}, *sizes)
		require.EqualError(t, err, "new float32[100001]: out of memory: 400004 bytes requested, 400000 available of a budget of 1600000")
		require.NoError(t, x.Close())
		y, err := kompute.New(d, make([]float32, 400_000))
		require.NoError(t, err)
		require.NoError(t, y.Close())
	}, kompute.WithMemoryBudget(1_600_000))
}

// Tensors that were dropped without Close are collected before a tensor is refused.
func TestABudgetCollectsWhatWasDropped(t *testing.T) {
	everyDevice(t, func(t *testing.T, d *kompute.Device) {
		for range 50 {
			_, err := kompute.New(d, make([]float32, 100_000))
			require.NoError(t, err)
		}
	}, kompute.WithMemoryBudget(1_000_000))
}

func negOp(x, out *kompute.Tensor[float32]) kompute.Op {
	return kompute.Op{
		Name: "unary", Params: make([]byte, 4), Args: []kompute.Arg{kompute.In(x.View()), kompute.Out(out.View())},
		CPU: func(a []array.Array, _ []byte) error {
			in, out := array.Storage[float32](a[0]), array.Storage[float32](a[1])
			for i := range out {
				out[i] = -in[i]
			}
			return nil
		},
	}
}

// A region's result without elements reads as an empty slice, and is an operand.
func TestARegionsResultWithoutElements(t *testing.T) {
	everyDevice(t, func(t *testing.T, d *kompute.Device) {
		s, err := d.NewStream()
		require.NoError(t, err)
		x, err := kompute.New(d, []float32{}, 0, 3)
		require.NoError(t, err)
		var y *kompute.Tensor[float32]
		r, err := s.Capture(func(s *kompute.Stream) {
			y = kompute.Output[float32](s, 0, 3)
			s.Enqueue(negOp(x, y))
			kompute.Result(s, y)
		})
		require.NoError(t, err)
		for range 2 {
			got, err := y.Read(context.Background())
			require.NoError(t, err)
			require.Empty(t, got)
			z := kompute.Output[float32](s, 0, 3)
			s.Enqueue(negOp(y, z))
			require.NoError(t, s.Err())
			got, err = z.Read(context.Background())
			require.NoError(t, err)
			require.Empty(t, got)
			require.NoError(t, r.Replay(context.Background()))
		}
		require.NoError(t, s.Close())
	})
}

// A goroutine that enqueues on a stream while another one captures on it gets an
// error instead of undefined content.
func TestUsingAStreamDuringItsCaptureGivesAnError(t *testing.T) {
	everyDevice(t, func(t *testing.T, d *kompute.Device) {
		s, err := d.NewStream()
		require.NoError(t, err)
		x, err := kompute.New(d, []float32{1, 2, 3})
		require.NoError(t, err)
		before := kompute.Output[float32](s, 3) // made before the capture began
		empty, err := kompute.Empty[float32](d, 3)
		require.NoError(t, err)
		var during *kompute.Tensor[float32]
		r, err := s.Capture(func(s *kompute.Stream) {
			done := make(chan struct{})
			go func() {
				defer close(done)
				during = kompute.Output[float32](s, 3)
				for _, out := range []*kompute.Tensor[float32]{before, during, empty} {
					s.Enqueue(negOp(x, out))
				}
			}()
			<-done
		})
		require.NoError(t, err)
		for _, out := range []*kompute.Tensor[float32]{before, during, empty} {
			got, err := out.Read(context.Background())
			require.Error(t, err, "%v", got)
			require.True(t, errors.Is(err, kompute.ErrInvalid) || errors.Is(err, kompute.ErrClosed), "%v", err)
		}
		require.NoError(t, r.Replay(context.Background()))
		got, err := before.Read(context.Background())
		require.NoError(t, err)
		require.Equal(t, []float32{-1, -2, -3}, got)
		require.NoError(t, s.Close())
	})
}
