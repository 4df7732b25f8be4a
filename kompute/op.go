package kompute

import (
	"unsafe"

	"github.com/kompute-go/kompute-go/internal/array"
)

// Access says what an op does with an operand.
type Access uint8

// The kinds of access. They are part of the C ABI (csrc/abi/kpx.h).
const (
	AccessRead      Access = 1
	AccessWrite     Access = 2
	AccessReadWrite Access = 3
)

// Arg is an operand of an Op. One without a View is absent.
type Arg struct {
	View   *View
	Access Access
}

// In is an operand that the op reads.
func In(v *View) Arg { return Arg{View: v, Access: AccessRead} }

// Out is an operand of which the op writes every element and reads none.
func Out(v *View) Arg { return Arg{View: v, Access: AccessWrite} }

// InOut is an operand that the op reads and writes, or of which it writes only
// some elements.
func InOut(v *View) Arg { return Arg{View: v, Access: AccessReadWrite} }

// Op is one operation for Stream.Enqueue. Package ops makes them.
type Op struct {
	// Name is the op's basename, by which the native library knows it. One that
	// it does not know runs through CPU.
	Name string
	// Args in the order that csrc/ops/ops.def gives. The stream keeps the slice.
	Args []Arg
	// Params is the memory of the op's parameter struct (see ParamBytes).
	Params []byte
	// CPU runs the op on host arrays, one for each of Args, absent ones zero.
	// The arrays are only valid during the call. It is called on the CPU device,
	// and elsewhere if the device does not support the op.
	CPU func(args []array.Array) error

	algorithm *Algorithm // dispatch this instead of a native op
	groups    [3]uint32
	push      []uint32
}

// ParamBytes returns a copy of the memory of *p, a struct of 32-bit fields: what
// Op.Params is.
func ParamBytes[P any](p *P) []byte {
	out := make([]byte, unsafe.Sizeof(*p))
	copy(out, unsafe.Slice((*byte)(unsafe.Pointer(p)), unsafe.Sizeof(*p)))
	return out
}

// operandBytes is what counts against the window.
func operandBytes(op Op) int64 {
	n := 0
	for _, a := range op.Args {
		if a.View != nil {
			n += a.View.layout.Size() * a.View.dtype.Size()
		}
	}
	return int64(n)
}

// unpin lets the operands' storages go. The device's mu is held.
func (op Op) unpin() {
	for _, a := range op.Args {
		if a.View != nil {
			a.View.st.unpin()
		}
	}
}

// busy reports whether the content of an operand is being moved. The device's
// mu is held.
func (op Op) busy() bool {
	for _, a := range op.Args {
		if a.View != nil && a.View.st.cpu.busy {
			return true
		}
	}
	return false
}

// overwrites reports whether the op leaves nothing of the storage's content.
func (a Arg) overwrites() bool {
	v := a.View
	return a.Access == AccessWrite && wholeStorage(v.layout, v.st.bytes/v.dtype.Size())
}
