package simd

import "encoding/binary"

// unpackControl tells the assembly, which knows these offsets, where the codes of a
// vector are: which two bytes hold each (32); by how many bits to shift these to the
// left (32), which is less than 0; the mask of a code (16); the table.
type unpackControl [96]byte

var unpackControls = [9]unpackControl{2: newUnpackControl(2), 3: newUnpackControl(3), 4: newUnpackControl(4), 5: newUnpackControl(5), 6: newUnpackControl(6), 8: newUnpackControl(8)}

func newUnpackControl(bits int) (c unpackControl) {
	for i := range 16 {
		first := i * bits / 8
		c[2*i], c[2*i+1] = byte(first), byte(min(first+1, 15))
		binary.LittleEndian.PutUint16(c[32+2*i:], uint16(-(i * bits % 8)))
		c[64+i] = byte(1<<bits - 1)
	}
	return c
}

// unpackVector unpacks the first codes, and returns how many.
func unpackVector(dst, codes []byte, bits int, table *Table) int {
	// Vectors of 16 bytes are read even if there are fewer codes, so not at the very end.
	count := min(len(dst)/16, (len(codes)-16)/(2*bits))
	if active == Generic || count <= 0 {
		return 0
	}
	control := unpackControls[bits]
	unpack := unpackCodesNEON
	if table != nil {
		unpack = unpackTableNEON
		copy(control[80:], table[:])
	}
	unpack(&dst[0], &codes[0], count, 2*bits, &control[0])
	return count * 16
}
