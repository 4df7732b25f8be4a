package faulttest

import (
	"bytes"
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"github.com/edsrzf/mmap-go"
)

// The layout of csrc/tests/faults/control.hpp.
type (
	header struct {
		magic, version, functions, _ uint32
		function                     atomic.Int64
		from, times                  atomic.Uint64
		result                       atomic.Int64
		failed, hangs                atomic.Uint64
		lie                          [64]byte
		lies                         atomic.Uint64
	}
	counted struct {
		name          [64]byte
		returnsResult uint32
		_             uint32
		calls         atomic.Uint64
	}
)

const (
	controlMagic   = 0x4b504654
	controlVersion = 3
)

// Control tells the fault loader of this process which call to make fail, and
// reads how often each function was called. Only one goroutine may use it; the
// calls that it counts may come from any.
type Control struct {
	memory mmap.MMap
	header *header
	rows   []counted
	index  map[string]int
}

// OpenControl maps the file that the fault loader made when Vulkan was opened.
func OpenControl(path string) (*Control, error) {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("the fault loader made no control file: %w", err)
	}
	defer func() { _ = file.Close() }()
	memory, err := mmap.Map(file, mmap.RDWR, 0)
	if err != nil {
		return nil, err
	}
	c := &Control{memory: memory, index: make(map[string]int)}
	if len(memory) < int(unsafe.Sizeof(header{})) {
		return nil, fmt.Errorf("a control file of %d bytes", len(memory))
	}
	c.header = (*header)(unsafe.Pointer(unsafe.SliceData(memory)))
	if c.header.magic != controlMagic || c.header.version != controlVersion {
		return nil, fmt.Errorf("the fault loader's control file has another layout: build it again")
	}
	n := int(c.header.functions)
	if want := int(unsafe.Sizeof(header{})) + n*int(unsafe.Sizeof(counted{})); len(memory) != want {
		return nil, fmt.Errorf("a control file of %d bytes, not %d", len(memory), want)
	}
	c.rows = unsafe.Slice((*counted)(unsafe.Add(unsafe.Pointer(c.header), unsafe.Sizeof(header{}))), n)
	for i := range c.rows {
		c.index[c.rows[i].text()] = i
	}
	return c, nil
}

func (r *counted) text() string {
	name, _, _ := bytes.Cut(r.name[:], []byte{0})
	return string(name)
}

// Close unmaps the file.
func (c *Control) Close() error { return c.memory.Unmap() }

// Reset counts every function's calls from 0.
func (c *Control) Reset() {
	c.Disarm()
	for i := range c.rows {
		c.rows[i].calls.Store(0)
	}
	c.header.failed.Store(0)
}

// Fail resets the counts and makes calls of function return result, a VkResult,
// without being made: times of them, from the call number from on, counted from
// 1. It panics for a function that returns no VkResult.
func (c *Control) Fail(function string, from, times uint64, result int32) {
	i, known := c.index[function]
	if !known || c.rows[i].returnsResult == 0 {
		panic("faulttest: " + function + " returns no VkResult")
	}
	c.Reset()
	c.header.from.Store(from)
	c.header.times.Store(times)
	c.header.result.Store(int64(result))
	c.header.function.Store(int64(i))
}

// Disarm lets every call through.
func (c *Control) Disarm() { c.header.function.Store(-1) }

// Hang makes the device hang from now on, or stops that. While it hangs, it accepts
// work that it never does, and waits for an idle queue or device do not return.
func (c *Control) Hang(hangs bool) {
	if hangs {
		c.header.hangs.Store(1)
	} else {
		c.header.hangs.Store(0)
	}
}

// Lie makes the driver give a false answer from now on, by its name in
// csrc/tests/faults/lies.hpp, or none if name is empty. No call may be under way.
func (c *Control) Lie(name string) {
	c.header.lies.Store(0)
	clear(c.header.lie[:])
	copy(c.header.lie[:], name)
}

// Lies returns how many false answers were given since the last Lie.
func (c *Control) Lies() uint64 { return c.header.lies.Load() }

// Called returns how often a function was called since the last Fail or Reset.
func (c *Control) Called(function string) uint64 { return c.rows[c.index[function]].calls.Load() }

// Failed returns how many calls were made to fail since the last Fail or Reset.
func (c *Control) Failed() uint64 { return c.header.failed.Load() }

// Calls returns how often each function that can fail was called since the last
// Fail or Reset; those that were not called are missing.
func (c *Control) Calls() map[string]uint64 {
	out := make(map[string]uint64)
	for i := range c.rows {
		if n := c.rows[i].calls.Load(); n > 0 && c.rows[i].returnsResult != 0 {
			out[c.rows[i].text()] = n
		}
	}
	return out
}
