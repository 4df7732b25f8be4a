//go:build !amd64 && !arm64

package simd

import "math"

func vectorLevels() []Level        { return nil }
func codeDotsForm() *codeDotsForms { return nil }
func panelKernels() []panelKernel  { return nil }

func fromBF16Vector([]float32, []uint16) int { return 0 }
func toBF16Vector([]uint16, []float32) int   { return 0 }
func fromF16Vector([]float32, []uint16) int  { return 0 }
func toF16Vector([]uint16, []float32) int    { return 0 }

func dotsVector([]float32, int, []float32, int, int, []float32, int, int, int, bool) bool {
	return false
}

func narrowDotsVector([]float32, int, []float32, int, int, []uint16, int, int, int, bool, narrow) int {
	return 0
}

func mulAddVector([]float32, int, []float32, int, int, []float32, int, int, int, bool) bool {
	return false
}

func expSumVector([]float32, []float32, float32) (int, float32) { return 0, 0 }
func siluMulVector([]float32, []float32, []float32) int         { return 0 }
func maxVector([]float32) (int, float32)                        { return 0, float32(math.Inf(-1)) }
func scaleVector([]float32, float32) int                        { return 0 }

// There are no vector forms.
func eights(int) int { return 0 }

var (
	binaryRows  []func(z, x, y *float32, n, step int)
	compareRows []func(z *byte, x, y *float32, n int)
	unaryRows   []func(z, x *float32, n int)
)

func largestVector(*float32, int) float32 { return 0 }

func sumLanesVector(sums, x *float32, n int) {}

func rotateRows(dst, x, cos, sin *float32, half int) {}

func (l *Limbs) prepareVector([]float32) (int, bool) { return 0, true }

func unpackVector([]byte, []byte, int, *Table) int { return 0 }
