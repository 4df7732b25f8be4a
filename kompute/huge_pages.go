package kompute

import (
	"unsafe"

	"github.com/kompute-go/kompute-go/internal/array"
)

const hugePage = 2 << 20

// alignedBytes returns zeroed memory aligned for every element type, in huge pages as far as it fills them.
func alignedBytes(n int) []byte {
	if n < hugePage || !hasHugePages() {
		return array.NewBytes(n)
	}
	memory, _ := hugeBytes(n)
	return memory
}

// hugeBytes returns zeroed memory that begins at a huge page, where hasHugePages reports that there are any. It also
// reports whether the system gives it some.
func hugeBytes(n int) (memory []byte, huge bool) {
	memory = array.NewBytes(n + hugePage)
	first := int(-uintptr(unsafe.Pointer(unsafe.SliceData(memory))) % hugePage)
	memory = memory[first:][:n:n]
	return memory, adviseHugePages(memory[:n/hugePage*hugePage])
}
