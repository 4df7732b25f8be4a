package simd

type codeDotsFunc func(out *float32, codes *byte, stride int, scales, biases *float32, groups int, x *byte, count, blocks int)

// codeDotsForms has the kernels for some rows at a time and for one, by the order
// and by how many lanes share a scale: 4, 8, 16 and 32.
type codeDotsForms struct {
	rows      int // at a time
	some, one [2][4]codeDotsFunc
}

// codeDotsVector does the work of CodeDots for whole blocks.
func codeDotsVector(out []float32, w *Codes, x *Limbs, rows int) bool {
	forms := codeDotsForm()
	if forms == nil {
		return false
	}
	lanes := w.GroupSize * blockLanes / x.Order.Elements()
	column := 0
	for ; lanes > 4; lanes /= 2 {
		column++
	}
	if forms.one[x.Order][column] == nil {
		return false
	}
	some := rows - rows%forms.rows
	codeDotsRows(forms.some[x.Order][column], out, w, x, 0, some, forms.rows)
	codeDotsRows(forms.one[x.Order][column], out, w, x, some, rows-some, 1)
	return true
}

// codeDotsRows runs a kernel for rows from one on.
func codeDotsRows(kernel codeDotsFunc, out []float32, w *Codes, x *Limbs, first, rows, step int) {
	if rows == 0 {
		return
	}
	out = out[first : first+rows]
	codes := w.Data[first*w.Stride:]
	_ = codes[(rows-1)*w.Stride+w.bytes(x.K)-1]
	scales := w.Scales[first*w.Groups : (first+rows)*w.Groups]
	biases := w.Biases[first*w.Groups : (first+rows)*w.Groups]
	kernel(&out[0], &codes[0], w.Stride, &scales[0], &biases[0], w.Groups, &x.data[0], rows/step, x.Order.Blocks(x.K))
}
