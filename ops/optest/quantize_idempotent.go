package optest

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/ops"
)

// idempotent checks that quantizing the elements of a quantized matrix without biases
// changes none of them. Scales may differ by powers of two for which the codes compensate.
func idempotent(t *testing.T, dev *kompute.Device) {
	for _, q := range []ops.Quantization{ops.MXFP4, ops.NVFP4, ops.MXFP8} {
		t.Run(q.Mode.String(), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				s, err := dev.NewStream()
				require.NoError(t, err)
				defer s.Close()
				defer s.Scope().Close()
				r := drawSource(t)
				values := make([]float32, 4*q.GroupSize*2)
				for i := range values {
					values[i] = float32(r.NormFloat64() * math.Exp2(float64(i/q.GroupSize-3)))
				}
				x, err := kompute.New(dev, values, 4, 2*q.GroupSize)
				require.NoError(t, err)
				defer x.Close()
				again := func(x *kompute.Tensor[float32]) *kompute.Tensor[float32] {
					w, scales, _ := ops.Quantize[uint8](s, x, q)
					return ops.Dequantize[float32](s, w, scales, nil, q)
				}
				once := again(x)
				want, err := once.Read(context.Background())
				require.NoError(t, err)
				got, err := again(once).Read(context.Background())
				require.NoError(t, err)
				require.Equal(t, want, got)
			})
		})
	}
}
