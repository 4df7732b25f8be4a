package simd

// A panel is some neighbouring columns of a matrix B [k, n]: k rows of PanelWidth
// numbers, one after the other.

// MaxPanelWidth is the largest PanelWidth.
const MaxPanelWidth = 32

// PanelWidth returns the number of columns of a panel.
func PanelWidth() int {
	if active >= AVX512 && active <= AMX {
		return 32
	}
	return 16
}

// PanelProduct sets, or with add increases, PanelWidth columns of C = A·B, for a
// panel of B: c[i·ldc+j] becomes Σ a[i·lda+l]·panel[l·PanelWidth+j] over l < k, for
// i < m. The terms are added one after the other, by fused multiply-add where the
// processor has it.
func PanelProduct(c []float32, ldc int, a []float32, lda, m int, panel []float32, k int, add bool) {
	if m <= 0 {
		return
	}
	width := PanelWidth()
	if k > 0 && panelProductVector(c, ldc, a, lda, m, panel, k, add) {
		return
	}
	for i := range m {
		row := c[i*ldc : i*ldc+width]
		if !add {
			clear(row)
		}
		for l := range k {
			axpyGo(row, a[i*lda+l], panel[l*width:(l+1)*width])
		}
	}
}

// panelKernel is a form of PanelProduct for some rows.
type panelKernel struct {
	rows int
	run  func(c *float32, ldc int, a *float32, lda int, b *float32, k, add int)
}

func panelProductVector(c []float32, ldc int, a []float32, lda, m int, panel []float32, k int, add bool) bool {
	kernels := panelKernels()
	if kernels == nil {
		return false
	}
	width, more := PanelWidth(), toInt(add)
	_, _, _ = c[(m-1)*ldc+width-1], a[(m-1)*lda+k-1], panel[k*width-1]
	i := 0
	for _, kernel := range kernels {
		for ; i+kernel.rows <= m; i += kernel.rows {
			kernel.run(&c[i*ldc], ldc, &a[i*lda], lda, &panel[0], k, more)
		}
	}
	return true
}

// TransposePanel sets a panel of k rows to Bᵀ's columns: its column j is row j of
// src, rows ld apart, for j < n <= PanelWidth. The other columns are 0.
func TransposePanel(panel, src []float32, ld, n, k int) {
	width := PanelWidth()
	done, from := 0, 0
	if n > 0 && k > 0 {
		_ = src[(n-1)*ld+k-1]
		done, from = transposePanelVector(panel, src, ld, n, k)
	}
	// The rest after the vector form: rows from done on, and the last columns of those
	// before.
	transposePanelGo(panel[:k*width], src, ld, 0, done, from, k)
	transposePanelGo(panel[:k*width], src, ld, done, n, 0, k)
	if n < width {
		for l := range k {
			clear(panel[l*width+n : (l+1)*width])
		}
	}
}

// FactorPanel sets a panel of k rows to the first k scales or biases, of 16 bits, of rows that lie pitch numbers apart,
// as TransposePanel would. It returns false, and sets nothing, if there is no form for it: for an odd k, or not
// PanelWidth rows.
func FactorPanel(panel []float32, from []uint16, pitch, rows, k int, t FactorType) bool {
	width := PanelWidth()
	if rows != width || k%2 != 0 || k == 0 {
		return false
	}
	_, _ = panel[k*width-1], from[(rows-1)*pitch+k-1]
	return factorPanelVector(panel, from, pitch, k/2, t)
}

// transposePanelGo transposes columns [from, to) of rows [first, end) of src. A panel
// of scales has a few columns, so the loop over the rows is inside.
func transposePanelGo(panel, src []float32, ld, first, end, from, to int) {
	width := PanelWidth()
	if first >= end {
		return
	}
	for l := from; l < to; l++ {
		column := src[first*ld+l : (end-1)*ld+l+1]
		out := panel[l*width+first : l*width+end]
		for j := range out {
			out[j] = column[j*ld]
		}
	}
}

// CopyPanel sets a panel of k rows to the first n <= PanelWidth numbers of rows of
// src, ld apart. The other columns are 0.
func CopyPanel(panel, src []float32, ld, n, k int) {
	width := PanelWidth()
	for l := range k {
		to := panel[l*width : (l+1)*width]
		clear(to[copy(to, src[l*ld:l*ld+n]):])
	}
}

// ExpandPanel sets a panel to numbers scale·code + bias. Codes, of 2, 4 or 8 bits
// packed in words from the lowest bits on, lie in a panel of words; scales and
// biases in panels that have a row for each group, which is `words` words. It does
// nothing, and returns false, if there is no vector form.
func ExpandPanel(panel, codes, scales, biases []float32, bits, groups, words int) bool {
	width := PanelWidth()
	if groups == 0 || words == 0 {
		return true
	}
	_, _, _, _ = panel[groups*words*32/bits*width-1], codes[groups*words*width-1], scales[groups*width-1], biases[groups*width-1]
	return expandPanelVector(panel, codes, scales, biases, bits, groups, words)
}
