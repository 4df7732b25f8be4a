package kompute

import (
	"errors"
	"fmt"
	"strings"
)

// What errors of this package, of package ops and of the native library wrap.
// Test with errors.Is.
var (
	// ErrUnsupported: the device cannot do this, and nothing can do it instead.
	ErrUnsupported = errors.New("not supported")
	// ErrShape: shapes, ranks, axes or lengths that do not fit.
	ErrShape = errors.New("shapes do not fit")
	// ErrDType: an element type that does not fit.
	ErrDType = errors.New("element types do not fit")
	// ErrOutOfMemory: the device or the memory budget has not enough left. The
	// error is a *MemoryError where both sizes are known.
	ErrOutOfMemory = errors.New("out of memory")
	// ErrDeviceLost: the driver gave the device up. Nothing on it can be read
	// any more; open it again.
	ErrDeviceLost = errors.New("the device was lost")
	// ErrClosed: the tensor, stream or device was closed.
	ErrClosed = errors.New("closed")
	// ErrNoVulkan: there is no Vulkan loader or driver, or the program was
	// built without Vulkan.
	ErrNoVulkan = errors.New("no Vulkan")
	// ErrNoDevice: no device answers to the specification given to Open.
	ErrNoDevice = errors.New("no such device")
	// ErrDevice: a tensor or a stream of another device.
	ErrDevice = errors.New("another device's")
	// ErrTooLarge: more bytes than one tensor can have on this device, or more
	// elements than an op can count.
	ErrTooLarge = errors.New("too large")
	// ErrInvalid: a nil or senseless argument.
	ErrInvalid = errors.New("invalid argument")
	// ErrInternal: the native library failed in a way that has no name here.
	ErrInternal = errors.New("internal error")
)

// OpError tells which operation failed, on what and why.
type OpError struct {
	Op     string  // basename of the op, or of the view operation
	Shapes [][]int // of the operands that are present, in order
	DTypes []DType
	Reason string // may be empty
	Err    error  // what it is: one of this package's errors, or a backend's
}

// Error gives op, operands, reason and kind in one line.
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

// Unwrap returns what kind of error it is.
func (e *OpError) Unwrap() error { return e.Err }

// MemoryError is an ErrOutOfMemory with its sizes.
type MemoryError struct {
	Requested int64 // bytes
	Available int64 // bytes left on the device or in the budget
	Budget    int64 // bytes, where a budget refused it; else 0
}

// Error gives the sizes in bytes.
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
