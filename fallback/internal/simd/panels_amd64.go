package simd

import "unsafe"

// The forms for some rows at a time, most first.
var (
	panelsAVX512 = []panelKernel{{12, panelProduct12AVX512}, {8, panelProduct8AVX512}, {4, panelProduct4AVX512}, {2, panelProduct2AVX512}, {1, panelProduct1AVX512}}
	panelsAVX2   = []panelKernel{{6, panelProduct6AVX2}, {4, panelProduct4AVX2}, {2, panelProduct2AVX2}, {1, panelProduct1AVX2}}
)

// panelKernels returns the forms of the level in use.
func panelKernels() []panelKernel {
	switch {
	case active == Generic:
		return nil
	case active >= AVX512:
		return panelsAVX512
	}
	return panelsAVX2
}

// transposePanelVector transposes the first rows and, of these, the first columns.
func transposePanelVector(panel, src []float32, ld, n, k int) (rows, columns int) {
	switch {
	case active == Generic:
		return 0, 0
	case active < AVX512:
		rows, columns = n-n%8, k-k%8
		for j := 0; j < rows && columns > 0; j += 8 {
			transposePanelAVX2(&panel[j], &src[j*ld], ld, columns)
		}
		return rows, columns
	}
	rows = n - n%16
	for j := 0; j < rows; j += 16 {
		transposePanelAVX512(&panel[j], &src[j*ld], ld, k)
	}
	return rows, k
}

func expandPanelVector(panel, codes, scales, biases []float32, bits, groups, words int) bool {
	if active == Generic {
		return false
	}
	var f func(dst, codes, scales, biases *float32, groups, words int)
	wide := active >= AVX512
	switch {
	case bits == 2 && wide:
		f = expandPanel2AVX512
	case bits == 4 && wide:
		f = expandPanel4AVX512
	case bits == 8 && wide:
		f = expandPanel8AVX512
	case bits == 2:
		f = expandPanel2AVX2
	case bits == 4:
		f = expandPanel4AVX2
	case bits == 8:
		f = expandPanel8AVX2
	default:
		return false
	}
	f(&panel[0], &codes[0], &scales[0], &biases[0], groups, words)
	return true
}

func factorPanelVector(panel []float32, from []uint16, pitch, pairs int, t FactorType) bool {
	if active < AVX512 || active > AMX || t == Float32Factors {
		return false
	}
	factorPanelAVX512(&panel[0], (*byte)(unsafe.Pointer(&from[0])), 2*pitch, pairs, int(t))
	return true
}
