package kompute

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"
	"unsafe"

	"github.com/kompute-go/kompute-go/fallback"
)

// cpuBackend keeps all storage in host memory and runs ops through Op.CPU.
type cpuBackend struct {
	uploads *cpuUploads
}

func openCPU(o options) *Device {
	info := cpuInfo()
	d := newDevice(info, o)
	d.backend = cpuBackend{uploads: newCPUUploads()}
	d.clock = clock{time.Now(), processClock()}
	if d.budget == 0 || info.MemoryTotal > 0 && d.budget > info.MemoryTotal {
		// Go would end the process at larger allocations.
		d.budget = info.MemoryTotal
	}
	return d
}

// onCPU reports whether d is a device of the CPU backend.
func (d *Device) onCPU() bool {
	_, is := d.backend.(cpuBackend)
	return is
}

func (cpuBackend) newQueue(s *Stream) (queue, error) {
	q := &cpuQueue{s: s}
	q.working = q.work
	return q, nil
}

// wrap implements backend. Memory that is not aligned for its elements is copied.
func (cpuBackend) wrap(st *storage, data []byte) error {
	st.cpu.host = data
	if uintptr(unsafe.Pointer(unsafe.SliceData(data)))%maxAlign != 0 {
		st.cpu.host = alignedBytes(len(data))
		return touching(func() { copy(st.cpu.host, data) })
	}
	return nil
}

// maxAlign is an alignment in bytes that suits every element type.
const maxAlign = 4

func (cpuBackend) giveMapped(st *storage) error {
	st.cpu.host = alignedBytes(st.bytes)
	st.shared = &sharedMemory{mapped: st.cpu.host}
	return nil
}

func (cpuBackend) fill(st *storage, data []byte) error {
	st.cpu.host = alignedBytes(st.bytes) // zeros
	copy(st.cpu.host, data)
	return nil
}

func (cpuBackend) free([]uintptr) {}

func (cpuBackend) stats(out *DeviceStats) { out.InvariantRows = fallback.InvariantRows() }

func (cpuBackend) close() {}

// cpuInfo describes the CPU backend.
func cpuInfo() DeviceInfo {
	total, available := hostMemorySize()
	return DeviceInfo{
		Backend: "cpu", Name: cpuName(), Driver: "Go " + strings.TrimPrefix(runtime.Version(), "go"),
		Type: "cpu", MemoryTotal: total, MemoryAvailable: available, Usable: true,
	}
}

func cpuName() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(text)) {
		key, value, found := strings.Cut(line, ":")
		if found && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return fmt.Sprintf("%s CPU", runtime.GOARCH)
}
