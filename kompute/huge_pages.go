package kompute

import "unsafe"

const hugePage = 2 << 20

// alignedBytes returns zeroed memory aligned for every element type, in huge pages as far as it fills them.
func alignedBytes(n int) []byte {
	if n < hugePage || !hasHugePages() {
		return wordBytes(n)
	}
	memory, _ := hugeBytes(n)
	return memory
}

// hugeBytes returns zeroed memory that begins at a huge page, where hasHugePages reports that there are any. It also
// reports whether the system gives it some.
func hugeBytes(n int) (memory []byte, huge bool) {
	memory = wordBytes(n + hugePage)
	first := int(-uintptr(unsafe.Pointer(unsafe.SliceData(memory))) % hugePage)
	memory = memory[first:][:n:n]
	return memory, adviseHugePages(memory[:n/hugePage*hugePage])
}

// wordBytes returns zeroed memory aligned for every element type.
func wordBytes(n int) []byte {
	if n == 0 {
		return nil
	}
	words := make([]uint64, (n+7)/8)
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), len(words)*8)[:n:n]
}
