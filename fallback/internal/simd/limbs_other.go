//go:build !amd64

package simd

func (l *Limbs) prepareVector([]float32) (int, bool)     { return 0, true }
func codeDotsVector([]float32, *Codes, *Limbs, int) bool { return false }

func panelProductVector([]float32, int, []float32, int, int, []float32, int, bool) bool {
	return false
}
func transposePanelVector([]float32, []float32, int, int, int) (int, int) { return 0, 0 }
func expandPanelVector(_, _, _, _ []float32, _, _, _ int) bool            { return false }
func unpackVector([]byte, []byte, int, *Table) int                        { return 0 }
