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

// The span structs of both languages must have the same layout.
var _ [0]struct{} = [unsafe.Sizeof(span{}) - C.sizeof_kpx_span]struct{}{}

func (d *cgoDevice) startProfile(stream, region unsafe.Pointer, each bool) (uint64, error) {
	var e C.kpx_error
	var value C.uint64_t
	what := C.kpx_profiled(C.KPX_PROFILE_WHOLE)
	if each {
		what = C.KPX_PROFILE_EACH
	}
	if code := C.kpx_profile_start((*C.kpx_stream)(stream), (*C.kpx_region)(region), what, &value, &e); code != C.KPX_OK {
		return 0, goError(code, &e)
	}
	return uint64(value), nil
}

func (d *cgoDevice) profileTimes(region unsafe.Pointer, spans []span) (span, error) {
	var e C.kpx_error
	var whole C.kpx_span
	code := C.kpx_profile_times((*C.kpx_region)(region),
		(*C.kpx_span)(unsafe.Pointer(unsafe.SliceData(spans))), C.uint64_t(len(spans)), &whole, &e)
	if code != C.KPX_OK {
		return span{}, goError(code, &e)
	}
	return goSpan(whole), nil
}

func goSpan(s C.kpx_span) span { return span{uint64(s.start_ns), uint64(s.end_ns)} }

func (d *cgoDevice) now() uint64 { return uint64(C.kpx_clock_ns()) }

func (d *cgoDevice) takeSpans(stream unsafe.Pointer, each func(op, kernel string, at span)) {
	var some [256]C.kpx_op_span
	for {
		n := C.kpx_stream_take_spans((*C.kpx_stream)(stream), &some[0], C.uint64_t(len(some)))
		for _, s := range some[:n] {
			each(C.GoString(&s.op[0]), C.GoString(&s.kernel[0]), goSpan(s.span))
		}
		if int(n) < len(some) {
			return
		}
	}
}

func (d *cgoDevice) timeOps(stream unsafe.Pointer, timing timing) error {
	var e C.kpx_error
	if code := C.kpx_stream_time_ops((*C.kpx_stream)(stream), C.kpx_timing(timing), &e); code != C.KPX_OK {
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
		out[C.GoString(&t.op[0])] = OpTime{Calls: uint64(t.calls), Dispatches: uint64(t.dispatches), Time: time.Duration(t.device_ns)}
	}
	return out
}
