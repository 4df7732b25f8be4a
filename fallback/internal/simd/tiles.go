package simd

import "unsafe"

// Tiles are rows of x for products of bytes that add exactly: on AMX tiles, or nearly in the
// same layout (see below) by AVX-512 VNNI, with the same results.
// As in Limbs an element is n·2^e, with n in three signed bytes, but the elements of a
// group share their power of two, so that scale, bias and power are applied once to the
// sums of a group. The rounding error is below 2^-22 of the group's largest element,
// or 2^-127 if that is more.
//
// Each block of 32 rows has, group by group and step by step, six tiles: of the limbs
// of weight 65536, 256 and 1 those of rows 0 to 15 and of rows 16 to 31. A row of a tile
// has a step's elements: 64, or all of a group that has fewer. For codes of 4 bits, the even
// ones of every eight come first, as masks take them from a word.
type Tiles struct {
	rows, k, step int
	codes         TileCodes
	words         bool // see TakesWords
	limbs         []byte
	// factors has for each block and group the powers of two of 32 rows, and then Σ n·2^e
	// of those rows.
	factors []float32
}

// TileCodes describes the codes of a matrix that tiles are multiplied with.
type TileCodes struct {
	Bits      int    // of a code
	GroupSize int    // 32, 64 or 128; with a table only 16 or 32
	Table     *Table // if not nil, the numbers that codes of 4 bits stand for
}

// HasTiles reports whether the processor supports such products.
func HasTiles() bool { return active >= VNNI512 && active <= AMX }

// TilesPay reports whether tiles are faster for that many rows of x than products with the codes themselves.
// Making panels of the codes takes as long as products of 2 to 4 rows with the codes, and longest with codes of
// 8 bits. AMX then multiplies up to 8 rows in the same time, while VNNI takes longer with every 4 rows. Processors
// with AMX leave 4 rows, and groups of 16, to VNNI (see byVNNI); there, many rows in groups of 16 are faster as floats.
func (c TileCodes) TilesPay(rows int) bool {
	const mostRows = 128 // in groups of 16
	switch {
	case rows == 4:
		return c.Bits < 8
	case active != AMX:
		return rows >= 6
	case !c.fillsTiles():
		return rows >= 6 && rows <= mostRows
	}
	return rows >= 5
}

// byVNNI reports whether that many rows of x are multiplied by VNNI: AMX takes as long for 4 rows as for 8, and has
// no tiles for groups of 16.
func (c TileCodes) byVNNI(rows int) bool { return active != AMX || !c.fillsTiles() || rows <= 4 }

// fillsTiles reports whether groups are large enough for the tiles of AMX.
func (c TileCodes) fillsTiles() bool { return c.GroupSize >= 32 }

const (
	// tileRows is how many rows of x, at most, and of w are multiplied at a time.
	tileRows = 32
	// sumNumbers is how many sums of a group are made at a time, of three limbs and 16
	// rows of w.
	sumNumbers = 3 * tileRows * 16
)

// TilesSpace is how many float32 numbers Reset needs.
func TilesSpace(rows, k int, codes TileCodes) int {
	t := Tiles{k: k, codes: codes}
	return 15 + blocksOf(rows)*(t.blockBytes()/4+t.blockFactors())
}

// Reset sizes t for rows of x of k elements, in whole groups of these codes. They will be in space, of TilesSpace
// numbers; Reset writes nothing there.
func (t *Tiles) Reset(rows, k int, codes TileCodes, space []float32) {
	t.reset(rows, k, codes, codes.byVNNI(rows), space)
}

func (t *Tiles) reset(rows, k int, codes TileCodes, words bool, space []float32) {
	*t = Tiles{rows: rows, k: k, step: min(codes.GroupSize, 64), codes: codes, words: words}
	space = Aligned(space)
	size := blocksOf(rows) * t.blockBytes()
	t.limbs = unsafe.Slice((*byte)(unsafe.Pointer(&space[0])), size)
	t.factors = space[size/4:][:blocksOf(rows)*t.blockFactors()]
}

func blocksOf(rows int) int { return (rows + tileRows - 1) / tileRows }

// TakesWords reports whether t is multiplied with panels of words of a matrix, not with tiles of its codes.
func (t *Tiles) TakesWords() bool { return t.words }

// Packed reports whether t is multiplied with words of 4-bit codes, eight in each.
func (t *Tiles) Packed() bool { return t.words && t.codes.Bits == 4 }

// EvenFirst reports whether the even elements of every eight come first in rows of x.
func (c TileCodes) EvenFirst() bool { return c.Bits == 4 }

// multipliedRows is how many rows the kernel in use multiplies of a block that has that
// many; those that are missing must be 0.
func (t *Tiles) multipliedRows(rows int) int {
	switch {
	case rows == 0:
		return 0
	case t.words:
		return (rows + 3) / 4 * 4
	case rows <= 8:
		return 8
	case rows <= 16:
		return 16
	}
	return tileRows
}

// clearRest clears the rows after the last one, as far as they are multiplied.
func (t *Tiles) clearRest() {
	block := t.rows / tileRows * tileRows
	for row := t.rows; row < block+t.multipliedRows(t.rows-block); row++ {
		limbs, factors := t.place(row)
		for i := 0; i < 3*t.k/t.step; i++ {
			clear(t.limbs[limbs+2*i*t.tileBytes():][:t.step])
		}
		for g := range t.k / t.codes.GroupSize {
			t.factors[factors+2*tileRows*g], t.factors[factors+2*tileRows*g+tileRows] = 0, 0
		}
	}
}

func (t *Tiles) tileBytes() int    { return 16 * t.step }
func (t *Tiles) blockBytes() int   { return 3 * tileRows * t.k }
func (t *Tiles) blockFactors() int { return 2 * tileRows * (t.k / t.codes.GroupSize) }

// place returns where the first limb and the first power of a row are.
func (t *Tiles) place(row int) (limb, factor int) {
	block, i := row/tileRows, row%tileRows
	return block*t.blockBytes() + i*t.step, block*t.blockFactors() + i
}

// Set sets row i. It returns false if the row has infinities or NaNs, or numbers so large
// that its products might be. Different rows may be set at the same time;
// all must be set before Multiply.
func (t *Tiles) Set(i int, x []float32) bool {
	if i+1 == t.rows { // and not in Reset, since others may have used the space since then
		t.clearRest()
	}
	limbs, factors := t.place(i)
	largest := t.split(limbs, factors, x[:t.k])
	if largest >= 0x7f800000 {
		return false
	}
	for g := range t.k / t.codes.GroupSize {
		if at := factors + 2*tileRows*g; !isWhole(t.factors[at], t.factors[at+tileRows]) {
			return false
		}
	}
	return true
}

// TileNumbers is how many float32 numbers TileCodes.Expand needs for k elements of 32 rows.
func TileNumbers(k int) int { return 8 * k }

// PanelNumbers is how many float32 numbers a panel of codes has for rows like those of t.
func (t *Tiles) PanelNumbers() int {
	if t.Packed() {
		return t.k / 8 * tileRows
	}
	return TileNumbers(t.k)
}

// SumSpace is how many float32 numbers Multiply needs as space for that many panels.
func SumSpace(panels int) int { return sumNumbers + tileRows*tileRows*panels }

// Expand makes tiles of 32 rows of a matrix from a panel of words, with k codes of 4 or 8 bits in each column.
// dst, of TileNumbers, begins at a multiple of 64 bytes. Rows of x that take words do not need these.
func (c TileCodes) Expand(dst, words []float32, k int) {
	step := min(c.GroupSize, 64)
	c.expand(unsafe.Slice((*byte)(unsafe.Pointer(&dst[0])), 32*k), words, k/step, step*c.Bits/32)
}

// Aligned returns s from the first multiple of 64 bytes on, which drops up to
// 15 numbers.
func Aligned(s []float32) []float32 {
	return s[-int(uintptr(unsafe.Pointer(unsafe.SliceData(s))))&63/4:]
}

// TilePanels are panels of 32 rows of a matrix, of PanelNumbers each: the tiles of their codes or, for rows of x
// that take words, their transposed words: of eight codes if these have 4 bits, else of four codes as bytes. Each panel has scales and biases with a row of 32 for each group.
type TilePanels struct {
	Count                 int
	Codes, Scales, Biases []float32
	// Next is what will be read after the products. It is prefetched meanwhile if x takes words.
	Next []byte
}

// Multiply sets c[(i-lo)·ldc+j] to the product of row i of x with row j of the
// panels, for lo <= i < hi and j < columns, which end in the last panel. lo is a
// multiple of 32, as is hi unless it is the end. space, of SumSpace numbers, begins at
// a multiple of 64 bytes.
func (t *Tiles) Multiply(c []float32, ldc, lo, hi, columns int, w *TilePanels, space []float32) {
	width := tileRows * w.Count
	sums, block := space[:sumNumbers], space[sumNumbers:SumSpace(w.Count)]
	next := w.Next
	for first := lo; first < hi; first += tileRows {
		rows := min(tileRows, hi-first)
		clear(block[:t.multipliedRows(rows)*width])
		t.product(block, first, rows, w, sums, next)
		next = nil
		for i := range rows {
			copy(c[(first-lo+i)*ldc:], block[i*width:i*width+columns])
		}
	}
}
