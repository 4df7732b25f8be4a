package simd

import "encoding/binary"

// unpackControl tells the assembly, which knows these offsets, where the codes
// are. AVX-512: for each byte, which byte of the codes of a vector to take (64);
// by how many bits to shift it (64); the mask of a code, four times; the table,
// from 144. AVX2: which two bytes hold a code (32); a power of two that brings it
// to the top of 16 bits (32); the shift back (8); the table, from 72.
type unpackControl struct {
	wide   [160]byte
	narrow [96]byte
}

var unpackControls = [9]unpackControl{2: newUnpackControl(2), 3: newUnpackControl(3), 4: newUnpackControl(4), 5: newUnpackControl(5), 6: newUnpackControl(6), 8: newUnpackControl(8)}

func newUnpackControl(bits int) (c unpackControl) {
	for i := range 64 {
		c.wide[i] = byte(min(i/8*bits+i%8, 63))
		c.wide[64+i] = byte(i % 8 * bits)
	}
	for i := range 4 {
		c.wide[128+i] = byte(1<<bits - 1)
	}
	for i := range 16 {
		first := i * bits / 8
		c.narrow[2*i], c.narrow[2*i+1] = byte(first), byte(min(first+1, 15))
		binary.LittleEndian.PutUint16(c.narrow[32+2*i:], 1<<(16-bits-i*bits%8))
	}
	c.narrow[64] = byte(16 - bits)
	return c
}

// unpackVector unpacks the first codes, and returns how many.
func unpackVector(dst, codes []byte, bits int, table *Table) int {
	if active == Generic {
		return 0
	}
	control := unpackControls[bits]
	if active >= VBMI {
		count := len(dst) / 64
		if count == 0 {
			return 0
		}
		_ = codes[count*8*bits-1]
		if table == nil {
			unpackCodesVBMI(&dst[0], &codes[0], count, 8*bits, &control.wide[0])
			return count * 64
		}
		copy(control.wide[144:], table[:])
		unpackTableVBMI(&dst[0], &codes[0], count, 8*bits, &control.wide[0])
		return count * 64
	}
	// Vectors of 16 bytes are read even if there are fewer codes, so not at the very end.
	count := min(len(dst)/32, (len(codes)-16)/(4*bits))
	if count <= 0 {
		return 0
	}
	if table == nil {
		unpackCodesAVX2(&dst[0], &codes[0], count, 2*bits, &control.narrow[0])
		return count * 32
	}
	copy(control.narrow[72:], table[:])
	unpackTableAVX2(&dst[0], &codes[0], count, 2*bits, &control.narrow[0])
	return count * 32
}
