//go:build cgo && !nogpu

package kompute

/*
#include <kpx.h>

// It takes the device as a number, which cgo does not check. 0: it failed.
static uintptr_t try_create_tensor(uintptr_t device, uint64_t bytes) {
    kpx_error err;
    kpx_tensor *out;
    return kpx_tensor_create((kpx_device *)device, bytes, &out, &err) == KPX_OK ? (uintptr_t)out : 0;
}
// Arrays are memory without Go pointers.
static kpx_result call_write(const void *view, kpx_stream *stream, const void *data, uint64_t bytes, kpx_error *err) {
    return kpx_tensor_write((const kpx_array *)view, stream, data, bytes, err);
}
static void destroy_tensors(const void *tensors, uint64_t n) { kpx_tensors_destroy((kpx_tensor *const *)tensors, n); }

// None of these functions calls back into Go or keeps memory passed to it.
#cgo nocallback kpx_tensor_create
#cgo nocallback try_create_tensor
#cgo nocallback destroy_tensors
#cgo nocallback call_write
#cgo nocallback kpx_read_create
#cgo nocallback kpx_read_wait
#cgo nocallback kpx_read_moved
#cgo noescape kpx_tensor_create
#cgo noescape destroy_tensors
#cgo noescape call_write
#cgo noescape kpx_read_create
#cgo noescape kpx_read_wait
#cgo noescape kpx_read_moved
*/
import "C"

import "unsafe"

// The array structs of both languages must have the same layout.
var _ [0]struct{} = [unsafe.Sizeof(nativeArray{}) - C.sizeof_kpx_array]struct{}{}

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
	bytes := C.uint64_t(len(data))
	if bytes == 0 {
		data = make([]byte, 1)
	}
	code := C.kpx_tensor_wrap(d.p, unsafe.Pointer(&data[0]), bytes, &p, &e) // &data[0]: see writeTensor
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
	var code C.kpx_result
	if n := C.uint64_t(len(data)); n == 0 {
		code = C.call_write(unsafe.Pointer(view), (*C.kpx_stream)(stream), nil, 0, &e)
	} else { // with &data[0], cgo looks for Go pointers only in data, not in the rest of a struct that it may be a part of
		code = C.call_write(unsafe.Pointer(view), (*C.kpx_stream)(stream), unsafe.Pointer(&data[0]), n, &e)
	}
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
	done, err := inTime(C.kpx_read_wait((*C.kpx_read)(read), C.uint64_t(timeout), &data, &e), &e)
	return data, done, err
}

func (d *cgoDevice) readMoved(read unsafe.Pointer) bool {
	return C.kpx_read_moved((*C.kpx_read)(read)) != 0
}

func (d *cgoDevice) destroyRead(read unsafe.Pointer) { C.kpx_read_destroy((*C.kpx_read)(read)) }

// handleOf is a handle of the library, which is no Go pointer, from its number.
func handleOf(p C.uintptr_t) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&p)) }
