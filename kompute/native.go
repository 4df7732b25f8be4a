package kompute

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/kompute-go/kompute-go/internal/array"
)

// native is csrc/abi/kpx.h for one open device, in Go types; cgo.go implements
// it. Handles are opaque. Only wrapTensor keeps the memory passed to it.
type native interface {
	createTensor(bytes int) (unsafe.Pointer, error)
	wrapTensor(data []byte) (unsafe.Pointer, error)
	createMapped(bytes int) (tensor unsafe.Pointer, memory []byte, err error)
	destroyTensors(tensors []uintptr)
	// writeTensor fills a view with its bytes, or with zeros if there are none.
	writeTensor(view *nativeArray, stream unsafe.Pointer, data []byte) error
	// createRead starts a read. If soon is set, the copy is submitted at once, with the work that
	// makes the content.
	createRead(tensor, stream unsafe.Pointer, soon bool, offset, bytes int) (unsafe.Pointer, error)
	// waitRead returns the address of the bytes, or false after the timeout.
	waitRead(read unsafe.Pointer, timeoutNanoseconds uint64) (unsafe.Pointer, bool, error)
	// readMoved reports whether the bytes came from the device.
	readMoved(read unsafe.Pointer) bool
	destroyRead(read unsafe.Pointer)

	createStream(transfers bool) (unsafe.Pointer, error)
	destroyStream(stream unsafe.Pointer)
	// findOp returns the index of an op, or a negative number.
	findOp(name string) int32
	// op appends an op; arrays and params are how many arrays and bytes of parameters it has in m. It makes the
	// tensors of arrays that ask for it.
	op(stream unsafe.Pointer, op int32, m *callMemory, arrays, params int) error
	// growCall makes room in m for that many arrays and bytes of parameters.
	growCall(m *callMemory, arrays, params int)
	freeCall(m *callMemory)
	dispatch(stream, algorithm unsafe.Pointer, arrays []nativeArray, groups [3]uint32, push []uint32) error
	upload(stream, tensor unsafe.Pointer) error
	depend(stream, other unsafe.Pointer, value uint64) error
	// hold keeps back work appended from now on until the gate is opened.
	hold(stream unsafe.Pointer) (gate unsafe.Pointer, err error)
	openGate(gate unsafe.Pointer)
	// flush and replay return errBusy, having done nothing, if too much of the stream's work is under way.
	flush(stream unsafe.Pointer) (value uint64, err error)
	// waitForRoom waits until flush and replay would not return errBusy; false: the timeout came first.
	waitForRoom(stream unsafe.Pointer, timeoutNanoseconds uint64) (bool, error)
	// wait reports whether the stream reached value within the timeout.
	wait(stream unsafe.Pointer, value, timeoutNanoseconds uint64) (bool, error)

	createAlgorithm(spirv []uint32, bindings int, spec []uint32, pushBytes int, subgroupSize uint32) (unsafe.Pointer, error)
	// algorithmWrites returns the bindings that the shader may write, as bits.
	algorithmWrites(algorithm unsafe.Pointer) uint64
	// checkAlgorithm returns the error that dispatch would return for these arrays and groups.
	checkAlgorithm(algorithm unsafe.Pointer, arrays []nativeArray, groups [3]uint32) error
	destroyAlgorithm(algorithm unsafe.Pointer)

	beginCapture(stream unsafe.Pointer) error
	endCapture(stream unsafe.Pointer) (region unsafe.Pointer, err error)
	abortCapture(stream unsafe.Pointer)
	replay(stream, region unsafe.Pointer, times int) (value uint64, err error)
	// startProfile replays a region with timestamps, with each also of every dispatch.
	startProfile(stream, region unsafe.Pointer, each bool) (value uint64, err error)
	// profileTimes returns when the replay, which must be done, ran, and fills spans, one for each
	// dispatch, unless they are nil.
	profileTimes(region unsafe.Pointer, spans []span) (whole span, err error)
	regionStats(region unsafe.Pointer) RegionStats
	describeRegion(region unsafe.Pointer) []byte
	destroyRegion(region unsafe.Pointer)

	timeOps(stream unsafe.Pointer, timing timing) error
	opTimes(stream unsafe.Pointer) map[string]OpTime
	// takeSpans returns the dispatches that were timed since the last call.
	takeSpans(stream unsafe.Pointer, each func(op, kernel string, at span))
	// now returns the time of the clock that spans use.
	now() uint64
	deviceStats(*DeviceStats)
	// hang names the work that hangs, if the device counts as lost because of it.
	hang() string
	// kernels lists the kernels' variants; refusals is how many of them the driver is known to have refused.
	kernels() []KernelVariant
	// kernelCode returns the SPIR-V of a kernel's best usable variant, nil if there is none.
	kernelCode(kernel string) []uint32
	refusals() uint32
	streamStats(stream unsafe.Pointer, out *StreamStats)
	close()
}

// callMemory is the native library's memory for the arguments of an op, so that no
// Go memory is passed: room for an error, arrays, and parameters.
type callMemory struct {
	at             unsafe.Pointer
	arrays, params int // capacity: number of arrays, bytes of parameters
}

// errorRoom is the bytes before the arrays.
const errorRoom = 1 << 10

func (m *callMemory) paramsAt() int { return errorRoom + m.arrays*int(unsafe.Sizeof(nativeArray{})) }

// set fills in the arguments of op. It returns false if an operand, other than a new result, needs a tensor first.
// dev.mu is held.
func (m *callMemory) set(n native, op *Op) bool {
	if len(op.Args) > m.arrays || len(op.Params) > m.params || m.at == nil {
		n.growCall(m, max(len(op.Args), 8, m.arrays), max(len(op.Params), 128, m.params))
	}
	for i := range op.Args {
		a, arg := m.array(i), &op.Args[i]
		a.set(arg)
		if a.create != 0 && !arg.isNew() {
			return false
		}
	}
	copy(unsafe.Slice((*byte)(unsafe.Add(m.at, m.paramsAt())), len(op.Params)), op.Params)
	return true
}

// array returns operand i.
func (m *callMemory) array(i int) *nativeArray {
	return (*nativeArray)(unsafe.Add(m.at, errorRoom+i*int(unsafe.Sizeof(nativeArray{}))))
}

// nativeArray is kpx_array, field by field. The handle is not a Go pointer
// type, so that cgo does not check what it points to in every call.
type nativeArray struct {
	tensor  uintptr
	dtype   uint32
	access  uint32
	rank    uint32
	create  uint32 // 1: the op makes the tensor
	offset  int64
	shape   [array.MaxRank]int64
	strides [array.MaxRank]int64
}

// set makes a the native form of an operand, absent if it has no View. Shape and
// strides beyond the rank stay what they were. The op is to make the tensor of
// storage that has none. dev.mu is held; the storage is pinned, so that its tensor
// stays valid afterwards.
func (a *nativeArray) set(arg *Arg) {
	v := arg.View
	if v == nil {
		a.tensor, a.create = 0, 0 // the other fields are then ignored
		return
	}
	a.tensor, a.create = uintptr(v.st.res.native), 0
	if a.tensor == 0 {
		a.create = 1
	}
	a.dtype, a.access = uint32(v.dtype), uint32(arg.Access)
	a.rank, a.offset = uint32(len(v.layout.Shape)), int64(v.layout.Offset)
	if v.size == 0 {
		a.offset = 0 // it may lie beyond the end of the storage
	}
	strides := v.layout.Strides[:len(v.layout.Shape)]
	for i, d := range v.layout.Shape {
		a.shape[i&(array.MaxRank-1)], a.strides[i&(array.MaxRank-1)] = int64(d), int64(strides[i])
	}
}

// The codes of kpx_result; cgo_numbers.go compares them.
const (
	codeUnsupported = 1
	codeInvalid     = 2
	codeOutOfMemory = 3
	codeDeviceLost  = 4
	codeTimeout     = 5
	codeNoVulkan    = 6
	codeTooLarge    = 8
	codeStale       = 9
	codeUnreadable  = 10
	codeDriver      = 11
)

// errStale: only the device's copy is current, and the host's copy must be
// updated before it is changed.
var errStale = fmt.Errorf("the host's copy is stale: %w", ErrInternal)

// errBusy: too much of a stream's work is under way.
var errBusy = errors.New("too much work is under way")

// unsupportedError is the only error of the native library after which an op
// runs on the CPU.
type unsupportedError struct{ reason string }

func (e *unsupportedError) Error() string { return fmt.Sprintf("%v: %s", ErrUnsupported, e.reason) }

func (e *unsupportedError) Unwrap() error { return ErrUnsupported }

// earlier is what an error says of work before the call that returns it.
type earlier int

const (
	nothingLost earlier = iota
	contentLost         // the work that should have made a tensor's content failed
	windowLost          // work that the stream had before the call is lost
)

// earlierError is the error of earlier work, not of the call that returns it. Calling
// again would not bring that work back, and might hide that it is lost.
type earlierError struct {
	err  error
	what earlier
}

func (e *earlierError) Error() string { return e.err.Error() }

func (e *earlierError) Unwrap() error { return e.err }

// lost returns what err says of earlier work. It is a separate function so that only
// the error path allocates.
func lost(err error) earlier {
	var of *earlierError
	if errors.As(err, &of) {
		return of.what
	}
	return nothingLost
}

// lacksMemory reports whether a call failed for lack of memory and may be repeated.
func lacksMemory(err error) bool { return errors.Is(err, ErrOutOfMemory) && lost(err) == nothingLost }

// nativeError converts a kpx_error.
func nativeError(code int, what earlier, requested, available uint64, message string) error {
	err := nativeKind(code, requested, available, message)
	if what != nothingLost {
		return &earlierError{err, what}
	}
	return err
}

func nativeKind(code int, requested, available uint64, message string) error {
	kind := ErrInternal
	switch code {
	case codeUnsupported:
		return &unsupportedError{message}
	case codeStale:
		return errStale
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
	case codeDriver:
		kind = ErrDriver
	case codeUnreadable:
		return ErrFault
	}
	return fmt.Errorf("%w: %s", kind, message)
}
