package ops_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/ops"
)

// If one of several results does not fit, none is made, and each has the error.
func TestQuantizeWithoutMemoryForAllResults(t *testing.T) {
	const x, w, scale = 256, 32, 4 // bytes
	for _, device := range specs(t) {
		for _, budget := range []int64{x + w - 1, x + w + scale - 1, x + w + 2*scale - 1} {
			dev, err := kompute.Open(device, kompute.WithMemoryBudget(budget))
			require.NoError(t, err)
			in, err := kompute.New(dev, make([]float32, 64), 1, 64)
			require.NoError(t, err)
			s, err := dev.NewStream()
			require.NoError(t, err)
			words, scales, biases := ops.Quantize[float32](s, in, ops.Quantization{GroupSize: 64, Bits: 4})
			for _, result := range []kompute.AnyTensor{words, scales, biases} {
				require.ErrorIs(t, result.Err(), kompute.ErrOutOfMemory, "budget %d", budget)
			}
			require.ErrorIs(t, s.Err(), kompute.ErrOutOfMemory)
			require.Equal(t, 1, dev.Stats().LiveTensors, "budget %d", budget)
			require.NoError(t, in.Close())
			require.ErrorIs(t, dev.Close(), kompute.ErrOutOfMemory)
		}
	}
}
