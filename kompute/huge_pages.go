package kompute

import "unsafe"

const hugePage = 2 << 20

// alignedBytes returns zeroed memory aligned for every element type. What is as large as a huge page
// begins at one.
func alignedBytes(n int) []byte {
	if n < hugePage || !hasHugePages() {
		return wordBytes(n)
	}
	memory := wordBytes(n + hugePage)
	first := int(-uintptr(unsafe.Pointer(unsafe.SliceData(memory))) % hugePage)
	memory = memory[first:][:n:n]
	adviseHugePages(memory[:n/hugePage*hugePage])
	return memory
}

// wordBytes returns zeroed memory aligned for every element type.
func wordBytes(n int) []byte {
	if n == 0 {
		return nil
	}
	words := make([]uint64, (n+7)/8)
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), len(words)*8)[:n:n]
}
