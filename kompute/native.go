package kompute

import (
	"fmt"
	"unsafe"

	"github.com/kompute-go/kompute-go/internal/array"
)

// native is csrc/abi/kpx.h for one open device, in Go's types: cgo.go implements
// it, and tests do. Handles are opaque. Memory passed in is not kept.
type native interface {
	createBuffer(bytes int) (unsafe.Pointer, error)
	destroyBuffer(buffer unsafe.Pointer)
	createStream() (unsafe.Pointer, error)
	destroyStream(stream unsafe.Pointer)
	// findOp returns the index of an op, or a negative number.
	findOp(name string) int32
	op(stream unsafe.Pointer, op int32, arrays []nativeArray, params []byte) error
	dispatch(stream, algorithm unsafe.Pointer, arrays []nativeArray, groups [3]uint32, push []uint32) error
	upload(stream, buffer unsafe.Pointer, offset int, data []byte) error
	download(stream, buffer unsafe.Pointer, offset int, data []byte) error
	depend(stream, other unsafe.Pointer, value uint64) error
	// hold keeps back what is appended from here on, until the gate is opened.
	hold(stream unsafe.Pointer) (gate unsafe.Pointer, err error)
	openGate(gate unsafe.Pointer)
	// read appends a copy of device memory, which copyRead takes once the stream
	// has reached the value of a flush after it.
	read(stream, buffer unsafe.Pointer, offset, bytes int) (unsafe.Pointer, error)
	copyRead(read unsafe.Pointer, data []byte)
	destroyRead(read unsafe.Pointer)
	flush(stream unsafe.Pointer) (value uint64, err error)
	// wait reports whether the stream reached value within the timeout.
	wait(stream unsafe.Pointer, value, timeoutNanoseconds uint64) (bool, error)
	createAlgorithm(spirv []uint32, bindings int, spec []uint32, pushBytes int) (unsafe.Pointer, error)
	destroyAlgorithm(algorithm unsafe.Pointer)
	createMapped(bytes int) (buffer unsafe.Pointer, memory []byte, err error)
	beginCapture(stream unsafe.Pointer) error
	endCapture(stream unsafe.Pointer) (region unsafe.Pointer, err error)
	abortCapture(stream unsafe.Pointer)
	replay(stream, region unsafe.Pointer, times int) (value uint64, err error)
	// profile fills spans, one for each dispatch, unless they are nil.
	profile(stream, region unsafe.Pointer, spans []span) (whole span, err error)
	timeOps(stream unsafe.Pointer, timing timing) error
	opTimes(stream unsafe.Pointer) map[string]OpTime
	// takeSpans hands over the dispatches that were timed since the last call.
	takeSpans(stream unsafe.Pointer, each func(op, kernel string, at span))
	// now is the clock of spans.
	now() uint64
	regionStats(region unsafe.Pointer) RegionStats
	describeRegion(region unsafe.Pointer) []byte
	destroyRegion(region unsafe.Pointer)
	deviceStats(*DeviceStats)
	streamStats(stream unsafe.Pointer, out *StreamStats)
	close()
}

// nativeArray is kpx_array, field by field.
type nativeArray struct {
	buffer  unsafe.Pointer
	dtype   uint32
	access  uint32
	rank    uint32
	_       uint32
	offset  int64
	shape   [array.MaxRank]int64
	strides [array.MaxRank]int64
}

// The codes of kpx_result.
const (
	codeUnsupported = 1
	codeInvalid     = 2
	codeOutOfMemory = 3
	codeDeviceLost  = 4
	codeTimeout     = 5
	codeNoVulkan    = 6
	codeTooLarge    = 8
)

// unsupportedError is the one answer of the native library upon which an op
// goes to the CPU.
type unsupportedError struct{ reason string }

func (e *unsupportedError) Error() string { return fmt.Sprintf("%v: %s", ErrUnsupported, e.reason) }

func (e *unsupportedError) Unwrap() error { return ErrUnsupported }

// nativeError makes an error of a kpx_error.
func nativeError(code int, requested, available uint64, message string) error {
	kind := ErrInternal
	switch code {
	case codeUnsupported:
		return &unsupportedError{message}
	case codeOutOfMemory:
		if requested > 0 {
			return &MemoryError{Requested: int64(requested), Available: int64(available)}
		}
		kind = ErrOutOfMemory
	case codeInvalid:
		kind = ErrInvalid
	case codeDeviceLost:
		kind = ErrDeviceLost
	case codeNoVulkan:
		kind = ErrNoVulkan
	case codeTooLarge:
		kind = ErrTooLarge
	}
	return fmt.Errorf("%w: %s", kind, message)
}
