package fallback

import (
	"github.com/kompute-go/kompute-go/fallback/internal/simd"
	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/opdef"
)

const (
	// severalRowsBlock is how many rows of w are multiplied at a time with several rows of x.
	severalRowsBlock = 64
	// oneRowBlock is the most for one row of x.
	oneRowBlock = 4 * grain
)

// limbBlock returns how many rows of w are multiplied at a time with rows of x: so few that their
// codes are still in the cache for the next row of x. For one row, only their scales and biases
// need to stay there, 8 KiB of floats, and codes that are unpacked.
func (m *quantizedRows) limbBlock(rows int) int {
	if rows > 1 || m.groups == 0 {
		return severalRowsBlock
	}
	return min(max(1024/m.groups/grain*grain, grain), oneRowBlock)
}

// multiplyCodes multiplies whole numbers with the codes themselves.
func (m *quantizedRows) multiplyCodes(out []float32, ld int, p *preparedRows, from, end, lo, hi int) {
	if m.factorsInPlace(p, hi) {
		m.multiplyInPlace(out, ld, p, from, end, lo, hi)
		return
	}
	limbBlock := m.limbBlock(end - from)
	scratch := borrow(2 * (limbBlock*m.groups + simd.GroupSlack))
	defer scratch.release()
	var unpacked []byte
	if m.mustUnpack() && !m.takesPacked(p) {
		bytes := borrow(limbBlock * m.cols / 4)
		defer bytes.release()
		unpacked = array.Bytes(bytes.f)
	}
	for first := lo; first < hi; first += limbBlock {
		rows := min(limbBlock, hi-first)
		codes, large := m.block(first, rows, scratch.f, unpacked)
		m.prefetchFactors(first+rows, rows)
		if unpacked != nil {
			prefetchMatrix(m.w, first+rows, min(limbBlock, m.N()-first-rows))
		}
		if p.form == groupForm {
			simd.GroupDots(out[first-lo:], ld, &codes, p.groups[from:end], rows)
		} else {
			for i := from; i < end; i++ {
				simd.CodeDots(out[(i-from)*ld+first-lo:], &codes, &p.limbs[i], rows)
			}
		}
		m.multiplyLarge(out, ld, p, from, end, lo, large)
	}
}

// prefetchFactors prefetches the scales and biases of rows from next on. A worker takes about as many rows next as now.
func (m *quantizedRows) prefetchFactors(next, rows int) {
	rows = min(rows, m.N()-next)
	prefetchMatrix(m.scales, next, rows)
	prefetchMatrix(m.biases, next, rows)
}

// factorsInPlace reports whether GroupDots takes the codes and factors of rows up to hi as they lie in memory.
func (m *quantizedRows) factorsInPlace(p *preparedRows, hi int) bool {
	if m.narrow == simd.Float32Factors || p.form != groupForm || m.mustUnpack() && !m.takesPacked(p) {
		return false
	}
	all := hi*m.groups + simd.FactorsPast(m.groups)
	return m.scales.Offset+all <= len(m.scales.Data)/2 && m.biases.Offset+all <= len(m.biases.Data)/2
}

// multiplyInPlace is multiplyCodes for codes and factors as they lie in memory.
func (m *quantizedRows) multiplyInPlace(out []float32, ld int, p *preparedRows, from, end, lo, hi int) {
	c := simd.Codes{Order: m.order(), Groups: m.groups, GroupSize: m.GroupSize, Factors: m.narrow}
	if m.mustUnpack() {
		c.Packed = m.Bits
	}
	scales, biases := storage[uint16](m.scales)[m.scales.Offset:], storage[uint16](m.biases)[m.biases.Offset:]
	step := oneRowBlock
	if end-from > 1 {
		step = severalRowsBlock
	}
	for first := lo; first < hi; first += step {
		rows := min(step, hi-first)
		c.Data, c.Stride = m.codeRows(first, rows)
		c.NarrowScales, c.NarrowBiases = scales[first*m.groups:], biases[first*m.groups:]
		m.prefetchFactors(first+rows, rows)
		simd.GroupDots(out[first-lo:], ld, &c, p.groups[from:end], rows)
	}
}

// mustUnpack reports whether codes must become bytes before they are multiplied.
func (m *quantizedRows) mustUnpack() bool { return m.order() == simd.Natural && m.Bits != 8 }

// takesPacked reports whether GroupDots takes the codes without that, for these rows of x.
func (m *quantizedRows) takesPacked(p *preparedRows) bool {
	return p.form == groupForm && p.rows == 1 && m.Mode == opdef.ModeAffine && simd.TakesPacked()
}

// block returns rows of the matrix as CodeDots and GroupDots take them. space holds scales and
// biases, and unpacked the codes, if these must be converted to bytes first. It
// also returns rows whose factors are too large for this.
func (m *quantizedRows) block(first, rows int, space []float32, unpacked []byte) (c simd.Codes, large []int) {
	c = simd.Codes{Order: m.order(), Groups: m.groups, GroupSize: m.GroupSize}
	c.Data, c.Stride = m.codeRows(first, rows)
	c.Scales, c.Biases = cut(&space, rows*m.groups+simd.GroupSlack), cut(&space, rows*m.groups+simd.GroupSlack)
	if m.Mode == opdef.ModeAffine {
		c.Scales = m.factors(m.scales, first, rows, c.Scales)
		c.Biases = m.factors(m.biases, first, rows, c.Biases)
	} else {
		large = m.halfScales(c.Scales, c.Biases, first, rows)
		if c.Order == simd.Halves {
			c.Table = &e2m1Codes
		}
	}
	if unpacked == nil && m.mustUnpack() {
		c.Packed = m.Bits
	} else if unpacked != nil {
		m.unpack(unpacked, c.Data, c.Stride, rows)
		c.Data, c.Stride = unpacked, m.cols
	}
	return c, large
}

// factors returns the scales or biases of rows with simd.GroupSlack numbers after them: in
// place if possible, else in buf.
func (m *quantizedRows) factors(a *array.Array, first, rows int, buf []float32) []float32 {
	n := rows * m.groups
	f := loadMatrix(a, first, rows, buf[:n])
	switch {
	case n == 0 || &f[0] == &buf[0]:
		return buf
	case cap(f) >= n+simd.GroupSlack: // of the same storage
		return f[:n+simd.GroupSlack]
	}
	copy(buf, f)
	return buf
}

// unpack writes the codes of rows as bytes: those of 4-bit floats as the table says.
func (m *quantizedRows) unpack(to, codes []byte, stride, rows int) {
	var table *simd.Table
	if m.Mode != opdef.ModeAffine {
		table = &e2m1Codes
	}
	for i := range rows {
		simd.UnpackCodes(to[i*m.cols:(i+1)*m.cols], codes[i*stride:], m.Bits, table)
	}
}

// multiplyLarge sets the products with rows of w whose factors are too large for whole numbers,
// in out, which begins with row lo.
func (m *quantizedRows) multiplyLarge(out []float32, ld int, p *preparedRows, from, end, lo int, large []int) {
	for _, row := range large {
		m.multiplyPanels(out[row-lo:], ld, p.floats[from*p.k:], end-from, row, row+1)
	}
}

// halfScales sets the factors that belong to e2m1Codes. It returns the rows in
// which one of them, or a product with one and an element of x below 1e16, might
// exceed float32.
func (m *quantizedRows) halfScales(scales, biases []float32, first, rows int) (large []int) {
	all, row, step := storage[uint8](m.scales), m.scales.Strides[0], m.scales.Strides[1]
	at, n := m.scales.Offset+first*row, m.groups
	if step == 1 && row == n && !m.isLarge(m.halfFactors(scales, biases, all[at:at+rows*n])) {
		return nil
	}
	buf := make([]uint8, n)
	for i := range rows {
		codes := view(all, at+i*row, step, n, buf)
		if m.isLarge(m.halfFactors(scales[i*n:], biases[i*n:], codes)) {
			large = append(large, first+i)
		}
	}
	return large
}

// isLarge reports whether a scale is 2^64 or more.
func (m *quantizedRows) isLarge(code uint8) bool {
	return m.Mode == opdef.ModeMXFP4 && code >= 127+64
}

// halfFactors sets the factors for scales that follow one another, and returns the largest code.
func (m *quantizedRows) halfFactors(scales, biases []float32, codes []uint8) (largest uint8) {
	values, form := &e8m0Values, simd.E8M0
	if m.Mode == opdef.ModeNVFP4 {
		values, form = &e4m3Values, simd.E4M3
	}
	done, largest := simd.HalfScales(scales, biases, codes, form)
	for i, code := range codes[done:] {
		scales[done+i], biases[done+i] = values[code]/2, -6*values[code]
		largest = max(largest, code)
	}
	return largest
}

// codeRows returns the packed codes of rows, and the bytes between rows.
func (m *quantizedRows) codeRows(first, rows int) (data []byte, stride int) {
	words, stride := m.wordRows(first, rows)
	return array.Bytes(words), 4 * stride
}

// wordRows returns the words of rows, as floats, and how many words apart rows are.
func (m *quantizedRows) wordRows(first, rows int) (words []float32, stride int) {
	all, n, step := storage[float32](m.w), m.w.Shape[1], m.w.Strides[1]
	all, stride = all[m.w.Offset+first*m.w.Strides[0]:], m.w.Strides[0]
	if step == 1 || n == 1 {
		return all, stride
	}
	words = make([]float32, 0, rows*n)
	for i := range rows {
		for j := range n {
			words = append(words, all[i*stride+j*step])
		}
	}
	return words, n
}

// loadMatrix returns rows of a matrix of floats one after the other: in place
// if possible, else converted in buf.
func loadMatrix(a *array.Array, first, rows int, buf []float32) []float32 {
	cols := a.Shape[1]
	off := a.Offset + first*a.Strides[0]
	if a.Strides[1] == 1 && (a.Strides[0] == cols || rows == 1) {
		return floats(a, off, 1, rows*cols, buf)
	}
	for i := range rows {
		loadFloats(buf[i*cols:(i+1)*cols], a, off+i*a.Strides[0], a.Strides[1])
	}
	return buf
}
