package simd

import "math"

// control tells the assembly where the codes of a vector are. For "any" bits, a
// byte shuffle moves the bytes that hold code i to dword i, where a shift brings
// the code to the lowest bits. The assembly knows the offsets of the fields.
type control struct {
	shuffle [64]byte
	shifts  [16]uint32
	mask    uint32
}

// anyControls are indexed by bits. fourAVX2 is for 8 codes of 4 bits in a dword;
// fourAVX512 is for 16 in a qword that fills every pair of lanes, with the numbers
// 0 to 15 in place of the shuffle.
var (
	anyControls          = [9]control{2: anyControl(2), 3: anyControl(3), 4: anyControl(4), 5: anyControl(5), 6: anyControl(6), 8: anyControl(8)}
	fourAVX2, fourAVX512 = fourControls()
)

func anyControl(bits int) control {
	c := control{mask: 1<<bits - 1}
	for lane := range 16 {
		bit := lane * bits
		c.shifts[lane] = uint32(bit % 8)
		out := c.shuffle[4*lane:]
		for i := range 4 {
			out[i] = 0x80 // zero
		}
		out[0] = byte(bit / 8)
		if bit%8+bits > 8 {
			out[1] = byte(bit/8 + 1)
		}
	}
	return c
}

func fourControls() (narrow, wide control) {
	narrow.mask = 15
	for lane := range 16 {
		narrow.shifts[lane] = uint32(4 * (lane % 8))
		wide.shifts[lane] = uint32(4 * (lane / 2))
		bits := math.Float32bits(float32(lane))
		for i := range 4 {
			wide.shuffle[4*lane+i] = byte(bits >> (8 * i))
		}
	}
	return narrow, wide
}

// tables reports whether 16 numbers are looked up at once, for which the elements
// of x are paired: lane 2i has element i, lane 2i+1 element 8+i.
func tables(bits int) bool { return active >= AVX512 && bits == 4 }

func prepareVector(r Row, x []float32, groupSize, bits int) bool {
	if active == Generic || len(x) == 0 {
		return false
	}
	if !tables(bits) {
		copy(r.values, x)
		prepareSumsAVX2(&r.sums[0], &x[0], len(x)/groupSize, groupSize/8)
		return true
	}
	for i := 0; i < len(x); i += 16 {
		in, out := x[i:i+16], r.values[i:i+16]
		for k := range 8 {
			out[2*k], out[2*k+1] = in[k], in[8+k]
		}
	}
	return true
}

func quantDotsVector(out []float32, w *Weights, x Row, rows int) bool {
	if active == Generic || w.Groups == 0 {
		return false
	}
	safe := rows
	if w.Bits != 4 && w.Bits != 8 {
		safe = w.readable(rows)
	}
	fours := safe &^ 3
	if fours > 0 {
		quantDotsRows(out[:fours], w, x, 0, fours/4, true)
	}
	if safe > fours {
		quantDotsRows(out[fours:safe], w, x, fours, safe-fours, false)
	}
	for i := safe; i < rows; i++ {
		last := w.padded(i)
		quantDotsRows(out[i:i+1], &last, x, 0, 1, false)
	}
	return true
}

// readable returns how many of the rows the vector forms can read: they read a
// little further than the codes reach.
func (w *Weights) readable(rows int) int {
	spare := len(w.Codes) - w.rowCodes() - pad
	switch {
	case spare < 0:
		return 0
	case w.RowBytes == 0:
		return rows
	}
	return min(rows, spare/w.RowBytes+1)
}

// pad is how many bytes a vector form may read past the codes of a row.
const pad = 16

// rowCodes returns the bytes of one row's codes.
func (w *Weights) rowCodes() int { return w.Groups * w.GroupSize / 8 * w.Bits }

// padded returns row i, copied to where more can be read.
func (w *Weights) padded(i int) Weights {
	codes := make([]byte, w.rowCodes()+pad)
	copy(codes, w.Codes[i*w.RowBytes:])
	row := *w
	row.Codes, row.RowBytes = codes, len(codes)
	row.Scales, row.Biases = w.Scales[i*w.Stride:], w.Biases[i*w.Stride:]
	return row
}

// quantDotsRows runs count blocks, of four rows or of one, from a row on.
func quantDotsRows(out []float32, w *Weights, x Row, row, count int, four bool) {
	codes := w.Codes[row*w.RowBytes:]
	rows := len(out)
	_ = codes[(rows-1)*w.RowBytes+w.rowCodes()-1]
	scales := w.Scales[row*w.Stride:][:(rows-1)*w.Stride+w.Groups]
	biases := w.Biases[row*w.Stride:][:(rows-1)*w.Stride+w.Groups]
	f, c, step, lanes := w.kernel(four)
	f(&out[0], &codes[0], w.RowBytes, &scales[0], &biases[0], &x.values[0], &x.sums[0], count, w.Groups, w.Stride, w.GroupSize/lanes, c, step)
}

type quantDotsFunc func(out *float32, codes *byte, rowBytes int, scales, biases, x, sums *float32, count, groups, stride, vectors int, control *byte, step int)

// kernel returns the function for the weights' bits, its control block, and the
// bytes and number of the codes of a vector.
func (w *Weights) kernel(four bool) (f quantDotsFunc, c *byte, step, lanes int) {
	lanes, anyBits := 8, &anyControls[w.Bits]
	forms := &quantDotsForms[0]
	four4 := &fourAVX2
	if active >= AVX512 {
		lanes, forms, four4 = 16, &quantDotsForms[1], &fourAVX512
	}
	column := 0
	if four {
		column = 1
	}
	step = lanes * w.Bits / 8
	switch w.Bits {
	case 4:
		return forms[0][column], &four4.shuffle[0], step, lanes
	case 8:
		return forms[1][column], &anyBits.shuffle[0], step, lanes
	}
	return forms[2][column], &anyBits.shuffle[0], step, lanes
}

// quantDotsForms are indexed by instruction set, bits (4, 8, any) and rows (1, 4).
var quantDotsForms = [2][3][2]quantDotsFunc{
	{{quantDots4_1AVX2, quantDots4_4AVX2}, {quantDots8_1AVX2, quantDots8_4AVX2}, {quantDotsany_1AVX2, quantDotsany_4AVX2}},
	{{quantDots4_1AVX512, quantDots4_4AVX512}, {quantDots8_1AVX512, quantDots8_4AVX512}, {quantDotsany_1AVX512, quantDotsany_4AVX512}},
}

func dequantizeVector(dst []float32, ld int, w *Weights, rows int) bool {
	if active == Generic || w.Groups == 0 {
		return false
	}
	safe := w.readable(rows)
	for i := range rows {
		row, at := *w, i
		if i >= safe {
			row, at = w.padded(i), 0
		}
		dequantizeRow(dst[i*ld:i*ld+w.Groups*w.GroupSize], &row, at)
	}
	return true
}

func dequantizeRow(dst []float32, w *Weights, row int) {
	codes := w.Codes[row*w.RowBytes:]
	_ = codes[w.rowCodes()-1]
	scales, biases := w.Scales[row*w.Stride:][:w.Groups], w.Biases[row*w.Stride:][:w.Groups]
	c := &anyControls[w.Bits].shuffle[0]
	if active >= AVX512 {
		dequantizeAVX512(&dst[0], &codes[0], &scales[0], &biases[0], w.Groups, w.GroupSize/16, c, 2*w.Bits)
		return
	}
	dequantizeAVX2(&dst[0], &codes[0], &scales[0], &biases[0], w.Groups, w.GroupSize/8, c, w.Bits)
}
