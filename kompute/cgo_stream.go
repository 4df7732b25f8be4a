//go:build cgo && !nogpu

package kompute

/*
#include <stdlib.h>
#include <kpx.h>

// Its arguments are in C memory, whose addresses are passed as numbers, which cgo does not check.
static kpx_result call_op(uintptr_t stream, int32_t op, uintptr_t arrays, uint32_t n, uintptr_t params, uint32_t size,
                          uintptr_t err) {
    return kpx_op((kpx_stream *)stream, op, (kpx_array *)arrays, n, (const void *)params, size, (kpx_error *)err);
}
// Arrays are memory without Go pointers.
static kpx_result call_dispatch(kpx_stream *stream, kpx_algorithm *algorithm, const void *arrays, uint32_t n,
                                const uint32_t groups[3], const void *push, uint32_t push_bytes, kpx_error *err) {
    return kpx_dispatch(stream, algorithm, (const kpx_array *)arrays, n, groups, push, push_bytes, err);
}

// None of these functions calls back into Go or keeps memory passed to it.
#cgo nocallback call_op
#cgo nocallback call_dispatch
#cgo nocallback kpx_flush
#cgo nocallback kpx_upload
#cgo nocallback kpx_stream_depend
#cgo nocallback kpx_wait
#cgo nocallback kpx_wait_for_room
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
	"time"
	"unsafe"
)

// An error must fit before the arrays of callMemory.
var _ = [errorRoom - C.sizeof_kpx_error]struct{}{}

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
	return submitted(C.kpx_flush((*C.kpx_stream)(stream), 0, &value, &e), &value, &e)
}

// submitted is what a call returns that submits work, unless the device is busy.
func submitted(code C.kpx_result, value *C.uint64_t, e *C.kpx_error) (uint64, error) {
	done, err := inTime(code, e)
	if err == nil && !done {
		err = errBusy
	}
	if err != nil {
		return 0, err
	}
	return uint64(*value), nil
}

// inTime reports whether a call that may time out was done in time.
func inTime(code C.kpx_result, e *C.kpx_error) (bool, error) {
	switch code {
	case C.KPX_OK:
		return true, nil
	case C.KPX_TIMEOUT:
		return false, nil
	default:
		return false, goError(code, e)
	}
}

func (d *cgoDevice) waitForRoom(stream unsafe.Pointer, timeout uint64) (bool, error) {
	var e C.kpx_error
	return inTime(C.kpx_wait_for_room((*C.kpx_stream)(stream), C.uint64_t(timeout), &e), &e)
}

func (d *cgoDevice) wait(stream unsafe.Pointer, value, timeout uint64) (bool, error) {
	var e C.kpx_error
	return inTime(C.kpx_wait((*C.kpx_stream)(stream), C.uint64_t(value), C.uint64_t(timeout), &e), &e)
}

func (d *cgoDevice) streamStats(stream unsafe.Pointer, out *StreamStats) {
	var c C.kpx_stream_stats
	C.kpx_stream_get_stats((*C.kpx_stream)(stream), &c)
	out.Dispatches = uint64(c.dispatches)
	out.Barriers = uint64(c.barriers)
	out.RepeatedOps = uint64(c.repeated_ops)
	out.Uploads, out.UploadBytes = uint64(c.uploads), uint64(c.upload_bytes)
	out.Submits = uint64(c.submits)
	out.DescriptorWrites = uint64(c.descriptor_writes)
	out.RecordedCommands = uint64(c.recorded_commands)
	out.RecordTime = time.Duration(c.record_ns)
	out.SubmitTime = time.Duration(c.submit_ns)
}
