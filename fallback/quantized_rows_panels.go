package fallback

import (
	"github.com/kompute-go/kompute-go/fallback/internal/simd"
	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/opdef"
)

// panelK is the largest number of rows of a panel of w.
const panelK = 512

// chunk is the largest number of rows of w that are multiplied together. These are
// several panels, so that a block of rows of x is read once and then is in the
// cache for the other panels.
const chunk = 128

// blockRows is how many rows of x such a block has.
const blockRows = 96

// multiplyPanels multiplies rows of floats with panels of w that are dequantized once for
// all of them.
func (m *quantizedRows) multiplyPanels(out []float32, ld int, x []float32, rows, lo, hi int) {
	width := simd.PanelWidth()
	size := panelK * width
	scratch := borrow(blockRows*width + chunk*panelK + size + 2*width*m.groups)
	defer scratch.release()
	space := scratch.f
	part, panels := cut(&space, blockRows*width), cut(&space, chunk*panelK)
	for k0 := 0; k0 < m.cols; k0 += panelK {
		kn := min(panelK, m.cols-k0)
		for n0 := lo; n0 < hi; n0 += chunk {
			end := min(n0+chunk, hi)
			for j := n0; j < end; j += width {
				m.panel(panels[(j-n0)*panelK:][:kn*width], space, j, min(width, end-j), k0, kn)
			}
			for first := 0; first < rows; first += blockRows {
				count := min(blockRows, rows-first)
				for j := n0; j < end; j += width {
					m.addPanel(out[first*ld+j-lo:], ld, x[first*m.cols+k0:], count, panels[(j-n0)*panelK:], min(width, end-j), kn, k0 > 0, part)
				}
			}
		}
	}
}

// multiplyDots multiplies few rows of floats with rows of w that are dequantized for them.
func (m *quantizedRows) multiplyDots(out []float32, ld int, x []float32, rows, lo, hi int) {
	const some = 4 // whose floats stay in a near cache
	scratch := borrow(some * (m.cols + 2*m.groups))
	defer scratch.release()
	for j := lo; j < hi; j += some {
		n := min(some, hi-j)
		prefetchMatrix(m.w, j+n, min(some, m.N()-j-n))
		m.dequantizeTile(scratch.f, j, n, 0, m.cols)
		simd.Dots(out[j-lo:], ld, x, m.cols, rows, scratch.f, m.cols, n, m.cols, false)
	}
}

// addPanel sets or increases nn columns of some rows of out by products with a
// panel.
func (m *quantizedRows) addPanel(out []float32, ld int, x []float32, rows int, panel []float32, nn, kn int, add bool, part []float32) {
	width := simd.PanelWidth()
	if nn == width {
		simd.PanelProduct(out, ld, x, m.cols, rows, panel, kn, add)
		return
	}
	if add {
		for i := range rows {
			copy(part[i*width:], out[i*ld:i*ld+nn])
		}
	}
	simd.PanelProduct(part, width, x, m.cols, rows, panel, kn, add)
	for i := range rows {
		copy(out[i*ld:], part[i*width:i*width+nn])
	}
}

// panel makes a panel of columns [k0, k0+kn), in whole groups, of nn rows of w.
func (m *quantizedRows) panel(panel, space []float32, n0, nn, k0, kn int) {
	if m.Mode == opdef.ModeAffine && m.w.Strides[1] == 1 && m.expandPanel(panel, space, n0, nn, k0, kn) {
		return
	}
	m.dequantizeTile(space, n0, nn, k0, kn)
	simd.TransposePanel(panel, space, kn, nn, kn)
}

// expandPanel makes a panel from a panel of words. It returns false if codes
// cross the borders of words.
func (m *quantizedRows) expandPanel(panel, space []float32, n0, nn, k0, kn int) bool {
	if 32%m.Bits != 0 {
		return false
	}
	codes, scales, biases := m.wordPanel(space, n0, nn, k0, kn)
	return simd.ExpandPanel(panel, codes, scales, biases, m.Bits, kn/m.GroupSize, m.GroupSize*m.Bits/32)
}

// wordPanel makes panels of the words, and of the scales and biases, of columns
// [k0, k0+kn) of nn rows of w, and prefetches the words of the next panel.
func (m *quantizedRows) wordPanel(space []float32, n0, nn, k0, kn int) (codes, scales, biases []float32) {
	g0, groups := k0/m.GroupSize, kn/m.GroupSize
	perGroup := m.GroupSize * m.Bits / 32
	words := storage[float32](m.w)[m.w.Offset+n0*m.w.Strides[0]+g0*perGroup:]
	codes = cut(&space, groups*perGroup*simd.PanelWidth())
	simd.TransposePanel(codes, words, m.w.Strides[0], nn, groups*perGroup)
	m.prefetch(n0+nn, min(n0+nn+simd.PanelWidth(), m.N()), g0*perGroup, groups*perGroup)
	scales, biases = cut(&space, groups*simd.PanelWidth()), cut(&space, groups*simd.PanelWidth())
	m.factorPanels(scales, biases, space, n0, nn, g0, groups)
	return codes, scales, biases
}

// prefetch prefetches words [first, first+words) of rows [lo, hi) of w.
func (m *quantizedRows) prefetch(lo, hi, first, words int) {
	stride := m.w.Strides[0]
	at := 4 * (m.w.Offset + lo*stride + first)
	if lo < hi && words == stride { // one after the other
		simd.Prefetch(m.w.Data[at : at+4*(hi-lo)*words])
		return
	}
	for ; lo < hi; lo++ {
		simd.Prefetch(m.w.Data[at : at+4*words])
		at += 4 * stride
	}
}

// factorPanels makes panels of the scales and biases of groups from g0 on of nn rows. It also
// returns the rows whose factors are too large (see halfScales).
func (m *quantizedRows) factorPanels(scales, biases, space []float32, n0, nn, g0, groups int) (large []int) {
	if m.narrow != simd.Float32Factors {
		at := n0*m.groups + g0
		if simd.FactorPanel(scales, storage[uint16](m.scales)[m.scales.Offset+at:], m.groups, nn, groups, m.narrow) &&
			simd.FactorPanel(biases, storage[uint16](m.biases)[m.biases.Offset+at:], m.groups, nn, groups, m.narrow) {
			return nil
		}
	}
	from := [2][]float32{cut(&space, nn*m.groups), cut(&space, nn*m.groups)}
	if m.Mode == opdef.ModeAffine {
		from[0], from[1] = loadMatrix(m.scales, n0, nn, from[0]), loadMatrix(m.biases, n0, nn, from[1])
	} else {
		large = m.halfScales(from[0], from[1], n0, nn)
	}
	simd.TransposePanel(scales, from[0][g0:], m.groups, nn, groups)
	simd.TransposePanel(biases, from[1][g0:], m.groups, nn, groups)
	return large
}

// bytePanel makes a panel of words of all columns, with a byte for each code.
func (m *quantizedRows) bytePanel(panel, space []float32, n0, nn int) {
	words := m.cols / 4 // of a row
	rows := space[:nn*words]
	packed, stride := m.codeRows(n0, nn)
	m.unpack(array.Bytes(rows), packed, stride, nn)
	simd.TransposePanel(panel, rows, words, nn, words)
}

// panelRows returns how many rows of w are multiplied together with that many rows of x. With few, that is a single
// panel, which then stays in the nearest cache. With more rows, or tiles of AMX, each panel would wait for x to be
// read again.
func (p *preparedRows) panelRows(rows int) int {
	const few = 16
	if p.tiles.TakesWords() && rows <= few {
		return simd.PanelWidth()
	}
	return chunk
}

// multiplyTiles multiplies tiles of x with panels of codes.
func (m *quantizedRows) multiplyTiles(out []float32, ld int, p *preparedRows, from, to, lo, hi int) {
	const width = 32
	most := min(p.panelRows(to-from), hi-lo+width-1) / width // number of panels at a time
	numbers, factors := p.tiles.PanelNumbers(), m.groups*width
	scratch := borrow(15 + most*(numbers+2*factors) + simd.SumSpace(most) + 2*p.k/4*width)
	defer scratch.release()
	space := simd.Aligned(scratch.f)
	work := cut(&space, simd.SumSpace(most))
	w := simd.TilePanels{Codes: cut(&space, most*numbers), Scales: cut(&space, most*factors), Biases: cut(&space, most*factors)}
	var large []int
	for n0 := lo; n0 < hi; n0 += most * width {
		end := min(n0+most*width, hi)
		w.Count = (end - n0 + width - 1) / width
		w.Next = m.nextWords(end, most*width)
		for i := range w.Count {
			j := n0 + i*width
			nn := min(width, end-j)
			m.codePanel(&p.tiles, w.Codes[i*numbers:][:numbers], space, j, nn, n0 == lo || !p.tiles.TakesWords())
			large = append(large, m.factorPanels(w.Scales[i*factors:], w.Biases[i*factors:], space, j, nn, 0, m.groups)...)
		}
		p.tiles.Multiply(out[n0-lo:], ld, from, to, end-n0, &w, work)
	}
	m.multiplyLarge(out, ld, p, from, to, lo, large)
}

// nextWords returns the words of n rows from first on, or of fewer at the end, if they are
// one after the other.
func (m *quantizedRows) nextWords(first, n int) []byte {
	words, stride := m.w.Shape[1], m.w.Strides[0]
	if n = min(n, m.N()-first); n <= 0 || words != stride || m.w.Strides[1] != 1 {
		return nil
	}
	at := 4 * (m.w.Offset + first*stride)
	return m.w.Data[at : at+4*n*words]
}

// codePanel makes a panel of nn rows of w for products with x. With ahead, it prefetches the words of the next panel
// where it can.
func (m *quantizedRows) codePanel(x *simd.Tiles, panel, space []float32, n0, nn int, ahead bool) {
	whole := m.Bits == 4 || m.Bits == 8 // words hold whole codes
	switch {
	case x.TakesWords() && whole:
		words := m.cols * m.Bits / 32 // of a row
		rows, stride := m.wordRows(n0, nn)
		simd.TransposePanel(panel, rows, stride, nn, words)
		if ahead && m.w.Strides[1] == 1 {
			m.prefetch(n0+nn, min(n0+nn+simd.PanelWidth(), m.N()), 0, words)
		}
	case x.TakesWords():
		m.bytePanel(panel, space, n0, nn)
	case whole:
		m.expandWords(panel, space, n0, nn, ahead)
	default:
		bytes := cut(&space, m.cols/4*simd.PanelWidth())
		m.bytePanel(bytes, space, n0, nn)
		simd.TileCodes{Bits: 8, GroupSize: m.GroupSize}.Expand(panel, bytes, m.cols)
	}
}

// expandWords makes tiles of rows whose words hold whole codes, by blocks of columns, so
// that a block's words are still in the nearest cache when they are expanded. With ahead,
// it prefetches the words of the next panel.
func (m *quantizedRows) expandWords(tiles, space []float32, n0, nn int, ahead bool) {
	const block = 512 // a multiple of all group sizes
	rows, stride := m.wordRows(n0, nn)
	width := simd.PanelWidth()
	for k0 := 0; k0 < m.cols; k0 += block {
		kn := min(block, m.cols-k0)
		first, words := k0*m.Bits/32, kn*m.Bits/32
		codes := space[:words*width]
		simd.TransposePanel(codes, rows[first:], stride, nn, words)
		if ahead && m.w.Strides[1] == 1 {
			m.prefetch(n0+nn, min(n0+nn+width, m.N()), first, words)
		}
		m.tileCodes().Expand(tiles[simd.TileNumbers(k0):], codes, kn)
	}
}

// dequantizeTile writes nn rows of kn numbers, in whole groups, to the beginning of
// space, which also has room for two numbers for each group of these rows.
func (m *quantizedRows) dequantizeTile(space []float32, n0, nn, k0, kn int) {
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
