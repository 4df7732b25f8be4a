package simd

import (
	"runtime"
	"syscall"
	"unsafe"
)

// tileConfig says that every tile has 16 rows of 64 bytes.
var tileConfig = func() (c [64]byte) {
	c[0] = 1 // palette
	for tile := range 8 {
		c[16+2*tile] = 64
		c[48+tile] = 16
	}
	return c
}()

// codeTable has the codes of 4 bits as bfloat16 numbers, twice.
var codeTable = [32]uint16{
	0, 0x3f80, 0x4000, 0x4040, 0x4080, 0x40a0, 0x40c0, 0x40e0, 0x4100, 0x4110, 0x4120, 0x4130, 0x4140, 0x4150, 0x4160, 0x4170,
	0, 0x3f80, 0x4000, 0x4040, 0x4080, 0x40a0, 0x40c0, 0x40e0, 0x4100, 0x4110, 0x4120, 0x4130, 0x4140, 0x4150, 0x4160, 0x4170,
}

// allowTiles asks Linux for the use of tiles, which have a large state that it
// would otherwise not save.
func allowTiles() bool {
	const archReqXCompPerm, tileData = 0x1023, 18
	if runtime.GOOS != "linux" {
		return false
	}
	_, _, errno := syscall.RawSyscall(158, archReqXCompPerm, tileData, 0) // arch_prctl
	return errno == 0
}

func (t *Tiles) split(dst []uint16, x []float32, sums []float32) {
	_, _, _ = dst[2*t.part+t.k-1], x[t.k-1], sums[t.k/t.groupSize-1]
	splitPartsAVX512(&dst[0], 2*t.part, &x[0], &sums[0], t.k/t.groupSize, t.groupSize/16)
}

func expandTiles(dst []uint16, codes []float32, steps, bits int) {
	_, _ = dst[1024*steps-1], codes[32*bits*steps-1]
	if bits == 4 {
		amxExpand4(&dst[0], &codes[0], steps, &codeTable[0])
		return
	}
	amxExpand8(&dst[0], &codes[0], steps, &codeTable[0])
}

// product adds the products of 32 rows from first on to c.
func (t *Tiles) product(c []float32, ldc, first int, w *TilePanels, space []float32) {
	groups := t.k / t.groupSize
	_, _, _ = c[31*ldc+32*w.Count-1], t.parts[2*t.part+(first+31)*t.ld+t.k-1], t.sums[(first+32)*groups-1]
	_, _, _, _ = w.Tiles[TileNumbers(t.k)*w.Count-1], w.Scales[32*groups*w.Count-1], w.Biases[32*groups*w.Count-1], space[tileRows*tileRows-1]
	b := (*uint16)(unsafe.Pointer(&w.Tiles[0]))
	amxProduct(&c[0], 4*ldc, &t.parts[first*t.ld], 2*t.ld, 2*t.part, b, &w.Scales[0], &w.Biases[0], &t.sums[first*groups], 4*groups, groups, t.groupSize/32, &space[0], &tileConfig[0],
		w.Count, 4*TileNumbers(t.k), 128*groups)
}
