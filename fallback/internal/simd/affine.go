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

// unpack converts len(dst) codes, a multiple of 8, to bytes.
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
