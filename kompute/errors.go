package kompute

import (
	"errors"
	"fmt"
	"strings"

	"github.com/kompute-go/kompute-go/internal/fault"
)

// Errors of this package, of package ops and of the native library wrap one of
// these. Test with errors.Is.
var (
	// ErrUnsupported: the device does not support this, and there is no
	// fallback.
	ErrUnsupported = errors.New("not supported")
	// ErrShape: shapes, ranks, axes or lengths that do not fit.
	ErrShape = errors.New("shapes do not fit")
	// ErrDType: an element type that does not fit.
	ErrDType = errors.New("element types do not fit")
	// ErrOutOfMemory: the device or the memory budget has too little memory
	// left. The error is a *MemoryError if both sizes are known.
	ErrOutOfMemory = errors.New("out of memory")
	// ErrDeviceLost: the driver reported the device as lost, or it hangs (see
	// WithHangLimit). Nothing on it can be read any more. Device.Reopen
	// opens it again.
	ErrDeviceLost = errors.New("the device was lost")
	// ErrClosed: the tensor, stream or device was closed.
	ErrClosed = errors.New("closed")
	// ErrNoVulkan: there is no Vulkan loader or driver, or the program was
	// built without Vulkan.
	ErrNoVulkan = errors.New("no Vulkan")
	// ErrNoDevice: no device matches the specification given to Open.
	ErrNoDevice = errors.New("no such device")
	// ErrDevice: a tensor or a stream of another device.
	ErrDevice = errors.New("belongs to another device")
	// ErrTooLarge: more bytes than one tensor can have on this device, or more
	// elements than an op can count.
	ErrTooLarge = errors.New("too large")
	// ErrInvalid: an argument is nil or makes no sense.
	ErrInvalid = errors.New("invalid argument")
	// ErrFault: memory passed to Wrap cannot be read, because it is that of a
	// mapped file which has shrunk.
	ErrFault = fault.Err
	// ErrDriver: the Vulkan driver reported an error that this package has no kind
	// for, such as VK_ERROR_UNKNOWN.
	ErrDriver = errors.New("the driver failed")
	// ErrLibrary: the native library that is linked is not the one that the program
	// was compiled for.
	ErrLibrary = errors.New("the kompute-go library does not match")
	// ErrInternal: any other failure of the native library, and a panic of an op
	// that runs on the CPU; the device's logger gets its stack.
	ErrInternal = errors.New("internal error")
)

// OpError reports which operation failed, with its operands and the reason.
type OpError struct {
	Op     string  // what was called, such as "add" or "reshape", or the op's basename
	Shapes [][]int // of the operands that are present, in order
	DTypes []DType
	Reason string // may be empty
	Err    error  // one of this package's errors, or a backend's
}

// Error returns op, operands, reason and kind in one line.
func (e *OpError) Error() string {
	var b strings.Builder
	b.WriteString(e.Op)
	for i, shape := range e.Shapes {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteByte(' ')
		if i < len(e.DTypes) {
			b.WriteString(e.DTypes[i].String())
		}
		fmt.Fprint(&b, shape)
	}
	if e.Reason != "" {
		b.WriteString(": ")
		b.WriteString(e.Reason)
	}
	if e.Err != nil {
		b.WriteString(": ")
		b.WriteString(e.Err.Error())
	}
	return b.String()
}

// Unwrap returns Err.
func (e *OpError) Unwrap() error { return e.Err }

// MemoryError is an ErrOutOfMemory with its sizes.
type MemoryError struct {
	Requested int64 // bytes
	Available int64 // bytes left on the device or in the budget
	Budget    int64 // bytes, if a budget was exceeded; else 0
}

// Error returns the sizes in bytes.
func (e *MemoryError) Error() string {
	text := fmt.Sprintf("%v: %d bytes requested, %d available", ErrOutOfMemory, e.Requested, e.Available)
	if e.Budget > 0 {
		text += fmt.Sprintf(" of a budget of %d", e.Budget)
	}
	return text
}

// Unwrap returns ErrOutOfMemory.
func (e *MemoryError) Unwrap() error { return ErrOutOfMemory }

// opError describes a failure of op with its operands.
func opError(op *Op, reason string, err error) error {
	e := &OpError{Op: op.Name, Reason: reason, Err: err}
	for _, a := range op.Args {
		if a.View != nil {
			e.Shapes = append(e.Shapes, a.View.layout.Shape)
			e.DTypes = append(e.DTypes, a.View.dtype)
		}
	}
	return e
}
