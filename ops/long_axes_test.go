package ops_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/ops"
)

// A tensor without elements may have axes of any length. Sums and products of these that overflow are errors.
func TestLongAxesOfEmptyTensors(t *testing.T) {
	dev, err := kompute.Open("cpu")
	require.NoError(t, err)
	defer func() { _ = dev.Close() }() // returns the streams' errors
	const half, most = math.MaxInt/2 + 1, math.MaxInt
	x, err := kompute.Zeros[float32](dev, 0, half)
	require.NoError(t, err)
	longest, err := kompute.Zeros[float32](dev, 0, most)
	require.NoError(t, err)
	w, err := kompute.Zeros[uint32](dev, 0, half)
	require.NoError(t, err)
	scales, err := kompute.Zeros[float32](dev, 0, 0)
	require.NoError(t, err)
	for name, op := range map[string]func(s *kompute.Stream) *kompute.Tensor[float32]{
		"concat of two":  func(s *kompute.Stream) *kompute.Tensor[float32] { return ops.Concat(s, 1, x, x) },
		"concat of four": func(s *kompute.Stream) *kompute.Tensor[float32] { return ops.Concat(s, 1, x, x, x, x) },
		"pad": func(s *kompute.Stream) *kompute.Tensor[float32] {
			return ops.Pad(s, longest, 0, [2]int{}, [2]int{1, 0})
		},
		"repeat": func(s *kompute.Stream) *kompute.Tensor[float32] { return ops.Repeat(s, x, 2, 1) },
		"dequantize": func(s *kompute.Stream) *kompute.Tensor[float32] {
			return ops.Dequantize[float32](s, w, scales, scales, ops.Quantization{GroupSize: 32, Bits: 4})
		},
	} {
		s, err := dev.NewStream()
		require.NoError(t, err)
		require.ErrorIs(t, op(s).Err(), kompute.ErrTooLarge, name)
	}
	s, err := dev.NewStream()
	require.NoError(t, err)
	require.Equal(t, []int{0, half}, ops.Concat(s, 1, x).Shape())
	require.Equal(t, []int{0, half}, ops.Repeat(s, x, 1, 1).Shape())
	require.Equal(t, []int{0, half}, ops.Tile(s, x, 2, 1).Shape())
	require.NoError(t, s.Err())
}
