package simd

import "unsafe"

// Tiles are rows of x for products on AMX tiles, which multiply pairs of bfloat16
// numbers and add in float32. An element is the sum of three such numbers, its
// bits from the first on, eight at a time; codes of up to 8 bits are such numbers
// themselves. So the sums over a group are as exact as in float32.
type Tiles struct {
	rows, k, groupSize, ld int
	parts                  []uint16  // of part numbers each, rows ld apart
	part                   int       // multiple of 32 numbers, as are the rows
	sums                   []float32 // of the groups of each row
	memory                 []uint16
}

// HasTiles reports whether there are such products, for codes of these bits.
func HasTiles(bits int) bool { return active == AMX && (bits == 4 || bits == 8) }

// tileRows is how many rows of x, and of w, are multiplied at a time.
const tileRows = 32

// Reset sizes t for rows of x of k elements, in groups of 32, 64 or 128.
func (t *Tiles) Reset(rows, k, groupSize int) {
	t.rows, t.k, t.groupSize = rows, k, groupSize
	t.ld = k + 32 // not a multiple of a page
	padded := (rows + tileRows - 1) / tileRows * tileRows
	t.part = padded * t.ld
	if need := 3*t.part + 32; cap(t.memory) < need {
		t.memory = make([]uint16, need)
	}
	t.memory = t.memory[:cap(t.memory)]
	skip := -int(uintptr(unsafe.Pointer(unsafe.SliceData(t.memory)))) & 63 / 2
	t.parts = t.memory[skip : skip+3*t.part]
	groups := k / groupSize
	if cap(t.sums) < padded*groups {
		t.sums = make([]float32, padded*groups)
	}
	t.sums = t.sums[:padded*groups]
	clear(t.sums[rows*groups:])
	for part := range 3 {
		clear(t.parts[part*t.part+rows*t.ld : (part+1)*t.part])
	}
}

// Set sets row i. It returns false if the row has infinities or NaNs, or sums that
// are: its products would be NaN.
func (t *Tiles) Set(i int, x []float32) bool {
	groups := t.k / t.groupSize
	sums := t.sums[i*groups : (i+1)*groups]
	t.split(t.parts[i*t.ld:], x[:t.k], sums)
	for _, s := range sums {
		if s-s != 0 {
			return false
		}
	}
	return true
}

// TileNumbers is how many float32 numbers Expand needs for k elements of 32 rows.
func TileNumbers(k int) int { return 16 * k }

// TileSpace is how many float32 numbers Multiply needs as space for so many panels.
func TileSpace(panels int) int { return tileRows * tileRows * (1 + panels) }

// ExpandTiles makes tiles of 32 rows of a matrix from a panel of words with k codes
// of 4 or 8 bits in each column. dst, of TileNumbers, begins at a multiple of 64
// bytes.
func ExpandTiles(dst, codes []float32, k, bits int) {
	expandTiles(unsafe.Slice((*uint16)(unsafe.Pointer(&dst[0])), 32*k), codes, k/32, bits)
}

// Aligned returns s from the first multiple of 64 bytes on. It takes up to 15
// numbers off.
func Aligned(s []float32) []float32 {
	return s[-int(uintptr(unsafe.Pointer(unsafe.SliceData(s))))&63/4:]
}

// TilePanels are panels of 32 rows of a matrix: tiles of TileNumbers for each, and
// for each scales and biases with a row of 32 for each group.
type TilePanels struct {
	Count                 int
	Tiles, Scales, Biases []float32
}

// Multiply sets c[(i-lo)·ldc+j] to the product of row i of x with row j of the
// panels, for lo <= i < hi and j < columns, which end in the last panel. lo is a
// multiple of 32, as is hi unless it is the end.
func (t *Tiles) Multiply(c []float32, ldc, lo, hi, columns int, w *TilePanels, space []float32) {
	width := tileRows * w.Count
	sums, part := space[:tileRows*tileRows], space[tileRows*tileRows:TileSpace(w.Count)]
	for first := lo; first < hi; first += tileRows {
		rows := min(tileRows, hi-first)
		to, ld := c[(first-lo)*ldc:], ldc
		whole := rows == tileRows && columns == width
		if !whole {
			to, ld = part, width
		}
		for i := range tileRows {
			clear(to[i*ld : i*ld+width])
		}
		t.product(to, ld, first, w, sums)
		if !whole {
			for i := range rows {
				copy(c[(first-lo+i)*ldc:], part[i*width:i*width+columns])
			}
		}
	}
}
