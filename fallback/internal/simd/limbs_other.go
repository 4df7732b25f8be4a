//go:build !amd64

package simd

func (l *Limbs) prepareVector([]float32) (int, bool)     { return 0, true }
func codeDotsVector([]float32, *Codes, *Limbs, int) bool { return false }
