package simd

import (
	"encoding/binary"
	"unsafe"
)

// tileConfig is the configuration for steps of that many elements and tiles of that many
// rows of x: tiles 0 to 5 have 16 sums for each of these rows, tile 6 the codes of 16 rows of w, four to a
// word, and tile 7 a limb of the rows of x.
func tileConfig(step, rows int) (c [64]byte) {
	const rowCounts, bytes = 48, 16
	c[0] = 1 // palette
	for tile := range 8 {
		c[rowCounts+tile] = byte(rows)
		binary.LittleEndian.PutUint16(c[bytes+2*tile:], 64)
	}
	c[rowCounts+6] = byte(step / 4)
	binary.LittleEndian.PutUint16(c[bytes+2*7:], uint16(step))
	return c
}

// amxProducts are the products of up to 8, 16 and 32 rows of x; 32 are two tiles.
var amxProducts = [3]struct {
	configs [3][64]byte // by step/32, for steps of 32 and of 64 elements
	// For groups of one and of two steps.
	one, two func(c *float32, x, b *byte, scales, biases, factors *float32, groups int, space *float32, config *byte, panels, tile, row, stride, apart int)
}{
	{[3][64]byte{1: tileConfig(32, 8), 2: tileConfig(64, 8)}, amxProduct1x8, amxProduct2x8},
	{[3][64]byte{1: tileConfig(32, 16), 2: tileConfig(64, 16)}, amxProduct1x16, amxProduct2x16},
	{[3][64]byte{1: tileConfig(32, 16), 2: tileConfig(64, 16)}, amxProduct1x32, amxProduct2x32},
}

// splitOrders are the places of the elements of a vector of x: in their order, and with the even ones of
// every eight first.
var splitOrders = [2][16]uint32{
	{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
	{0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15},
}

// split makes the limbs of a row, and returns the largest of the bits of its absolute
// values.
func (t *Tiles) split(limbs, factors int, x []float32) (largest uint32) {
	groups := t.k / t.codes.GroupSize
	to, powers := t.limbs[limbs:], t.factors[factors:]
	_, _, _ = to[(3*t.k/t.step-1)*2*t.tileBytes()+t.step-1], powers[2*tileRows*groups-tileRows], x[t.k-1]
	tileSplit(&to[0], &x[0], &powers[0], groups, t.codes.GroupSize/t.step, t.step/16, 2*t.tileBytes(), &largest, &splitOrders[toInt(t.codes.EvenFirst())])
	return largest
}

func (c TileCodes) expand(dst []byte, words []float32, steps, perStep int) {
	_, _ = dst[1024*perStep/c.Bits*steps-1], words[32*perStep*steps-1]
	if active != AMX {
		panic("simd: tiles of codes without AMX")
	}
	switch {
	case c.Bits == 8:
		tileExpand8(&dst[0], &words[0], steps, perStep)
	case c.Table != nil:
		tileExpand4Table(&dst[0], &words[0], steps, perStep, c.Table)
	default:
		tileExpand4(&dst[0], &words[0], steps, perStep)
	}
}

type vnniProduct func(c *float32, x, b *byte, scales, biases, factors *float32, groups, panels, stride, apart, quarters int, next *byte, advance int, table *Table)

// vnniProducts are the products with codes of 8 bits and of 4, for groups of 32, 64 and 128.
var vnniProducts = [2][3]vnniProduct{
	{tileProductBytes32, tileProductBytes64, tileProductBytes128},
	{tileProductPacked32, tileProductPacked64, tileProductPacked128},
}

// tableProducts are those with codes of a table, for groups of 16 and 32.
var tableProducts = [2]vnniProduct{tileProductTable16, tileProductTable32}

func (t *Tiles) vnniProduct() vnniProduct {
	size := t.codes.GroupSize
	switch {
	case t.codes.Table == nil && size >= 32:
		return vnniProducts[toInt(t.Packed())][size/64]
	case t.codes.Table == nil || t.codes.Bits != 4 || size > 32:
		panic("simd: a table without codes of 4 bits in groups of 16 or 32, or groups of 16 without one")
	}
	return tableProducts[size/32]
}

// product adds the products of rows up to 32 from first on to c, of 32 columns for each
// panel. next is prefetched meanwhile.
func (t *Tiles) product(c []float32, first, rows int, w *TilePanels, space []float32, next []byte) {
	groups := t.k / t.codes.GroupSize
	limbs, factors := t.place(first)
	_, _, _ = c[tileRows*tileRows*w.Count-1], t.limbs[limbs+t.blockBytes()-1], t.factors[factors+t.blockFactors()-1]
	_, _, _, _ = w.Codes[t.PanelNumbers()*w.Count-1], w.Scales[32*groups*w.Count-1], w.Biases[32*groups*w.Count-1], space[sumNumbers-1]
	b := (*byte)(unsafe.Pointer(&w.Codes[0]))
	if t.words {
		kernel := t.vnniProduct()
		ahead, advance, quarters := b, 0, (rows+3)/4
		if len(next) > 0 {
			ahead, advance = &next[0], min((len(next)*16-1)/(t.k*w.Count*quarters)+1, 256)
		}
		kernel(&c[0], &t.limbs[limbs], b, &w.Scales[0], &w.Biases[0], &t.factors[factors], groups, w.Count, 4*t.PanelNumbers(), 128*groups, quarters, ahead, advance, t.codes.Table)
		return
	}
	products := &amxProducts[t.multipliedRows(rows)/16] // 0, 1, 2: 8, 16, 32 rows
	kernel := products.one
	if t.codes.GroupSize == 2*t.step {
		kernel = products.two
	}
	kernel(&c[0], &t.limbs[limbs], b, &w.Scales[0], &w.Biases[0], &t.factors[factors], groups, &space[0], &products.configs[t.step/32][0],
		w.Count, t.tileBytes(), t.step, 4*TileNumbers(t.k), 128*groups)
}
