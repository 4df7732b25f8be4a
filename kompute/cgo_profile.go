//go:build cgo && !nogpu

package kompute

/*
#include <kpx.h>
*/
import "C"

import (
	"time"
	"unsafe"
)

// The span structs of both languages must be the same.
var _ [0]struct{} = [unsafe.Sizeof(span{}) - C.sizeof_kpx_span]struct{}{}

func (d *cgoDevice) profile(stream, region unsafe.Pointer, spans []span) (uint64, error) {
	var e C.kpx_error
	var whole C.uint64_t
	code := C.kpx_region_profile((*C.kpx_stream)(stream), (*C.kpx_region)(region),
		(*C.kpx_span)(unsafe.Pointer(unsafe.SliceData(spans))), C.uint64_t(len(spans)), &whole, &e)
	if code != C.KPX_OK {
		return 0, goError(code, &e)
	}
	return uint64(whole), nil
}

func (d *cgoDevice) timeOps(stream unsafe.Pointer, on bool) error {
	var e C.kpx_error
	var flag C.uint32_t
	if on {
		flag = 1
	}
	if code := C.kpx_stream_time_ops((*C.kpx_stream)(stream), flag, &e); code != C.KPX_OK {
		return goError(code, &e)
	}
	return nil
}

func (d *cgoDevice) opTimes(stream unsafe.Pointer) map[string]OpTime {
	s := (*C.kpx_stream)(stream)
	out := make(map[string]OpTime)
	all := make([]C.kpx_op_time, C.kpx_stream_get_op_times(s, nil, 0)+8) // more may be done by now
	n := C.kpx_stream_get_op_times(s, &all[0], C.uint64_t(len(all)))
	for _, t := range all[:min(int(n), len(all))] {
		out[C.GoString(&t.op[0])] = OpTime{uint64(t.calls), uint64(t.dispatches), time.Duration(t.device_ns)}
	}
	return out
}
