package kompute

import (
	"math/bits"
	"sync"
	"unsafe"
)

// Results of ops reuse memory that earlier ones have freed: new memory must be
// zeroed, and the system hands it out page by page, which took a third of a
// prompt's time. Blocks are kept by size; the garbage collector drops those that
// stay unused for two cycles.

// leastRecycled is the smallest size, in bytes, of blocks that are kept.
const leastRecycled = 1 << 16

// freed holds blocks by size class, four classes to each power of two.
var freed [4 * 64]sync.Pool

// classOf returns the smallest class for n bytes, and its size.
func classOf(n int) (class, size int) {
	step := 1 << (bits.Len(uint(n-1)) - 3) // an eighth of the power of two from n on
	size = (n + step - 1) / step * step
	return 4*bits.Len(uint(size-1)) + (size-1)/step - 4, size
}

// recycledBytes returns n bytes of any value, aligned for every element type.
func recycledBytes(n int) []byte {
	if n < leastRecycled {
		return alignedBytes(n)
	}
	class, size := classOf(n)
	if p, ok := freed[class].Get().(*byte); ok {
		return unsafe.Slice(p, size)[:n:n]
	}
	return alignedBytes(size)[:n:n]
}

// recycle takes back memory from recycledBytes that is no longer used.
func recycle(b []byte) {
	if len(b) >= leastRecycled {
		class, _ := classOf(len(b))
		freed[class].Put(unsafe.SliceData(b))
	}
}
