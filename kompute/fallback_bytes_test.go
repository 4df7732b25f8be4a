package kompute_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/kompute"
)

// A fallback moves the bytes of its operands' views, not their whole storages.
func TestAFallbackMovesOnlyTheBytesOfItsViews(t *testing.T) {
	const rows, columns = 1000, 64
	everyDevice(t, func(t *testing.T, d *kompute.Device) {
		s, err := d.NewStream()
		require.NoError(t, err)
		data := make([]float32, rows*columns)
		for i := range data {
			data[i] = float32(i)
		}
		in, err := kompute.New(d, data, rows, columns)
		require.NoError(t, err)
		x := kompute.Output[float32](s, rows, columns)
		y := kompute.Output[float32](s, rows, columns)
		s.Enqueue(negOp(in, x)) // only the device has x and y
		s.Enqueue(negOp(x, y))
		require.NoError(t, s.Synchronize(context.Background()))

		from, to := x.Slice(0, 10, 11), y.Slice(0, 20, 21)
		for range 2 { // y's row is -x's row in the end
			s.Enqueue(kompute.Op{
				Name: "test_neg_row", Args: []kompute.Arg{kompute.In(from.View()), kompute.InOut(to.View())},
				CPU: func(a []array.Array, _ []byte) error {
					in, out := array.Storage[float32](a[0]), array.Storage[float32](a[1])
					for i := range columns {
						out[a[1].Layout.Offset+i] = -in[a[0].Layout.Offset+i]
					}
					return nil
				},
			})
		}
		z := kompute.Output[float32](s, rows, columns)
		s.Enqueue(negOp(y, z))
		got, err := z.Read(context.Background())
		require.NoError(t, err)
		want := make([]float32, len(data))
		for i := range want {
			want[i] = -data[i]
		}
		copy(want[20*columns:21*columns], want[10*columns:11*columns])
		require.Equal(t, want, got)
		kept, err := x.Slice(0, 10, 12).Read(context.Background())
		require.NoError(t, err)
		require.Equal(t, negated(data[10*columns:12*columns]), kept)

		if d.Backend() == "vulkan" {
			require.Len(t, s.Stats().FallbackMoves, 1)
			moves := s.Stats().FallbackMoves[negOp(y, z).Name]
			require.LessOrEqual(t, moves.DownloadBytes, uint64(2*2*2*columns*4), "%+v", moves)
			require.LessOrEqual(t, moves.UploadBytes, uint64(2*2*columns*4), "%+v", moves)
		}
		require.NoError(t, s.Close())
	})
}

func negated(x []float32) []float32 {
	out := make([]float32, len(x))
	for i := range x {
		out[i] = -x[i]
	}
	return out
}
