//go:build unix

package simd

import (
	"os"
	"sync"
	"syscall"
	"unsafe"
)

// guarded is memory for two arrays, each followed by a page that cannot be read.
var guarded = sync.OnceValues(func() (memory [2][]byte, err error) {
	page := os.Getpagesize()
	for i := range memory {
		if memory[i], err = syscall.Mmap(-1, 0, 2*page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE); err != nil {
			return memory, err
		}
		if err = syscall.Mprotect(memory[i][page:], syscall.PROT_NONE); err != nil {
			return memory, err
		}
		memory[i] = memory[i][:page]
	}
	return memory, nil
})

// atTheEnd returns a copy of numbers, up to a page of them, past which nothing can be read. Later copies of the same
// index overwrite it.
func atTheEnd(index int, numbers []uint16) []uint16 {
	memory, err := guarded()
	if err != nil {
		panic(err)
	}
	m := memory[index]
	copied := unsafe.Slice((*uint16)(unsafe.Pointer(&m[len(m)-2*len(numbers)])), len(numbers))
	copy(copied, numbers)
	return copied
}
