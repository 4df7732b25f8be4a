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

// Arrays are passed as memory without Go pointers. What every op calls takes addresses as numbers, which cgo need not
// check: they are of C's memory.
static kpx_result call_op(uintptr_t stream, int32_t op, uintptr_t arrays, uint32_t n, uintptr_t params, uint32_t size,
                          uintptr_t err) {
    return kpx_op((kpx_stream *)stream, op, (const kpx_array *)arrays, n, (const void *)params, size, (kpx_error *)err);
}
// 0: it failed.
static uintptr_t try_create_tensor(uintptr_t device, uint64_t bytes) {
    kpx_error err;
    kpx_tensor *out;
    return kpx_tensor_create((kpx_device *)device, bytes, &out, &err) == KPX_OK ? (uintptr_t)out : 0;
}
static kpx_result call_dispatch(kpx_stream *stream, kpx_algorithm *algorithm, const void *arrays, uint32_t n,
                                const uint32_t groups[3], const void *push, uint32_t push_bytes, kpx_error *err) {
    return kpx_dispatch(stream, algorithm, (const kpx_array *)arrays, n, groups, push, push_bytes, err);
}
static kpx_result call_write(const void *view, kpx_stream *stream, const void *data, kpx_error *err) {
    return kpx_tensor_write((const kpx_array *)view, stream, data, err);
}
static void destroy_tensors(const void *tensors, uint64_t n) { kpx_tensors_destroy((kpx_tensor *const *)tensors, n); }

// None of these functions calls back into Go or keeps memory passed to it.
#cgo nocallback kpx_tensor_create
#cgo nocallback destroy_tensors
#cgo nocallback call_write
#cgo nocallback kpx_read_create
#cgo nocallback kpx_read_wait
#cgo nocallback kpx_read_moved
#cgo nocallback call_op
#cgo nocallback try_create_tensor
#cgo nocallback call_dispatch
#cgo nocallback kpx_flush
#cgo nocallback kpx_upload
#cgo nocallback kpx_stream_depend
#cgo nocallback kpx_wait
#cgo nocallback kpx_wait_for_room
#cgo noescape kpx_tensor_create
#cgo noescape destroy_tensors
#cgo noescape call_write
#cgo noescape kpx_read_create
#cgo noescape kpx_read_wait
#cgo noescape kpx_read_moved
#cgo noescape call_op
#cgo noescape call_dispatch
#cgo noescape kpx_flush
#cgo noescape kpx_upload
#cgo noescape kpx_stream_depend
#cgo noescape kpx_wait
#cgo noescape kpx_wait_for_room
*/
import "C"

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"
)

// cgoDevice implements native through the C ABI.
type cgoDevice struct {
	p       *C.kpx_device
	refused atomic.Uint32 // kernel variants that the driver has refused, as far as op and endCapture have seen
}

// The array structs of both languages must have the same layout.
var _ [0]struct{} = [unsafe.Sizeof(nativeArray{}) - C.sizeof_kpx_array]struct{}{}

// An error must fit before the arrays of callMemory.
var _ = [errorRoom - C.sizeof_kpx_error]struct{}{}

// checkLibrary checks, once, that the linked library matches this code.
var checkLibrary = sync.OnceValue(func() error {
	if got, want := C.kpx_abi_version(), C.uint32_t(C.KPX_ABI_VERSION); got != want {
		return fmt.Errorf("%w: the kompute-go library has ABI %d, its header %d: reinstall both", ErrInternal, got, want)
	}
	want, got := C.GoString(C.expected_build_id()), C.GoString(C.kpx_build_id())
	if want != "" && got != want {
		return fmt.Errorf("%w: the kompute-go library is build %s, this program was compiled for %s: recompile it", ErrInternal, got, want)
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
	return nativeError(int(code), e.of_content != 0, uint64(e.requested), uint64(e.available), string(text))
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
		SubgroupSize: int(c.subgroup_size), MemoryTotal: int64(c.memory_total), MemoryAvailable: int64(c.memory_available),
		MaxTensorBytes: int64(c.max_buffer_bytes), Usable: c.usable != 0, UnusableReason: C.GoString(&c.why[0]),
	}
}

func openVulkan(info DeviceInfo, o options) (*Device, error) {
	disabled, err := o.resolveDisabled(listVariants(nil))
	if err != nil {
		return nil, err
	}
	// The options are of C's memory, since they hold pointers.
	options := (*C.kpx_device_options)(C.calloc(1, C.sizeof_kpx_device_options))
	defer C.free(unsafe.Pointer(options))
	options.memory_budget, options.hang_ns = C.uint64_t(o.budget), C.uint64_t(o.hangLimit)
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
			State: KernelState(v.state), Why: C.GoString(&v.why[0]), Calls: uint64(v.calls),
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

func (d *cgoDevice) createTensor(bytes int) (unsafe.Pointer, error) {
	if p := C.try_create_tensor(C.uintptr_t(uintptr(unsafe.Pointer(d.p))), C.uint64_t(bytes)); p != 0 {
		return handleOf(p), nil
	}
	var e C.kpx_error
	var p *C.kpx_tensor
	if code := C.kpx_tensor_create(d.p, C.uint64_t(bytes), &p, &e); code != C.KPX_OK {
		return nil, goError(code, &e)
	}
	return unsafe.Pointer(p), nil
}

func (d *cgoDevice) wrapTensor(data []byte) (unsafe.Pointer, error) {
	var e C.kpx_error
	var p *C.kpx_tensor
	code := C.kpx_tensor_wrap(d.p, unsafe.Pointer(unsafe.SliceData(data)), C.uint64_t(len(data)), &p, &e)
	if code != C.KPX_OK {
		return nil, goError(code, &e)
	}
	return unsafe.Pointer(p), nil
}

func (d *cgoDevice) createMapped(bytes int) (unsafe.Pointer, []byte, error) {
	var e C.kpx_error
	var p *C.kpx_tensor
	var memory unsafe.Pointer
	if code := C.kpx_tensor_create_mapped(d.p, C.uint64_t(bytes), &p, &memory, &e); code != C.KPX_OK {
		return nil, nil, goError(code, &e)
	}
	return unsafe.Pointer(p), unsafe.Slice((*byte)(memory), bytes), nil
}

func (d *cgoDevice) destroyTensors(tensors []uintptr) {
	C.destroy_tensors(unsafe.Pointer(unsafe.SliceData(tensors)), C.uint64_t(len(tensors)))
}

func (d *cgoDevice) writeTensor(view *nativeArray, stream unsafe.Pointer, data []byte) error {
	var e C.kpx_error
	code := C.call_write(unsafe.Pointer(view), (*C.kpx_stream)(stream), unsafe.Pointer(unsafe.SliceData(data)), &e)
	if code != C.KPX_OK {
		return goError(code, &e)
	}
	return nil
}

func (d *cgoDevice) createRead(tensor, stream unsafe.Pointer, soon bool, offset, bytes int) (unsafe.Pointer, error) {
	var e C.kpx_error
	var p *C.kpx_read
	when := C.kpx_read_when(C.KPX_READ_APPEND)
	if soon {
		when = C.KPX_READ_SOON
	}
	code := C.kpx_read_create((*C.kpx_tensor)(tensor), (*C.kpx_stream)(stream), when, C.uint64_t(offset), C.uint64_t(bytes), &p, &e)
	if code != C.KPX_OK {
		return nil, goError(code, &e)
	}
	return unsafe.Pointer(p), nil
}

func (d *cgoDevice) waitRead(read unsafe.Pointer, timeout uint64) (unsafe.Pointer, bool, error) {
	var e C.kpx_error
	var data unsafe.Pointer
	switch code := C.kpx_read_wait((*C.kpx_read)(read), C.uint64_t(timeout), &data, &e); code {
	case C.KPX_OK:
		return data, true, nil
	case C.KPX_TIMEOUT:
		return nil, false, nil
	default:
		return nil, false, goError(code, &e)
	}
}

func (d *cgoDevice) readMoved(read unsafe.Pointer) bool {
	return C.kpx_read_moved((*C.kpx_read)(read)) != 0
}

func (d *cgoDevice) destroyRead(read unsafe.Pointer) { C.kpx_read_destroy((*C.kpx_read)(read)) }

func (d *cgoDevice) createStream(transfers bool) (unsafe.Pointer, error) {
	var e C.kpx_error
	var p *C.kpx_stream
	kind := C.kpx_stream_kind(C.KPX_STREAM_COMPUTE)
	if transfers {
		kind = C.KPX_STREAM_TRANSFERS
	}
	if code := C.kpx_stream_create(d.p, kind, &p, &e); code != C.KPX_OK {
		return nil, goError(code, &e)
	}
	return unsafe.Pointer(p), nil
}

func (d *cgoDevice) destroyStream(stream unsafe.Pointer) {
	C.kpx_stream_destroy((*C.kpx_stream)(stream))
}

func (d *cgoDevice) findOp(name string) int32 {
	c := C.CString(name)
	defer C.free(unsafe.Pointer(c))
	return int32(C.kpx_op_find(c))
}

// handleOf is a handle of the library, which is no Go pointer, from its number.
func handleOf(p C.uintptr_t) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&p)) }

func (d *cgoDevice) growCall(m *callMemory, arrays, params int) {
	C.free(m.at)
	m.arrays, m.params = arrays, params
	m.at = C.calloc(1, C.size_t(m.paramsAt()+params))
}

func (d *cgoDevice) freeCall(m *callMemory) {
	C.free(m.at)
	*m = callMemory{}
}

func (d *cgoDevice) op(stream unsafe.Pointer, op int32, m *callMemory, arrays, params int) error {
	at := C.uintptr_t(uintptr(m.at))
	code := C.call_op(C.uintptr_t(uintptr(stream)), C.int32_t(op), at+errorRoom, C.uint32_t(arrays), at+C.uintptr_t(m.paramsAt()), C.uint32_t(params), at)
	d.noteRefusals((*C.kpx_error)(m.at))
	if code != C.KPX_OK {
		return goError(code, (*C.kpx_error)(m.at))
	}
	return nil
}

func (d *cgoDevice) noteRefusals(e *C.kpx_error) {
	if n := uint32(e.refusals); n != 0 {
		d.refused.Store(n)
	}
}

func (d *cgoDevice) dispatch(stream, algorithm unsafe.Pointer, arrays []nativeArray, groups [3]uint32, push []uint32) error {
	var e C.kpx_error
	g := [3]C.uint32_t{C.uint32_t(groups[0]), C.uint32_t(groups[1]), C.uint32_t(groups[2])}
	code := C.call_dispatch((*C.kpx_stream)(stream), (*C.kpx_algorithm)(algorithm), unsafe.Pointer(unsafe.SliceData(arrays)), C.uint32_t(len(arrays)),
		&g[0], unsafe.Pointer(unsafe.SliceData(push)), C.uint32_t(4*len(push)), &e)
	if code != C.KPX_OK {
		return goError(code, &e)
	}
	return nil
}

func (d *cgoDevice) upload(stream, tensor unsafe.Pointer) error {
	var e C.kpx_error
	if code := C.kpx_upload((*C.kpx_stream)(stream), (*C.kpx_tensor)(tensor), &e); code != C.KPX_OK {
		return goError(code, &e)
	}
	return nil
}

func (d *cgoDevice) depend(stream, other unsafe.Pointer, value uint64) error {
	var e C.kpx_error
	if code := C.kpx_stream_depend((*C.kpx_stream)(stream), (*C.kpx_stream)(other), C.uint64_t(value), &e); code != C.KPX_OK {
		return goError(code, &e)
	}
	return nil
}

func (d *cgoDevice) hold(stream unsafe.Pointer) (unsafe.Pointer, error) {
	var e C.kpx_error
	var p *C.kpx_gate
	if code := C.kpx_stream_hold((*C.kpx_stream)(stream), &p, &e); code != C.KPX_OK {
		return nil, goError(code, &e)
	}
	return unsafe.Pointer(p), nil
}

func (d *cgoDevice) openGate(gate unsafe.Pointer) { C.kpx_gate_open((*C.kpx_gate)(gate)) }

func (d *cgoDevice) flush(stream unsafe.Pointer) (uint64, error) {
	var e C.kpx_error
	var value C.uint64_t
	switch code := C.kpx_flush((*C.kpx_stream)(stream), 0, &value, &e); code {
	case C.KPX_OK:
		return uint64(value), nil
	case C.KPX_TIMEOUT:
		return 0, errBusy
	default:
		return 0, goError(code, &e)
	}
}

func (d *cgoDevice) waitForRoom(stream unsafe.Pointer, timeout uint64) (bool, error) {
	var e C.kpx_error
	switch code := C.kpx_wait_for_room((*C.kpx_stream)(stream), C.uint64_t(timeout), &e); code {
	case C.KPX_OK:
		return true, nil
	case C.KPX_TIMEOUT:
		return false, nil
	default:
		return false, goError(code, &e)
	}
}

func (d *cgoDevice) wait(stream unsafe.Pointer, value, timeout uint64) (bool, error) {
	var e C.kpx_error
	switch code := C.kpx_wait((*C.kpx_stream)(stream), C.uint64_t(value), C.uint64_t(timeout), &e); code {
	case C.KPX_OK:
		return true, nil
	case C.KPX_TIMEOUT:
		return false, nil
	default:
		return false, goError(code, &e)
	}
}

func (d *cgoDevice) createAlgorithm(spirv []uint32, bindings int, spec []uint32, pushBytes int) (unsafe.Pointer, error) {
	var e C.kpx_error
	var p *C.kpx_algorithm
	code := C.kpx_algorithm_create(d.p, (*C.uint32_t)(unsafe.SliceData(spirv)), C.uint64_t(len(spirv)), C.uint32_t(bindings),
		(*C.uint32_t)(unsafe.SliceData(spec)), C.uint32_t(len(spec)), C.uint32_t(pushBytes), &p, &e)
	if code != C.KPX_OK {
		return nil, goError(code, &e)
	}
	return unsafe.Pointer(p), nil
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
}

func (d *cgoDevice) streamStats(stream unsafe.Pointer, out *StreamStats) {
	var c C.kpx_stream_stats
	C.kpx_stream_get_stats((*C.kpx_stream)(stream), &c)
	out.Dispatches = uint64(c.dispatches)
	out.Barriers = uint64(c.barriers)
	out.Uploads, out.UploadBytes = uint64(c.uploads), uint64(c.upload_bytes)
	out.Submits = uint64(c.submits)
	out.DescriptorWrites = uint64(c.descriptor_writes)
	out.RecordedCommands = uint64(c.recorded_commands)
	out.RecordTime = time.Duration(c.record_ns)
	out.SubmitTime = time.Duration(c.submit_ns)
}

func (d *cgoDevice) hang() string { return C.GoString(C.kpx_device_hang(d.p)) }

func (d *cgoDevice) close() { C.kpx_device_close(d.p) }
