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

// TileSpace is how many float32 numbers Multiply needs as space for k elements.
func (t *Tiles) TileSpace() int { return 32*t.k/2 + 1024 + 2*tileRows*tileRows + 48 }

// Multiply sets c[i·ldc+j] to the product of row i of x with row j of a matrix, for
// j < 32. The matrix has a panel of words with codes of 4 or 8 bits, and panels
// of scales and biases, as in ExpandPanel.
func (t *Tiles) Multiply(c []float32, ldc int, codes, scales, biases []float32, bits int, space []float32) {
	skip := -int(uintptr(unsafe.Pointer(unsafe.SliceData(space)))) & 63 / 4
	space = space[skip:]
	b, sums, part := space[:16*t.k], space[16*t.k:16*t.k+1024], space[16*t.k+1024:16*t.k+2048]
	tiles := unsafe.Slice((*uint16)(unsafe.Pointer(&b[0])), 32*t.k)
	expandTiles(tiles, codes, t.k/32, bits)
	groups := t.k / t.groupSize
	for first := 0; first < t.rows; first += tileRows {
		rows := min(tileRows, t.rows-first)
		to, ld := c[first*ldc:], ldc
		if rows < tileRows {
			to, ld = part, tileRows
		}
		for i := range tileRows {
			clear(to[i*ld : i*ld+tileRows])
		}
		t.product(to, ld, first, tiles, scales, biases, groups, sums)
		if rows < tileRows {
			for i := range rows {
				copy(c[(first+i)*ldc:], part[i*tileRows:(i+1)*tileRows])
			}
		}
	}
}
