package ops_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/ops"
)

// BenchmarkCall measures the host's cost of one call on the CPU device (checks, the
// result and the queue), with tensors so small that the work itself is negligible.
func BenchmarkCall(b *testing.B) {
	dev, err := kompute.Open("cpu")
	require.NoError(b, err)
	defer dev.Close()
	s, err := dev.NewStream()
	require.NoError(b, err)
	x := tensor(dev, make([]float32, 32), 1, 1, 1, 32)
	y := tensor(dev, make([]float32, 32), 1, 1, 1, 32)
	rows := tensor(dev, make([]float32, 32), 1, 32)
	weight := tensor(dev, make([]float32, 32))
	w := tensor(dev, make([]uint32, 16), 4, 4)
	scales := tensor(dev, make([]float32, 4), 4, 1)
	q := ops.Quantization{GroupSize: 32, Bits: 4}
	for name, call := range map[string]func(){
		"Add":             func() { ops.Add(s, x, x) },
		"AddBroadcast":    func() { ops.Add(s, x, weight) },
		"RMSNorm":         func() { ops.RMSNorm(s, x, weight, 1e-6) },
		"RoPE":            func() { ops.RoPE(s, x, ops.RoPEParams{}, ops.At(3)) },
		"SDPA":            func() { ops.SDPA(s, x, x, x, ops.SDPAParams[float32]{Causal: true}) },
		"SliceUpdate":     func() { ops.SliceUpdate(s, x, y, ops.At(0), ops.At(0), ops.At(0), ops.At(0)) },
		"QuantizedMatMul": func() { ops.QuantizedMatMul(s, rows, w, scales, scales, q, ops.Transposed) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			scope := s.Scope()
			for i := range b.N {
				if call(); i%100 == 99 {
					scope.Close()
					scope = s.Scope()
				}
			}
			scope.Close()
			require.NoError(b, s.Synchronize(context.Background()))
		})
	}
}
