package simd

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func randomNumbers(rng *rand.Rand, n int) []float32 {
	out := make([]float32, n)
	for i := range out {
		out[i] = rng.Float32() - 0.5
	}
	return out
}

// TestPanels compares products of panels, made by either way, with float64.
func TestPanels(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 9))
	forLevels(t, func(t *testing.T) {
		width := PanelWidth()
		for range 200 {
			m, n, k := rng.IntN(30), 1+rng.IntN(width), rng.IntN(70)
			lda, ldb, ldt, ldc := k+rng.IntN(3), n+rng.IntN(3), k+rng.IntN(3), width+rng.IntN(3)
			a, b, bt, c := randomNumbers(rng, m*lda), randomNumbers(rng, k*ldb), randomNumbers(rng, n*ldt), randomNumbers(rng, m*ldc)
			for j := range n {
				for l := range k {
					bt[j*ldt+l] = b[l*ldb+j]
				}
			}
			add := rng.IntN(2) == 1
			panel, space := randomNumbers(rng, k*width), randomNumbers(rng, k*width+4*width)
			transposed, behind := space[:k*width], append([]float32{}, space[k*width:]...)
			CopyPanel(panel, b, ldb, n, k)
			TransposePanel(transposed, bt, ldt, n, k)
			require.Equal(t, panel, transposed)
			require.Equal(t, behind, space[k*width:])
			want := append([]float32{}, c...)
			for i := range m {
				for j := range width {
					sum := 0.0
					if add {
						sum = float64(c[i*ldc+j])
					}
					for l := range k {
						sum += float64(a[i*lda+l]) * float64(panel[l*width+j])
					}
					want[i*ldc+j] = float32(sum)
				}
			}
			PanelProduct(c, ldc, a, lda, m, panel, k, add)
			require.InDeltaSlice(t, want, c, 1e-5)
		}
	})
}

func BenchmarkPanelProduct(b *testing.B) {
	rng := rand.New(rand.NewPCG(10, 10))
	for _, level := range Levels()[1:] {
		for _, lda := range []int{1024, 1040} {
			b.Run(fmt.Sprintf("%v/lda=%d", level, lda), func(b *testing.B) {
				defer Use(Use(level))
				const m, k = 24, 512
				a, panel, c := randomNumbers(rng, m*lda), randomNumbers(rng, 32*k), make([]float32, m*32)
				fastest(b, m*PanelWidth()*k, func() { PanelProduct(c, 32, a, lda, m, panel, k, true) })
			})
		}
		b.Run(fmt.Sprintf("%v/transpose", level), func(b *testing.B) {
			defer Use(Use(level))
			src, panel := randomNumbers(rng, 32*272), make([]float32, 32*256)
			fastest(b, PanelWidth()*256, func() { TransposePanel(panel, src, 272, PanelWidth(), 256) })
		})
	}
}

// TestFactorPanel compares panels of scales of 16 bits with those of the same numbers as floats.
func TestFactorPanel(t *testing.T) {
	const rows, most = 32, 6
	for _, level := range Levels() {
		defer Use(Use(level))
		for _, form := range []FactorType{BFloat16Factors, Float16Factors} {
			for k := 1; k <= most; k++ {
				pitch := k + 1
				numbers := make([]uint16, (rows-1)*pitch+k)
				for i := range numbers {
					numbers[i] = uint16(i * 0x9e37)
				}
				numbers = atTheEnd(0, numbers)
				floats := make([]float32, len(numbers))
				if form == BFloat16Factors {
					FromBF16(floats, numbers)
				} else {
					FromF16(floats, numbers)
				}
				got, want := make([]float32, k*PanelWidth()), make([]float32, k*PanelWidth())
				TransposePanel(want, floats, pitch, min(rows, PanelWidth()), k)
				made := FactorPanel(got, numbers, pitch, rows, k, form)
				require.Equal(t, k%2 == 0 && PanelWidth() == rows, made, "%v", level)
				for i := 0; made && i < len(want); i++ {
					require.Equal(t, math.Float32bits(want[i]), math.Float32bits(got[i]), "%v: type %d, number %d of %d groups", level, form, i, k)
				}
			}
		}
	}
}
