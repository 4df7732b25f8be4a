package simd

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// SiLUMul is SiLU and a product, which fused ops must not tell apart, and exact also where
// e^-x overflows but results are normal numbers.
func TestSiLUMul(t *testing.T) {
	rng := rand.New(rand.NewPCG(15, 15))
	gate := append([]float32{}, special...)
	for range 4000 {
		gate = append(gate, float32(rng.NormFloat64()*60))
	}
	up := make([]float32, len(gate))
	for i := range up {
		up[i] = float32(rng.NormFloat64() * 1e3)
	}
	forLevels(t, func(t *testing.T) {
		silu, got := make([]float32, len(gate)), make([]float32, len(gate))
		rows := UnaryRow(SiLU, silu, gate)
		SiLUMul(got, gate, up)
		for i, v := range got {
			if i < rows {
				require.True(t, sameFloat(silu[i]*up[i], v), "%v %v: %v", gate[i], up[i], v)
			}
			x := float64(gate[i])
			want := x / (1 + math.Exp(-x)) * float64(up[i])
			if w := float32(want); w != w || math.IsInf(float64(w), 0) {
				require.True(t, sameFloat(w, v), "%v %v: %v", gate[i], up[i], v)
				continue
			}
			require.InDelta(t, want, v, 6e-7*math.Abs(want)+1e-44*max(1, math.Abs(float64(up[i]))), "%v %v", gate[i], up[i])
		}
	})
}
