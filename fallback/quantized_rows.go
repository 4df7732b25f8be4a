package fallback

import (
	"math"

	"github.com/kompute-go/kompute-go/fallback/internal/simd"
	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/opdef"
)

// quantizedRows is a quantized matrix [N, K] as the right factor of products
// x·wᵀ, for callers that divide the work among threads:
//
//	var p preparedRows
//	m.Reset(&p, rows)        // before the rows of every x, sizes memory
//	p.Set(i, row)            // each row of x once, K float32 numbers
//	m.multiplyRows(out, ld, &p, 0, rows, lo, hi)
//
// None of these starts a goroutine. Set may run concurrently for different rows
// and, once every row is set, multiplyRows for different ranges; a preparedRows serves
// every matrix that m.sharesRows reports. The results do not depend on how the rows
// of x and [0, N) are divided; ranges that begin at multiples of grain are fastest.
// Up to InvariantRows, they do not depend on the number of rows of x either.
//
// A quantizedRows is constant after newQuantizedRows, and keeps no copy: the
// arrays must stay as they are.
type quantizedRows struct {
	packed
	narrow simd.FactorType // see narrowFactors
}

// grain is the multiple at which ranges should begin.
const grain = 32

// newQuantizedRows checks w [N, K*bits/32] uint32 and scales and biases
// [N, K/group], of any strides; see QuantizedMatMul.
//
// Errors: ErrInvalid for other shapes or types, or a format that does not exist.
func newQuantizedRows(w, scales, biases array.Array, q Quantization) (*quantizedRows, error) {
	c := checker{op: "quantized_matmul"}
	a := c.packed(&w, &scales, &biases, q)
	c.rank("w", &w, 2)
	if c.err != nil {
		return nil, c.err
	}
	return &quantizedRows{a, a.narrowFactors()}, nil
}

// N returns the number of rows of the matrix, the columns of a product.
func (m *quantizedRows) N() int { return m.w.Shape[0] }

// K returns the length of the rows.
func (m *quantizedRows) K() int { return m.cols }

// preparedRows are rows of x in the form in which a matrix multiplies them. The
// zero value is ready for Reset, which reuses its memory.
type preparedRows struct {
	rows, k   int
	form      rowForm
	order     simd.Order
	groupSize int
	limbs     []simd.Limbs
	groups    []simd.GroupLimbs
	space     []float32 // of limbs or groups
	stride    int       // of space, from row to row
	tiles     simd.Tiles

	keepsFloats bool
	floats      []float32 // the rows, if products may need them

	// endless has the floats of each row with infinities, NaNs or numbers so large that whole numbers
	// cannot represent them: the sums of a group might overflow. Those of other rows are empty.
	endless [][]float32
	memory  []float32 // that Reset makes
}

// rowForm is how rows of x are multiplied.
type rowForm int

const (
	floatForm rowForm = iota // as floats, with dequantized panels
	dotForm                  // few rows, as floats, with dequantized rows
	limbForm                 // few rows, as whole numbers, with the codes themselves
	groupForm                // few rows with the codes, with tiles to the same results, except for nvfp4
	tileForm                 // as whole numbers, with tiles of x, and tiles or words of codes
)

// maxFewRows is the largest number of rows of x that are multiplied with single rows of a matrix.
// For more, products of dequantized panels are faster. Tiles are faster for even fewer (see
// simd.TileCodes.TilesPay).
const maxFewRows = 8

// form returns how that many rows of x are multiplied.
func (a *packed) form(rows int) rowForm {
	switch {
	case a.tiled() && a.tileCodes().TilesPay(rows):
		return tileForm
	case a.tiled() && a.Mode != opdef.ModeNVFP4:
		return groupForm
	case rows > maxFewRows:
		return floatForm
	case a.hasGroupDots():
		return groupForm
	case a.integers():
		return limbForm
	}
	return dotForm
}

// withRows reports whether that many rows are multiplied with single rows of the matrix, not with
// panels or tiles of them.
func (a *packed) withRows(rows int) bool {
	form := a.form(rows)
	return form != floatForm && form != tileForm
}

// InvariantRows returns the most rows of x among which each row's products with affine or mxfp4 weights
// have the same bits as alone; math.MaxInt: any number.
func InvariantRows() int {
	if simd.HasTiles() {
		return math.MaxInt
	}
	return maxFewRows
}

// integers reports whether the codes, or bytes that represent them, can be
// multiplied as whole numbers.
func (a *packed) integers() bool { return a.Mode != opdef.ModeMXFP8 }

// keepsFloats reports whether rows of x are kept as floats: because they are multiplied as such, or
// for rows of w with large factors.
func (a *packed) keepsFloats(form rowForm) bool {
	return form == floatForm || form == dotForm || a.largeFactors()
}

// largeFactors reports whether factors of w may be too large for products with whole numbers.
func (a *packed) largeFactors() bool { return a.Mode == opdef.ModeMXFP4 }

// order returns the order in which rows of x match the codes.
func (a *packed) order() simd.Order {
	switch {
	case a.Mode == opdef.ModeAffine && a.Bits == 4,
		a.Mode == opdef.ModeMXFP4 && a.hasGroupDots() && a.wholeBlocks(),
		a.Mode == opdef.ModeNVFP4 && a.hasGroupDots():
		return simd.Halves
	}
	return simd.Natural
}

// e2m1Codes are the numbers of 4 bits of the modes without biases, doubled and
// increased by 12, so that they are codes of an affine mode with half the scale
// and a bias of -6 scales.
var e2m1Codes = func() (table simd.Table) {
	for i := range table {
		table[i] = byte(2*e2m1Pairs[i][0] + 12)
	}
	return table
}()

// Reset prepares p for that many rows of x.
func (m *quantizedRows) Reset(p *preparedRows, rows int) {
	p.memory = grown(p.memory, m.preparedSpace(rows))
	m.resetIn(p, rows, p.memory)
}

// preparedSpace returns how many numbers resetIn needs.
func (a *packed) preparedSpace(rows int) int {
	form, n := a.form(rows), 0
	if form == tileForm {
		n = simd.TilesSpace(rows, a.cols, a.tileCodes())
	}
	if a.keepsFloats(form) {
		n += rows * a.cols
	}
	return n + rows*a.rowStride(form)
}

// rowStride returns how many numbers of space a row has.
func (a *packed) rowStride(form rowForm) int {
	switch form {
	case limbForm:
		return (simd.LimbSpace(a.cols, a.order()) + 3) / 4
	case groupForm:
		return simd.GroupLimbSpace(a.cols, a.order(), a.limbGroup())
	}
	return 0
}

// limbGroup is the size of groups of x in the form groupForm.
func (a *packed) limbGroup() int { return max(a.GroupSize, 2*minGroup) }

// resetIn is Reset with the rows in space, of preparedSpace numbers. It writes nothing there, so that space
// may serve others until the rows are set.
func (m *quantizedRows) resetIn(p *preparedRows, rows int, space []float32) {
	p.rows, p.k, p.order, p.groupSize, p.form = rows, m.cols, m.order(), m.limbGroup(), m.form(rows)
	p.endless = grown(p.endless, rows)
	p.stride = m.rowStride(p.form)
	switch p.form {
	case limbForm:
		p.limbs = grown(p.limbs, rows)
	case groupForm:
		p.groups = grown(p.groups, rows)
	case tileForm:
		p.tiles.Reset(rows, p.k, m.tileCodes(), cut(&space, simd.TilesSpace(rows, p.k, m.tileCodes())))
	}
	if p.keepsFloats = m.keepsFloats(p.form); p.keepsFloats {
		p.floats = cut(&space, rows*p.k)
	}
	p.space = space
}

// tiled reports whether tiles can multiply the codes, as whole numbers.
func (a *packed) tiled() bool { return simd.HasTiles() && a.cols > 0 && a.integers() }

// tileCodes describes the codes as tiles are multiplied with them.
func (a *packed) tileCodes() simd.TileCodes {
	c := simd.TileCodes{Bits: a.Bits, GroupSize: a.GroupSize}
	if a.Mode != opdef.ModeAffine {
		c.Table = &e2m1Codes
	}
	return c
}

// minGroup is the smallest group. For products with the codes themselves, rows of x have groups of two of these.
const minGroup = 16

// hasGroupDots reports whether few rows of x are multiplied by simd.GroupDots.
func (a *packed) hasGroupDots() bool {
	switch {
	case a.cols == 0 || a.cols%(2*minGroup) != 0 || !a.tileCodes().HasGroupDots():
		return false
	case a.Mode == opdef.ModeMXFP4 && !simd.HasTiles():
		return a.wholeBlocks()
	}
	return a.integers()
}

// wholeBlocks reports whether rows of codes of 4 bits fill blocks.
func (a *packed) wholeBlocks() bool { return a.cols%simd.Halves.Elements() == 0 }

// grown returns a slice of n elements with undefined values; it is s itself if that is large
// enough.
func grown[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}

// sharesRows reports whether rows that were prepared for m can also be multiplied
// with other.
func (m *quantizedRows) sharesRows(other *quantizedRows) bool {
	switch grouped := m.tiled() || m.hasGroupDots(); {
	case m.tiled() != other.tiled() || m.hasGroupDots() != other.hasGroupDots():
		return false
	case grouped && (m.GroupSize != other.GroupSize || m.tileCodes().EvenFirst() != other.tileCodes().EvenFirst()):
		return false
	}
	return m.cols == other.cols && m.integers() == other.integers() && m.order() == other.order() && m.largeFactors() == other.largeFactors()
}

// Set sets row i of x. x may change afterwards.
func (p *preparedRows) Set(i int, x []float32) {
	finite := true
	switch x = x[:p.k]; p.form {
	case limbForm:
		p.limbs[i].Prepare(array.Bytes(p.space[i*p.stride:(i+1)*p.stride]), x, p.order)
	case groupForm:
		finite = p.groups[i].Prepare(p.space[i*p.stride:(i+1)*p.stride], x, p.order, p.groupSize)
	case tileForm:
		finite = p.tiles.Set(i, x)
	}
	if p.keepsFloats {
		copy(p.floats[i*p.k:], x)
	}
	p.endless[i] = p.endless[i][:0]
	if !finite {
		p.endless[i] = append(p.endless[i], x[:p.k]...)
	}
}

// multiplyRows sets out[(i-first)*ld+j-lo] to the product of row i of x with row j of
// the matrix, for first <= i < end and lo <= j < hi. first must be a multiple of grain,
// and so must end, unless it is the number of rows.
func (m *quantizedRows) multiplyRows(out []float32, ld int, p *preparedRows, first, end, lo, hi int) {
	if lo >= hi || first >= end {
		return
	}
	if p.k == 0 {
		for i := range end - first {
			clear(out[i*ld : i*ld+hi-lo])
		}
		return
	}
	switch p.form {
	case limbForm, groupForm:
		m.multiplyCodes(out, ld, p, first, end, lo, hi)
	case tileForm:
		m.multiplyTiles(out, ld, p, first, end, lo, hi)
	case dotForm:
		m.multiplyDots(out, ld, p.floats[first*p.k:], end-first, lo, hi)
	default:
		m.multiplyPanels(out, ld, p.floats[first*p.k:], end-first, lo, hi)
	}
	m.multiplyEndless(out, ld, p, first, end, lo, hi)
}

// multiplyEndless sets the products of those rows of x that are no whole numbers.
func (m *quantizedRows) multiplyEndless(out []float32, ld int, p *preparedRows, first, end, lo, hi int) {
	count, n := 0, hi-lo
	for _, row := range p.endless[first:end] {
		count += min(len(row), 1)
	}
	if count == 0 {
		return
	}
	scratch := borrow(count * (p.k + n))
	defer scratch.release()
	x, products := scratch.f[:0:count*p.k], scratch.f[count*p.k:]
	for _, row := range p.endless[first:end] {
		x = append(x, row...)
	}
	m.multiplyPanels(products, n, x, count, lo, hi)
	for i, row := range p.endless[first:end] {
		if len(row) > 0 {
			copy(out[i*ld:], cut(&products, n))
		}
	}
}
