package fallback

import (
	"sync/atomic"

	"github.com/kompute-go/kompute-go/fallback/internal/simd"
	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/opdef"
)

// QuantizedRows is a quantized matrix [N, K] as the right factor of products
// x·wᵀ, for callers that divide work between threads of their own:
//
//	var p PreparedRows
//	m.Reset(&p, rows)        // once, sizes memory
//	p.Set(i, row)            // each row of x, K float32 numbers
//	m.Multiply(out, ld, &p, lo, hi)
//
// None of these starts a goroutine. Set may run at once for different rows, and
// Multiply for different ranges, once every row is set; a PreparedRows serves
// every matrix that m.SharesRows reports. The results do not depend on how [0, N)
// is divided; ranges that begin at multiples of Grain are fastest.
//
// A QuantizedRows is constant after NewQuantizedRows, and keeps no copy: the
// arrays must stay as they are.
type QuantizedRows struct {
	packed
}

// Grain is what borders between the ranges of Multiply should be multiples of.
const Grain = 32

// NewQuantizedRows checks w [N, K*bits/32] uint32 and scales and biases
// [N, K/group], of any strides; see QuantizedMatMul.
//
// Errors: ErrInvalid for other shapes or types, or a format that does not exist.
func NewQuantizedRows(w, scales, biases array.Array, q Quantization) (*QuantizedRows, error) {
	c := checker{op: "quantized_matmul"}
	m := &QuantizedRows{c.packed(&w, &scales, &biases, q)}
	c.rank("w", &w, 2)
	if c.err != nil {
		return nil, c.err
	}
	return m, nil
}

// N returns the number of rows of the matrix, the columns of a product.
func (m *QuantizedRows) N() int { return m.w.Shape[0] }

// K returns the length of the rows.
func (m *QuantizedRows) K() int { return m.cols }

// PreparedRows are rows of x in the form in which a matrix multiplies them. The
// zero value is ready for Reset, which reuses its memory.
type PreparedRows struct {
	rows, k int
	order   simd.Order
	limbs   []simd.Limbs // few rows
	stride  int          // bytes between them
	bytes   []byte
	floats  []float32 // many rows, one after the other
	tiled   bool      // they are in tiles, too
	tiles   simd.Tiles
	group   int         // of tiles
	endless atomic.Bool // a row is not finite, so that tiles cannot have it
}

// maxLimbRows is up to how many rows of x are multiplied as whole numbers with
// the codes themselves; for more, products of dequantized tiles are faster.
const maxLimbRows = 8

// integers reports whether the codes, or bytes that stand for them, can be
// multiplied as whole numbers.
func (a *packed) integers() bool { return a.Mode != opdef.ModeMXFP8 }

// order is how rows of x lie for the codes.
func (a *packed) order() simd.Order {
	if a.Mode == opdef.ModeAffine && a.Bits == 4 {
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

// Reset prepares p for so many rows of x.
func (m *QuantizedRows) Reset(p *PreparedRows, rows int) {
	p.rows, p.k, p.order = rows, m.cols, m.order()
	p.limbs, p.tiled = p.limbs[:0], false
	if rows > maxLimbRows || !m.integers() {
		p.floats = grown(p.floats, rows*p.k)
		if m.tiled() {
			p.tiled, p.group = true, m.GroupSize
			p.tiles.Reset(rows, p.k, p.group)
			p.endless.Store(false)
		}
		return
	}
	p.stride = simd.LimbSpace(p.k, p.order)
	p.bytes = grown(p.bytes, rows*p.stride)
	p.limbs = grown(p.limbs, rows)
}

// tiled reports whether many rows are multiplied by tiles.
func (a *packed) tiled() bool {
	return a.Mode == opdef.ModeAffine && simd.HasTiles(a.Bits) && a.w.Strides[1] == 1 && a.cols > 0
}

// grown returns a slice of n elements of any value, s itself if it is large enough.
func grown[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}

// SharesRows reports whether rows that were prepared for m serve other, too.
func (m *QuantizedRows) SharesRows(other *QuantizedRows) bool {
	if m.tiled() != other.tiled() || m.tiled() && m.GroupSize != other.GroupSize {
		return false
	}
	return m.cols == other.cols && m.integers() == other.integers() && m.order() == other.order()
}

// Set sets row i of x. x may change afterwards.
func (p *PreparedRows) Set(i int, x []float32) {
	if len(p.limbs) > 0 {
		p.limbs[i].Prepare(p.bytes[i*p.stride:(i+1)*p.stride], x[:p.k], p.order)
		return
	}
	copy(p.floats[i*p.k:(i+1)*p.k], x)
	if p.tiled && !p.tiles.Set(i, x) {
		p.endless.Store(true)
	}
}

// Multiply sets out[i*ld+j-lo] to the product of row i of x with row j of the
// matrix, for every i and for lo <= j < hi.
func (m *QuantizedRows) Multiply(out []float32, ld int, p *PreparedRows, lo, hi int) {
	switch {
	case lo >= hi || p.rows == 0:
	case p.k == 0:
		for i := range p.rows {
			clear(out[i*ld : i*ld+hi-lo])
		}
	case len(p.limbs) > 0:
		m.multiplyLimbs(out, ld, p, lo, hi)
	case p.tiled && !p.endless.Load():
		m.multiplyTiles(out, ld, p, lo, hi)
	default:
		m.multiplyPanels(out, ld, p, lo, hi)
	}
}

// limbBlock is how many rows of w are multiplied at a time, so that their codes
// are still in the cache for the next row of x.
const limbBlock = 64

// multiplyLimbs multiplies codes with whole numbers.
func (m *QuantizedRows) multiplyLimbs(out []float32, ld int, p *PreparedRows, lo, hi int) {
	scratch := borrow(2 * limbBlock * m.groups)
	defer scratch.release()
	var unpacked []byte
	if m.order() == simd.Natural && m.Bits != 8 {
		bytes := borrow(limbBlock * m.cols / 4)
		defer bytes.release()
		unpacked = array.Bytes(bytes.f)
	}
	for first := lo; first < hi; first += limbBlock {
		rows := min(limbBlock, hi-first)
		codes, large := m.block(first, rows, scratch.f, unpacked)
		for i := range p.limbs {
			simd.CodeDots(out[i*ld+first-lo:], &codes, &p.limbs[i], rows)
		}
		for _, row := range large {
			m.multiplyFloats(out[row-lo:], ld, p, row)
		}
	}
}

// block returns rows of the matrix as CodeDots takes them. space holds scales and
// biases; unpacked the codes, if these must be made bytes first. It also
// returns rows whose factors are too large for that.
func (m *QuantizedRows) block(first, rows int, space []float32, unpacked []byte) (c simd.Codes, large []int) {
	c = simd.Codes{Order: m.order(), Groups: m.groups, GroupSize: m.GroupSize}
	c.Data, c.Stride = m.codeRows(first, rows)
	var table *simd.Table
	c.Scales, c.Biases = cut(&space, rows*m.groups), cut(&space, rows*m.groups)
	if m.Mode == opdef.ModeAffine {
		c.Scales = loadMatrix(m.scales, first, rows, c.Scales)
		c.Biases = loadMatrix(m.biases, first, rows, c.Biases)
	} else {
		table = &e2m1Codes
		large = m.halfScales(c.Scales, c.Biases, first, rows)
	}
	if unpacked != nil {
		for i := range rows {
			simd.UnpackCodes(unpacked[i*m.cols:(i+1)*m.cols], c.Data[i*c.Stride:], m.Bits, table)
		}
		c.Data, c.Stride = unpacked, m.cols
	}
	return c, large
}

// multiplyFloats sets the products with one row, from the dequantized row.
func (m *QuantizedRows) multiplyFloats(out []float32, ld int, p *PreparedRows, row int) {
	scratch := borrow(2 * m.cols)
	defer scratch.release()
	w := scratch.f[m.cols:]
	m.values(w, m.w.Offset+row*m.w.Strides[0], m.scales.Offset+row*m.scales.Strides[0], 0, m.groups)
	for i := range p.limbs {
		out[i*ld] = simd.Dot(w, p.limbs[i].Floats(scratch.f))
	}
}

// halfScales sets the factors that belong to e2m1Codes. It returns the rows where
// one of them, or a product with one, might exceed float32.
func (m *QuantizedRows) halfScales(scales, biases []float32, first, rows int) (large []int) {
	values := &e8m0Values
	if m.Mode == opdef.ModeNVFP4 {
		values = &e4m3Values
	}
	all, step := storage[uint8](m.scales), m.scales.Strides[1]
	for i := range rows {
		at, largest := m.scales.Offset+(first+i)*m.scales.Strides[0], float32(0)
		for g := i * m.groups; g < (i+1)*m.groups; g++ {
			scale := values[all[at]]
			scales[g], biases[g] = scale/2, -6*scale
			if scale > largest {
				largest = scale
			}
			at += step
		}
		if largest >= 1<<64 {
			large = append(large, first+i)
		}
	}
	return large
}

// codeRows returns the packed codes of rows, and the bytes between rows.
func (m *QuantizedRows) codeRows(first, rows int) (data []byte, stride int) {
	rowStride, step, words := m.w.Strides[0], m.w.Strides[1], m.w.Shape[1]
	off := m.w.Offset + first*rowStride
	if step == 1 || words == 1 {
		return m.w.Data[off*4:], rowStride * 4
	}
	data = make([]byte, 0, rows*words*4)
	for i := range rows {
		data = append(data, m.codes(off+i*rowStride, words, step)[:words*4]...)
	}
	return data, words * 4
}

// loadMatrix returns rows of a matrix of floats one after the other: where they
// are if that is possible, else converted in buf.
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

// panelK is how many rows a panel of w has.
const panelK = 512

// multiplyPanels multiplies floats with panels of w that are dequantized once for
// all rows of x.
func (m *QuantizedRows) multiplyPanels(out []float32, ld int, p *PreparedRows, lo, hi int) {
	width := simd.PanelWidth()
	scratch := borrow(p.rows*width + panelK*width + m.panelSpace(width))
	defer scratch.release()
	space := scratch.f
	part, panel := cut(&space, p.rows*width), cut(&space, panelK*width)
	for n0 := lo; n0 < hi; n0 += width {
		nn := min(width, hi-n0)
		c, ldc := part, width
		if nn == width {
			c, ldc = out[n0-lo:], ld
		}
		for k0 := 0; k0 < p.k; k0 += panelK {
			kn := min(panelK, p.k-k0)
			m.panel(panel, space, n0, nn, k0, kn)
			simd.PanelProduct(c, ldc, p.floats[k0:], p.k, p.rows, panel, kn, k0 > 0)
		}
		if nn < width {
			for i := range p.rows {
				copy(out[i*ld+n0-lo:], part[i*width:i*width+nn])
			}
		}
	}
}

// panelSpace is how many numbers panel needs as space.
func (m *QuantizedRows) panelSpace(width int) int {
	return panelK*width + 2*width*m.groups
}

// panel makes a panel of columns [k0, k0+kn), in whole groups, of nn rows of w.
func (m *QuantizedRows) panel(panel, space []float32, n0, nn, k0, kn int) {
	if m.Mode == opdef.ModeAffine && m.w.Strides[1] == 1 && m.expandPanel(panel, space, n0, nn, k0, kn) {
		return
	}
	m.dequantizeTile(space, n0, nn, k0, kn)
	simd.TransposePanel(panel, space, kn, nn, kn)
}

// expandPanel makes a panel from one of words. It returns false where codes cross
// the borders of words.
func (m *QuantizedRows) expandPanel(panel, space []float32, n0, nn, k0, kn int) bool {
	if 32%m.Bits != 0 {
		return false
	}
	codes, scales, biases := m.wordPanel(space, n0, nn, k0, kn)
	return simd.ExpandPanel(panel, codes, scales, biases, m.Bits, kn/m.GroupSize, m.GroupSize*m.Bits/32)
}

// wordPanel makes panels of the words, and of the scales and biases, of columns
// [k0, k0+kn) of nn rows of w.
func (m *QuantizedRows) wordPanel(space []float32, n0, nn, k0, kn int) (codes, scales, biases []float32) {
	width, g0, groups := simd.PanelWidth(), k0/m.GroupSize, kn/m.GroupSize
	perGroup := m.GroupSize * m.Bits / 32
	words := storage[float32](m.w)[m.w.Offset+n0*m.w.Strides[0]+g0*perGroup:]
	codes = cut(&space, groups*perGroup*width)
	simd.TransposePanel(codes, words, m.w.Strides[0], nn, groups*perGroup)
	for i := range min(width, m.N()-n0-nn) { // the next panel
		at := 4 * (m.w.Offset + (n0+nn+i)*m.w.Strides[0] + g0*perGroup)
		simd.Prefetch(m.w.Data[at : at+4*groups*perGroup])
	}
	scales, biases = cut(&space, groups*width), cut(&space, groups*width)
	simd.TransposePanel(scales, loadMatrix(m.scales, n0, nn, space)[g0:], m.groups, nn, groups)
	simd.TransposePanel(biases, loadMatrix(m.biases, n0, nn, space)[g0:], m.groups, nn, groups)
	return codes, scales, biases
}

// multiplyTiles multiplies tiles of x with tiles of codes.
func (m *QuantizedRows) multiplyTiles(out []float32, ld int, p *PreparedRows, lo, hi int) {
	const width = 32
	words := p.k * m.Bits / 32
	scratch := borrow(p.rows*width + p.tiles.TileSpace() + (words+3*m.groups)*width)
	defer scratch.release()
	space := scratch.f
	part, tiles := cut(&space, p.rows*width), cut(&space, p.tiles.TileSpace())
	for n0 := lo; n0 < hi; n0 += width {
		nn := min(width, hi-n0)
		codes, scales, biases := m.wordPanel(space, n0, nn, 0, p.k)
		if nn == width {
			p.tiles.Multiply(out[n0-lo:], ld, codes, scales, biases, m.Bits, tiles)
			continue
		}
		p.tiles.Multiply(part, width, codes, scales, biases, m.Bits, tiles)
		for i := range p.rows {
			copy(out[i*ld+n0-lo:], part[i*width:i*width+nn])
		}
	}
}

// dequantizeTile writes nn rows of kn numbers, in whole groups, to the beginning of
// space, which also has room for two numbers for each group of these rows.
func (m *QuantizedRows) dequantizeTile(space []float32, n0, nn, k0, kn int) {
	g0, groups := k0/m.GroupSize, kn/m.GroupSize
	tile := cut(&space, nn*kn)
	if m.Mode != opdef.ModeAffine {
		for i := range nn {
			at := n0 + i
			m.values(tile[i*kn:], m.w.Offset+at*m.w.Strides[0], m.scales.Offset+at*m.scales.Strides[0], g0, g0+groups)
		}
		return
	}
	w := simd.Weights{Groups: groups, Stride: m.groups, GroupSize: m.GroupSize, Bits: m.Bits}
	w.Codes, w.RowBytes = m.codeRows(n0, nn)
	w.Codes = w.Codes[k0/8*m.Bits:]
	w.Scales = loadMatrix(m.scales, n0, nn, cut(&space, nn*m.groups))[g0:]
	w.Biases = loadMatrix(m.biases, n0, nn, cut(&space, nn*m.groups))[g0:]
	simd.Dequantize(tile, kn, &w, nn)
}
