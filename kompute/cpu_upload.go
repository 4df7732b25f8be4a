package kompute

import (
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/kompute-go/kompute-go/internal/workers"
)

// On the CPU backend, Upload copies wrapped memory, which is mostly a mapped file in pages of
// 4 KiB, into huge pages. With small ones, processors spend a part of the time of a product of
// one row looking up addresses: docs/performance/cpu-kernels.md has the measurements.

// cpuUploads holds a device's copies of wrapped memory. They lie one after another in blocks, since
// most weights are smaller than a huge page. The garbage collector frees a block once all of its
// tensors are closed.
type cpuUploads struct {
	mu    sync.Mutex
	free  []byte        // the rest of the last block
	taken *atomic.Int64 // bytes of all blocks that have not been freed; a pointer, since blocks must not refer to cpuUploads
	moved uint64        // counts the tensors of regions that have got a copy; dev.mu guards it
}

func newCPUUploads() *cpuUploads { return &cpuUploads{taken: new(atomic.Int64)} }

const (
	mostHugeBlock   = 64 << 20 // unless one tensor needs more
	uploadAlignment = 64       // a line of the processor's cache
)

// upload implements queue. Memory that cannot be read makes the error.
func (q *cpuQueue) upload(st *storage) error {
	d := st.dev
	d.mu.Lock()
	from, skip := st.cpu.host, !st.readOnly || st.cpu.uploaded || st.bytes == 0
	st.cpu.uploaded = true
	d.mu.Unlock()
	if skip {
		return nil
	}
	uploads := d.backend.(cpuBackend).uploads
	to := uploads.take(len(from))
	if to == nil {
		return nil
	}
	err := copyTouching(to, from)
	d.mu.Lock()
	defer d.mu.Unlock()
	if err != nil {
		st.cpu.uploaded = false
		return err
	}
	st.cpu.host = to // work that has begun goes on with the same bytes elsewhere
	if st.regions > 0 {
		uploads.moved++
	}
	return nil
}

// copyTouching copies memory that perhaps cannot be read, in pieces at the same time: most of the time
// goes into new pages.
func copyTouching(to, from []byte) error {
	const piece, cost = hugePage, 1e6 // nanoseconds
	var first atomic.Pointer[error]
	workers.For((len(from)+piece-1)/piece, cost, func(lo, hi int) {
		end := min(hi*piece, len(from))
		if err := touching(func() { copy(to[lo*piece:end], from[lo*piece:end]) }); err != nil {
			first.CompareAndSwap(nil, &err)
		}
	})
	if err := first.Load(); err != nil {
		return *err
	}
	return nil
}

// take returns n bytes of huge pages, or nil if the system has none, or if uploads would
// have more than half of the memory that is available without them.
func (u *cpuUploads) take(n int) []byte {
	u.mu.Lock()
	defer u.mu.Unlock()
	size := (n + uploadAlignment - 1) &^ (uploadAlignment - 1)
	if size > len(u.free) && !u.grow(size) {
		return nil
	}
	out := u.free[:n:n]
	u.free = u.free[size:]
	return out
}

// grow begins a block of at least that many bytes, if there is memory for it. Blocks double, so that a
// small model does not take a large one.
func (u *cpuUploads) grow(least int) bool {
	taken := u.taken.Load()
	size := max(least, int(min(taken, mostHugeBlock)))
	size = (size + hugePage - 1) / hugePage * hugePage
	_, available := hostMemorySize()
	if taken+int64(size) > (available+taken)/2 || !hasHugePages() {
		return false
	}
	block, huge := hugeBytes(size)
	if !huge {
		return false
	}
	u.free = block
	u.taken.Add(int64(size))
	counter := u.taken
	runtime.AddCleanup(unsafe.SliceData(block), func(size int64) { counter.Add(-size) }, int64(size))
	return true
}
