//go:build cgo && !nogpu

package kompute

/*
#cgo pkg-config: kompute-go
#include <stdlib.h>
#include <kpx.h>

// The archive may be newer than the build that Go has cached. In this tree the build sets
// the expected build ID, elsewhere the header installed beside kpx.h does.
#if !defined(KPX_EXPECT_BUILD_ID) && __has_include(<kpx_build_id.h>)
#include <kpx_build_id.h>
#define KPX_EXPECT_BUILD_ID KPX_BUILD_ID
#endif
#ifndef KPX_EXPECT_BUILD_ID
#define KPX_EXPECT_BUILD_ID ""
#endif
static const char *expected_build_id(void) { return KPX_EXPECT_BUILD_ID; }
*/
import "C"

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"
)

// cgoDevice implements native through the C ABI.
type cgoDevice struct {
	p       *C.kpx_device
	refused atomic.Uint32 // kernel variants that the driver has refused, as far as op and endCapture have seen
}

// checkLibrary checks, once, that the linked library matches this code.
var checkLibrary = sync.OnceValue(func() error {
	if got, want := C.kpx_abi_version(), C.uint32_t(C.KPX_ABI_VERSION); got != want {
		return fmt.Errorf("%w: it has ABI %d, its header %d: reinstall both", ErrLibrary, got, want)
	}
	want, got := C.GoString(C.expected_build_id()), C.GoString(C.kpx_build_id())
	if want != "" && got != want {
		return fmt.Errorf("%w: it is build %s, this program was compiled for %s: recompile it", ErrLibrary, got, want)
	}
	return nil
})

func goError(code C.kpx_result, e *C.kpx_error) error {
	// C.GoString would move every kpx_error to the heap.
	text := make([]byte, 0, len(e.message))
	for _, c := range e.message {
		if c == 0 {
			break
		}
		text = append(text, byte(c))
	}
	return nativeError(int(code), earlierOf(e), uint64(e.requested), uint64(e.available), string(text))
}

// earlierOf returns what the error says of earlier work.
func earlierOf(e *C.kpx_error) earlier {
	switch {
	case e.of_content != 0:
		return contentLost
	case e.of_window != 0:
		return windowLost
	}
	return nothingLost
}

func vulkanDevices() ([]DeviceInfo, error) {
	if err := checkLibrary(); err != nil {
		return nil, err
	}
	var e C.kpx_error
	var n C.uint32_t
	if code := C.kpx_device_count(&n, &e); code != C.KPX_OK {
		return nil, goError(code, &e)
	}
	list := make([]DeviceInfo, n)
	for i := range list {
		var info C.kpx_device_info
		if code := C.kpx_device_describe(C.uint32_t(i), &info, &e); code != C.KPX_OK {
			return nil, goError(code, &e)
		}
		list[i] = deviceInfo(i, &info)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%w: the loader reports no device", ErrNoVulkan)
	}
	return list, nil
}

func deviceInfo(index int, c *C.kpx_device_info) DeviceInfo {
	kinds := map[C.uint32_t]string{C.KPX_DISCRETE: "discrete", C.KPX_INTEGRATED: "integrated", C.KPX_VIRTUAL: "virtual", C.KPX_CPU: "cpu"}
	kind, known := kinds[c._type]
	if !known {
		kind = "other"
	}
	v := uint32(c.api_version)
	return DeviceInfo{
		Backend: "vulkan", Index: index, Name: C.GoString(&c.name[0]), Driver: C.GoString(&c.driver[0]),
		UUID: C.GoString(&c.uuid[0]), Type: kind, APIVersion: fmt.Sprintf("%d.%d.%d", v>>22&0x7f, v>>12&0x3ff, v&0xfff),
		SubgroupSize: int(c.subgroup_size), MinSubgroupSize: int(c.min_subgroup_size), MaxSubgroupSize: int(c.max_subgroup_size),
		MemoryTotal: int64(c.memory_total), MemoryAvailable: int64(c.memory_available),
		MaxTensorBytes: int64(c.max_buffer_bytes), Usable: c.usable != 0, UnusableReason: C.GoString(&c.reason[0]),
	}
}

func openVulkan(info DeviceInfo, o options) (*Device, error) {
	disabled, err := o.resolveDisabled(listVariants(nil))
	if err != nil {
		return nil, err
	}
	// The options are in C memory, since they hold pointers.
	options := (*C.kpx_device_options)(C.calloc(1, C.sizeof_kpx_device_options))
	defer C.free(unsafe.Pointer(options))
	options.memory_budget, options.hang_ns = C.uint64_t(o.budget), C.uint64_t(o.hangLimit)
	if o.overlap {
		options.overlaps = 1
	}
	if o.batchVariant {
		options.batch_variant = 1
	}
	for _, list := range []struct {
		to    **C.char
		names []string
	}{{&options.disabled, disabled}, {&options.disabled_passes, o.noPasses}, {&options.features, o.features}, {&options.masked, o.masked}} {
		*list.to = C.CString(strings.Join(list.names, ","))
		defer C.free(unsafe.Pointer(*list.to))
	}
	var e C.kpx_error
	var p *C.kpx_device
	if code := C.kpx_device_open(C.uint32_t(info.Index), options, &p, &e); code != C.KPX_OK {
		return nil, goError(code, &e)
	}
	var stats C.kpx_device_stats
	C.kpx_device_get_stats(p, &stats)
	info.MaxTensorBytes = int64(stats.max_tensor_bytes) // masks may make it smaller
	return newVulkanDevice(info, &cgoDevice{p: p}, o)
}

// listVariants lists the kernels' variants as that device has them, or, if it is nil, those of the library.
func listVariants(device *C.kpx_device) []KernelVariant {
	list := make([]C.kpx_variant, C.kpx_list_variants(device, nil, 0))
	C.kpx_list_variants(device, unsafe.SliceData(list), C.uint64_t(len(list)))
	out := make([]KernelVariant, len(list))
	for i := range list {
		v := &list[i]
		out[i] = KernelVariant{
			Kernel: C.GoString(&v.kernel[0]), Variant: C.GoString(&v.variant[0]),
			State: KernelState(v.state), Reason: C.GoString(&v.reason[0]), Calls: uint64(v.calls),
		}
	}
	return out
}

func (d *cgoDevice) kernels() []KernelVariant { return listVariants(d.p) }

func (d *cgoDevice) kernelCode(kernel string) []uint32 {
	name := C.CString(kernel)
	defer C.free(unsafe.Pointer(name))
	var words C.uint64_t
	code := C.kpx_kernel_code(d.p, name, &words)
	return slices.Clone(unsafe.Slice((*uint32)(unsafe.Pointer(code)), int(words)))
}

func (d *cgoDevice) refusals() uint32 { return d.refused.Load() }

func (d *cgoDevice) createAlgorithm(spirv []uint32, bindings int, spec []uint32, pushBytes int, subgroupSize uint32) (unsafe.Pointer, error) {
	var e C.kpx_error
	var p *C.kpx_algorithm
	code := C.kpx_algorithm_create(d.p, (*C.uint32_t)(unsafe.SliceData(spirv)), C.uint64_t(len(spirv)), C.uint32_t(bindings),
		(*C.uint32_t)(unsafe.SliceData(spec)), C.uint32_t(len(spec)), C.uint32_t(pushBytes), C.uint32_t(subgroupSize), &p, &e)
	if code != C.KPX_OK {
		return nil, goError(code, &e)
	}
	return unsafe.Pointer(p), nil
}

func (d *cgoDevice) algorithmWrites(algorithm unsafe.Pointer) uint64 {
	return uint64(C.kpx_algorithm_writes((*C.kpx_algorithm)(algorithm)))
}

func (d *cgoDevice) checkAlgorithm(algorithm unsafe.Pointer, arrays []nativeArray, groups [3]uint32) error {
	var e C.kpx_error
	g := [3]C.uint32_t{C.uint32_t(groups[0]), C.uint32_t(groups[1]), C.uint32_t(groups[2])}
	code := C.kpx_algorithm_check((*C.kpx_algorithm)(algorithm), (*C.kpx_array)(unsafe.Pointer(unsafe.SliceData(arrays))), C.uint32_t(len(arrays)), &g[0], &e)
	if code != C.KPX_OK {
		return goError(code, &e)
	}
	return nil
}

func (d *cgoDevice) destroyAlgorithm(algorithm unsafe.Pointer) {
	C.kpx_algorithm_destroy((*C.kpx_algorithm)(algorithm))
}

func (d *cgoDevice) deviceStats(out *DeviceStats) {
	var c C.kpx_device_stats
	C.kpx_device_get_stats(d.p, &c)
	out.ReservedBytes = int64(c.reserved_bytes)
	out.HostBytes = int64(c.host_bytes)
	out.Uploads, out.UploadBytes = uint64(c.uploads), uint64(c.upload_bytes)
	out.CacheHits, out.CacheMisses = uint64(c.cache_hits), uint64(c.cache_misses)
	out.PipelinesBuilt = uint64(c.pipelines_built)
	out.Allocations = uint64(c.allocations)
	out.ValidationMessages = uint64(c.validation_messages)
	out.Overlap = c.overlaps != 0
	out.BatchVariant = c.batch_variant != 0
	out.InvariantRows = int(c.invariant_rows)
}

func (d *cgoDevice) hang() string { return C.GoString(C.kpx_device_hang(d.p)) }

func (d *cgoDevice) close() { C.kpx_device_close(d.p) }
