package simd

// control tells the assembly where the codes of a vector are: a byte shuffle moves
// the bytes that hold code i to dword i, where a shift brings the code to the
// lowest bits. The assembly knows the offsets of the fields.
type control struct {
	shuffle [64]byte
	shifts  [16]uint32
	mask    uint32
}

// controls are indexed by bits.
var controls = [9]control{2: newControl(2), 3: newControl(3), 4: newControl(4), 5: newControl(5), 6: newControl(6), 8: newControl(8)}

func newControl(bits int) control {
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
	c := &controls[w.Bits].shuffle[0]
	if active >= AVX512 {
		dequantizeAVX512(&dst[0], &codes[0], &scales[0], &biases[0], w.Groups, w.GroupSize/16, c, 2*w.Bits)
		return
	}
	dequantizeAVX2(&dst[0], &codes[0], &scales[0], &biases[0], w.Groups, w.GroupSize/8, c, w.Bits)
}
