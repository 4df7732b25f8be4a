package simd

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// special are numbers at the borders of what functions take.
var special = []float32{
	0, float32(math.Copysign(0, -1)), 1, -1, float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()), math.SmallestNonzeroFloat32,
	-math.SmallestNonzeroFloat32, 0x1p-126, math.MaxFloat32, -math.MaxFloat32, 0.70710677, 1.4142135, 88.7, -88.7, -90.4, -95, 104, -104, -175, -176, -177, 2.5, -3.5, 16777215,
}

func TestElementwise(t *testing.T) {
	rng := rand.New(rand.NewPCG(14, 14))
	x := append([]float32{}, special...)
	for range 4000 {
		x = append(x, float32(rng.NormFloat64()*math.Exp2(float64(rng.IntN(60)-30))))
	}
	y := make([]float32, len(x))
	for i := range y {
		y[i] = x[rng.IntN(len(x))]
	}
	forLevels(t, func(t *testing.T) {
		z := make([]float32, len(x))
		for f, want := range map[Binary]func(a, b float32) float32{
			Add: func(a, b float32) float32 { return a + b }, Sub: func(a, b float32) float32 { return a - b },
			Mul: func(a, b float32) float32 { return a * b }, Div: func(a, b float32) float32 { return a / b },
			Max2: func(a, b float32) float32 {
				if a > b || a != a {
					return a
				}
				return b
			},
			Min2: func(a, b float32) float32 {
				if a < b || a != a {
					return a
				}
				return b
			},
		} {
			for i := range BinaryRow(f, z, x, y) {
				require.True(t, sameFloat(want(x[i], y[i]), z[i]), "%d: %v %v: %v", f, x[i], y[i], z[i])
			}
			for i := range BinaryRow(f, z, x, y[7:8]) {
				require.True(t, sameFloat(want(x[i], y[7]), z[i]), "%d: %v %v: %v", f, x[i], y[7], z[i])
			}
		}
		bools := make([]byte, len(x))
		for f, want := range map[Compare]func(a, b float32) bool{
			Equal: func(a, b float32) bool { return a == b }, NotEqual: func(a, b float32) bool { return a != b },
			Less: func(a, b float32) bool { return a < b }, LessEqual: func(a, b float32) bool { return a <= b },
		} {
			for i := range CompareRow(f, bools, x, y) {
				require.Equal(t, want(x[i], y[i]), bools[i] == 1, "%d: %v %v", f, x[i], y[i])
			}
		}
	})
}

// Each product is rounded before the sum, whatever the level and the length; a row may be turned in place.
func TestRotateHalves(t *testing.T) {
	rng := rand.New(rand.NewPCG(16, 16))
	for _, half := range []int{0, 1, 7, 8, 24, 64} {
		x, cos, sin := randomNumbers(rng, 2*half), make([]float32, half), make([]float32, half)
		for i := range half {
			angle := rng.Float64() * 7
			cos[i], sin[i] = float32(math.Cos(angle)), float32(math.Sin(angle))
		}
		want := make([]float32, 2*half)
		for i := range half {
			want[i] = float32(x[i]*cos[i]) - float32(x[half+i]*sin[i])
			want[half+i] = float32(x[i]*sin[i]) + float32(x[half+i]*cos[i])
		}
		forLevels(t, func(t *testing.T) {
			dst, inPlace := make([]float32, 2*half), slices.Clone(x)
			RotateHalves(dst, x, cos, sin)
			require.Equal(t, want, dst)
			RotateHalves(inPlace, inPlace, cos, sin)
			require.Equal(t, want, inPlace)
		})
	}
}

func TestUnaryRow(t *testing.T) {
	rng := rand.New(rand.NewPCG(15, 15))
	x := append([]float32{}, special...)
	for range 20000 {
		x = append(x, float32(rng.NormFloat64()*math.Exp2(float64(rng.IntN(40)-20))))
	}
	sigmoid := func(v float64) float64 { return 1 / (1 + math.Exp(-v)) }
	forLevels(t, func(t *testing.T) {
		z := make([]float32, len(x))
		for _, f := range []struct {
			f        Unary
			want     func(float64) float64
			relative float64
			absolute float64
		}{
			{Neg, func(v float64) float64 { return -v }, 0, 0}, {Abs, math.Abs, 0, 0},
			{Square, func(v float64) float64 { return float64(float32(v * v)) }, 0, 0},
			{Sqrt, func(v float64) float64 { return float64(float32(math.Sqrt(v))) }, 0, 0},
			{Rsqrt, func(v float64) float64 { return 1 / math.Sqrt(v) }, 2e-7, 0}, {Log, math.Log, 2e-7, 1e-7},
			{Exp, math.Exp, 3e-7, 2e-45}, {Sigmoid, sigmoid, 4e-7, 1e-38}, {SiLU, func(v float64) float64 { return v * sigmoid(v) }, 4e-7, 1e-44},
			{Sin, math.Sin, 7e-8, 1e-45}, {Cos, math.Cos, 7e-8, 1e-45}, {Tanh, math.Tanh, 7e-8, 1e-45}, {Erf, math.Erf, 7e-8, 1e-45},
			{Floor, math.Floor, 0, 0}, {Ceil, math.Ceil, 0, 0}, {Round, math.RoundToEven, 0, 0},
		} {
			for i := range UnaryRow(f.f, z, x) {
				want := f.want(float64(x[i]))
				if f.f == SiLU && math.IsInf(float64(x[i]), -1) {
					want = math.NaN() // as x / (1 + e^-x) gives
				}
				if w := float32(want); w != w || math.IsInf(float64(w), 0) || f.relative == 0 {
					require.True(t, sameFloat(w, z[i]) || w == z[i], "function %d of %v: %v", f.f, x[i], z[i])
					continue
				}
				require.InDelta(t, want, z[i], f.relative*math.Abs(want)+f.absolute, "function %d of %v", f.f, x[i])
				if want == 0 {
					require.Equal(t, math.Signbit(want), math.Signbit(float64(z[i])), "function %d of %v", f.f, x[i])
				}
			}
		}
	})
}
