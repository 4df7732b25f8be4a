package kompute

import (
	"math/bits"
	"sync"
	"unsafe"
)

// poolLimit bounds the bytes that a pool keeps for later.
const poolLimit = 256 << 20

// hostPool keeps freed host memory for the next storage of about that size, so
// that a decode loop neither clears nor collects its intermediate tensors.
type hostPool struct {
	mu    sync.Mutex
	free  map[int][][]byte // by capacity, which is a size class
	bytes int
}

// sizeClass rounds n up to one of four steps between powers of two.
func sizeClass(n int) int {
	if n <= 64 {
		return 64
	}
	step := 1 << max(bits.Len(uint(n-1))-3, 0)
	return (n + step - 1) &^ (step - 1)
}

// get returns n bytes with any content, aligned for every element type.
func (p *hostPool) get(n int) []byte {
	if n == 0 {
		return nil
	}
	class := sizeClass(n)
	p.mu.Lock()
	if l := p.free[class]; len(l) > 0 {
		mem := l[len(l)-1]
		l[len(l)-1] = nil
		p.free[class] = l[:len(l)-1]
		p.bytes -= class
		p.mu.Unlock()
		return mem[:n]
	}
	p.mu.Unlock()
	return alignedBytes(class)[:n]
}

// put takes back what get returned, and drops other memory.
func (p *hostPool) put(mem []byte) {
	class := cap(mem)
	if class == 0 || class != sizeClass(class) {
		return // it was not made here
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bytes+class > poolLimit {
		return
	}
	if p.free == nil {
		p.free = make(map[int][][]byte)
	}
	p.free[class] = append(p.free[class], mem[:0])
	p.bytes += class
}

// clear forgets everything.
func (p *hostPool) clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free, p.bytes = nil, 0
}

// alignedBytes returns zeroed memory that any element type may be read from.
func alignedBytes(n int) []byte {
	if n == 0 {
		return nil
	}
	words := make([]uint64, (n+7)/8)
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), len(words)*8)[:n:n]
}
