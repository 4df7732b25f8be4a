package simd

// Weights are rows of affine-quantized numbers: a little-endian bit stream of
// codes per row, and a scale and a bias per group of codes, both as float32.
type Weights struct {
	// Codes holds the rows, RowBytes apart.
	Codes    []byte
	RowBytes int
	// Scales and Biases hold Groups numbers per row, rows Stride apart.
	Scales, Biases []float32
	Groups, Stride int
	GroupSize      int // a multiple of 32
	Bits           int // 2, 3, 4, 5, 6 or 8
}

// Row is a float32 row prepared as a factor of quantized products.
type Row struct {
	values []float32 // in the order the kernel wants
	sums   []float32 // AVX2: per group, 8 numbers that add up to the group's sum
}

// RowSpace returns how many float32 numbers PrepareRow needs for k elements.
func RowSpace(k, groupSize int) int { return k + 8*(k/groupSize) }

// PrepareRow arranges x, whose length is a multiple of groupSize, for QuantDots
// with weights of these bits. The Row lives in space, of RowSpace numbers.
func PrepareRow(space, x []float32, groupSize, bits int) Row {
	r := Row{values: space[:len(x)], sums: space[len(x):RowSpace(len(x), groupSize)]}
	if !prepareVector(r, x, groupSize, bits) {
		copy(r.values, x)
	}
	return r
}

// QuantDots sets out[i] to the product of row i of w with x, for i < rows.
func QuantDots(out []float32, w *Weights, x Row, rows int) {
	if rows <= 0 || quantDotsVector(out, w, x, rows) {
		return
	}
	var group [128]float32
	for i := range rows {
		codes := w.Codes[i*w.RowBytes:]
		var sum float32
		for g := range w.Groups {
			unpack(group[:w.GroupSize], codes[g*w.GroupSize/8*w.Bits:], w.Bits)
			xs := x.values[g*w.GroupSize : (g+1)*w.GroupSize]
			var total float32
			for _, v := range xs {
				total += v
			}
			sum += w.Scales[i*w.Stride+g]*dotGo(group[:w.GroupSize], xs) + w.Biases[i*w.Stride+g]*total
		}
		out[i] = sum
	}
}

// Dequantize writes scale·code + bias for the groups of rows [0, rows); row i
// goes to dst[i·ld:].
func Dequantize(dst []float32, ld int, w *Weights, rows int) {
	if rows <= 0 || dequantizeVector(dst, ld, w, rows) {
		return
	}
	for i := range rows {
		codes := w.Codes[i*w.RowBytes:]
		for g := range w.Groups {
			at := i*ld + g*w.GroupSize
			out := dst[at : at+w.GroupSize]
			unpack(out, codes[g*w.GroupSize/8*w.Bits:], w.Bits)
			scale, bias := w.Scales[i*w.Stride+g], w.Biases[i*w.Stride+g]
			for j, q := range out {
				out[j] = scale*q + bias
			}
		}
	}
}

// unpack widens len(dst) codes, a multiple of 8.
func unpack(dst []float32, codes []byte, bits int) {
	switch bits {
	case 4:
		for i, c := range codes[:len(dst)/2] {
			dst[2*i] = float32(c & 15)
			dst[2*i+1] = float32(c >> 4)
		}
	case 8:
		for i, c := range codes[:len(dst)] {
			dst[i] = float32(c)
		}
	default:
		mask := uint64(1)<<bits - 1
		for i := 0; i+8 <= len(dst); i += 8 {
			var stream uint64 // 8 codes take as many bytes as a code has bits
			for j := bits - 1; j >= 0; j-- {
				stream = stream<<8 | uint64(codes[j])
			}
			codes = codes[bits:]
			out := dst[i : i+8]
			for j := range out {
				out[j] = float32(stream & mask)
				stream >>= bits
			}
		}
	}
}
