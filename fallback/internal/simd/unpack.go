package simd

// Table replaces codes of 4 bits by numbers.
type Table [16]byte

// UnpackCodes writes len(dst) codes of some bits, a multiple of 32, as bytes. With
// a table, which needs 4 bits, it writes the table's numbers.
func UnpackCodes(dst, codes []byte, bits int, table *Table) {
	done := unpackVector(dst, codes, bits, table)
	codes = codes[done/8*bits:]
	mask := uint64(1)<<bits - 1
	for i := done; i+8 <= len(dst); i += 8 {
		var stream uint64 // 8 codes take as many bytes as a code has bits
		for j := bits - 1; j >= 0; j-- {
			stream = stream<<8 | uint64(codes[j])
		}
		codes = codes[bits:]
		out := dst[i : i+8]
		for j := range out {
			out[j] = byte(stream & mask)
			if table != nil {
				out[j] = table[out[j]]
			}
			stream >>= bits
		}
	}
}
