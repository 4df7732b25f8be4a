//go:build cgo && !nogpu

package kompute

/*
#include <kpx.h>

#cgo nocallback kpx_replay
#cgo noescape kpx_replay
*/
import "C"

import (
	"time"
	"unsafe"
)

func (d *cgoDevice) beginCapture(stream unsafe.Pointer) error {
	var e C.kpx_error
	if code := C.kpx_capture_begin((*C.kpx_stream)(stream), &e); code != C.KPX_OK {
		return goError(code, &e)
	}
	return nil
}

func (d *cgoDevice) endCapture(stream unsafe.Pointer) (unsafe.Pointer, error) {
	var e C.kpx_error
	var p *C.kpx_region
	code := C.kpx_capture_end((*C.kpx_stream)(stream), &p, &e)
	d.noteRefusals(&e)
	if code != C.KPX_OK {
		return nil, goError(code, &e)
	}
	return unsafe.Pointer(p), nil
}

func (d *cgoDevice) abortCapture(stream unsafe.Pointer) { C.kpx_capture_abort((*C.kpx_stream)(stream)) }

func (d *cgoDevice) replay(stream, region unsafe.Pointer, times int) (uint64, error) {
	var e C.kpx_error
	var value C.uint64_t
	code := C.kpx_replay((*C.kpx_stream)(stream), (*C.kpx_region)(region), C.uint32_t(times), 0, &value, &e)
	return submitted(code, &value, &e)
}

func (d *cgoDevice) regionStats(region unsafe.Pointer) RegionStats {
	var c C.kpx_region_stats
	C.kpx_region_get_stats((*C.kpx_region)(region), &c)
	return RegionStats{
		Ops: uint64(c.ops), FusedOps: uint64(c.fused_ops), Dispatches: uint64(c.dispatches), Barriers: uint64(c.barriers),
		Overlaps:         uint64(c.overlaps),
		DescriptorWrites: uint64(c.descriptor_writes), RecordedCommands: uint64(c.recorded_commands),
		TransientBytesUnplanned: int64(c.transient_bytes_unplanned), TransientBytes: int64(c.transient_bytes),
		RecordTime: time.Duration(c.record_ns),
	}
}

func (d *cgoDevice) describeRegion(region unsafe.Pointer) []byte {
	r := (*C.kpx_region)(region)
	text := make([]byte, C.kpx_region_describe(r, nil, 0))
	if len(text) > 0 {
		C.kpx_region_describe(r, (*C.char)(unsafe.Pointer(&text[0])), C.uint64_t(len(text)))
	}
	return text
}

func (d *cgoDevice) destroyRegion(region unsafe.Pointer) {
	C.kpx_region_destroy((*C.kpx_region)(region))
}
