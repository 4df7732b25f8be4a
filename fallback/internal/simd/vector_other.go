//go:build !amd64

package simd

import "math"

func fromBF16Vector([]float32, []uint16) int { return 0 }
func toBF16Vector([]uint16, []float32) int   { return 0 }
func fromF16Vector([]float32, []uint16) int  { return 0 }
func toF16Vector([]uint16, []float32) int    { return 0 }

func dotsVector([]float32, int, []float32, int, int, []float32, int, int, int, bool) bool {
	return false
}

func mulAddVector([]float32, int, []float32, int, int, []float32, int, int, int, bool) bool {
	return false
}

func dequantizeVector([]float32, int, *Weights, int) bool       { return false }
func expSumVector([]float32, []float32, float32) (int, float32) { return 0, 0 }
func siluMulVector([]float32, []float32, []float32) int         { return 0 }
func maxVector([]float32) (int, float32)                        { return 0, float32(math.Inf(-1)) }
func scaleVector([]float32, float32) int                        { return 0 }

func (l *Limbs) prepareVector([]float32) (int, bool)                      { return 0, true }
func transposePanelVector([]float32, []float32, int, int, int) (int, int) { return 0, 0 }
func expandPanelVector(_, _, _, _ []float32, _, _, _ int) bool            { return false }
func unpackVector([]byte, []byte, int, *Table) int                        { return 0 }

// There are no tiles, as HasTiles reports.
func (t *Tiles) split(int, int, []float32) uint32               { return 0 }
func expandTiles([]byte, []float32, int, int, int)              {}
func (t *Tiles) product([]float32, int, *TilePanels, []float32) {}

// Prefetch does nothing here.
func Prefetch([]byte) {}

// There are no vector forms.
func eights(int) int { return 0 }

var (
	binaryRows  []func(z, x, y *float32, n, step int)
	compareRows []func(z *byte, x, y *float32, n int)
	unaryRows   []func(z, x *float32, n int)
)

func largestVector(*float32, int) float32 { return 0 }

func sumLanesVector(sums, x *float32, n int) {}
