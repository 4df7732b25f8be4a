//go:build !amd64

package simd

// There are no vector forms of these.
func decodeHeadsVector([]float32, []byte, int, int, int, int) bool        { return false }
func dequantizeVector([]float32, int, *Weights, int) bool                 { return false }
func transposePanelVector([]float32, []float32, int, int, int) (int, int) { return 0, 0 }
func factorPanelVector([]float32, []uint16, int, int, FactorType) bool    { return false }
func expandPanelVector(_, _, _, _ []float32, _, _, _ int) bool            { return false }

// There are no tiles, as HasTiles reports.
func (t *Tiles) split(int, int, []float32) uint32                            { return 0 }
func (c TileCodes) expand([]byte, []float32, int, int)                       {}
func (t *Tiles) product([]float32, int, int, *TilePanels, []float32, []byte) {}
func (l *GroupLimbs) split([]float32) uint32                                 { return 0 }
func groupDotsVector([]float32, int, *Codes, []GroupLimbs, int)              {}

// Prefetch does nothing on this processor.
func Prefetch([]byte) {}

// PrefetchNear does nothing on this processor.
func PrefetchNear([]byte) {}

// PrefetchToWrite does nothing on this processor.
func PrefetchToWrite([]byte) {}

// Sums of halves have no forms of their own.
func addBF16Vector([]float32, []uint16) int { return 0 }
func addF16Vector([]float32, []uint16) int  { return 0 }

// Scales have no vector form here.
func halfScalesVector([]float32, []float32, []uint8, ScaleForm) (int, uint8) { return 0, 0 }
func decodeE4M3Vector([]float32, []uint8, []uint8) bool                      { return false }

// Heads of other types than float32 are not multiplied without a copy.
const takesHeads = false

func headDots(*float32, int, *float32, int, *byte, int, int, HeadForm)   {}
func headMulAdd(*float32, int, *float32, int, *byte, int, int, HeadForm) {}
