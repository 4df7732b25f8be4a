package simd

// prepareVector makes the limbs of whole blocks. It returns how many elements
// these have, and whether they are all finite.
func (l *Limbs) prepareVector(x []float32) (done int, finite bool) {
	blocks := len(x) / l.Order.Elements()
	if active == Generic || blocks == 0 {
		return 0, true
	}
	prepare := prepareLimbsNaturalAVX2
	if l.Order == Halves {
		prepare = prepareLimbsHalvesAVX2
	}
	largest := prepare(&l.data[0], &x[0], blocks)
	return blocks * l.Order.Elements(), largest < 0x7f800000
}

type codeDotsFunc func(out *float32, codes *byte, stride int, scales, biases *float32, groups int, x *byte, count, blocks int)

// codeDotsForms has the kernels for some rows at a time and for one, by the order
// and by how many lanes share a scale: 4, 8, 16 and 32.
type codeDotsForms struct {
	rows      int // at a time
	some, one [2][4]codeDotsFunc
}

var (
	codeDotsVNNI512Forms = codeDotsForms{
		rows: 4,
		some: [2][4]codeDotsFunc{
			Natural: {codeDotsNatural4x4VNNI512, codeDotsNatural8x4VNNI512, codeDotsNatural16x4VNNI512, codeDotsNatural32x4VNNI512},
			Halves:  {codeDotsHalves4x4VNNI512, codeDotsHalves8x4VNNI512, codeDotsHalves16x4VNNI512},
		},
		one: [2][4]codeDotsFunc{
			Natural: {codeDotsNatural4x1VNNI512, codeDotsNatural8x1VNNI512, codeDotsNatural16x1VNNI512, codeDotsNatural32x1VNNI512},
			Halves:  {codeDotsHalves4x1VNNI512, codeDotsHalves8x1VNNI512, codeDotsHalves16x1VNNI512},
		},
	}

	codeDotsAVXVNNIForms = codeDotsForms{
		rows: 2,
		some: [2][4]codeDotsFunc{
			Natural: {codeDotsNatural4x2AVXVNNI, codeDotsNatural8x2AVXVNNI, codeDotsNatural16x2AVXVNNI, codeDotsNatural32x2AVXVNNI},
			Halves:  {codeDotsHalves4x2AVXVNNI, codeDotsHalves8x2AVXVNNI, codeDotsHalves16x2AVXVNNI},
		},
		one: [2][4]codeDotsFunc{
			Natural: {codeDotsNatural4x1AVXVNNI, codeDotsNatural8x1AVXVNNI, codeDotsNatural16x1AVXVNNI, codeDotsNatural32x1AVXVNNI},
			Halves:  {codeDotsHalves4x1AVXVNNI, codeDotsHalves8x1AVXVNNI, codeDotsHalves16x1AVXVNNI},
		},
	}

	codeDotsAVX2Forms = codeDotsForms{
		rows: 2,
		some: [2][4]codeDotsFunc{
			Natural: {codeDotsNatural4x2AVX2, codeDotsNatural8x2AVX2, codeDotsNatural16x2AVX2, codeDotsNatural32x2AVX2},
			Halves:  {codeDotsHalves4x2AVX2, codeDotsHalves8x2AVX2, codeDotsHalves16x2AVX2},
		},
		one: [2][4]codeDotsFunc{
			Natural: {codeDotsNatural4x1AVX2, codeDotsNatural8x1AVX2, codeDotsNatural16x1AVX2, codeDotsNatural32x1AVX2},
			Halves:  {codeDotsHalves4x1AVX2, codeDotsHalves8x1AVX2, codeDotsHalves16x1AVX2},
		},
	}
)

// codeDotsForm returns the forms of the level in use, nil if there are none.
func codeDotsForm() *codeDotsForms {
	switch active {
	case VNNI512:
		return &codeDotsVNNI512Forms
	case AVXVNNI:
		return &codeDotsAVXVNNIForms
	case AVX2, AVX512:
		return &codeDotsAVX2Forms
	}
	return nil
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
