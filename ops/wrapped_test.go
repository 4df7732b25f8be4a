package ops_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/ops"
)

// Wrapped memory is read-only: an op that would change it returns a tensor with the error, not the
// memory as it was.
func TestWrappedMemoryIsNotUpdated(t *testing.T) {
	for _, spec := range specs(t) {
		t.Run(spec, func(t *testing.T) {
			dev, err := kompute.Open(spec)
			require.NoError(t, err)
			defer func() { _ = dev.Close() }() // returns the streams' errors
			v, err := kompute.Wrap(dev, kompute.DTypeFloat32, array.Bytes([]float32{1, 2, 3, 4}), nil, 1, 1, 2, 2)
			require.NoError(t, err)
			x, err := kompute.As[float32](v)
			require.NoError(t, err)
			for name, update := range map[string]func(s *kompute.Stream) *kompute.Tensor[float32]{
				"slice_update": func(s *kompute.Stream) *kompute.Tensor[float32] {
					return ops.SliceUpdate(s, x.Slice(3, 0, 1), ops.Fill(s, float32(9), 1, 1, 2, 1))
				},
				"paged_update": func(s *kompute.Stream) *kompute.Tensor[float32] {
					return ops.PagedUpdate(s, x, ops.Fill(s, float32(9), 1, 1, 2), ops.Fill(s, int32(0), 1))
				},
				"penalize": func(s *kompute.Stream) *kompute.Tensor[float32] {
					return ops.Penalize(s, x.Reshape(2, 2), ops.Fill(s, uint32(1), 2, 2), ops.Fill(s, float32(9), 2, 4), ops.Fill(s, int32(0), 2))
				},
				"mask": func(s *kompute.Stream) *kompute.Tensor[float32] {
					return ops.Mask(s, x.Reshape(2, 2), ops.Fill(s, uint32(0), 2, 1))
				},
			} {
				s, err := dev.NewStream()
				require.NoError(t, err)
				_, err = update(s).Read(context.Background())
				require.ErrorIs(t, err, kompute.ErrInvalid)
				require.ErrorContains(t, err, name)
				require.ErrorContains(t, err, "is wrapped memory, which is read-only")
				require.Equal(t, err, s.Err())
				got, err := x.Read(context.Background())
				require.NoError(t, err)
				require.Equal(t, []float32{1, 2, 3, 4}, got)
			}
		})
	}
}
