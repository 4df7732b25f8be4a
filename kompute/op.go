package kompute

import (
	"slices"
	"strings"
	"unsafe"

	"github.com/kompute-go/kompute-go/internal/array"
)

// Access tells how an op accesses an operand.
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

// Out is an operand that the op writes entirely and does not read.
func Out(v *View) Arg { return Arg{View: v, Access: AccessWrite} }

// InOut is an operand that the op reads and writes, or writes only in part.
func InOut(v *View) Arg { return Arg{View: v, Access: AccessReadWrite} }

// Op is one operation for Stream.Enqueue. Package ops makes them.
type Op struct {
	// Name is the op's basename in the native library. An op that the library
	// does not have runs through CPU.
	Name string
	// Args in the order of csrc/ops/ops.def. The caller may use the slice again, and
	// that of Params, when Enqueue has returned.
	Args []Arg
	// Params is the memory of the op's parameter struct (see ParamBytes).
	Params []byte
	// CPU runs the op on host arrays, one for each of Args; absent ones are
	// zero values. Params is a copy of the op's. Both are valid only during the
	// call. A panic is an error of the op. The function must not end its goroutine
	// (runtime.Goexit, FailNow of a test), nor use its stream, which waits for it,
	// except by Err, Fail and Stats. It may enqueue on another stream, but functions
	// of two streams must not enqueue on each other's: both could wait for room. It is
	// called on the CPU device, and on others if they do not support the op. Regions
	// of the CPU device run attention and quantized products by Name, Args and Params
	// instead, which must be as in ops.def.
	CPU func(args []Array, params []byte) error
	// Rows is how many rows a product multiplies with one matrix, for
	// StreamStats.CallsByRows; 0 for other ops.
	Rows int

	algorithm *Algorithm // dispatch this instead of a native op
	groups    [3]uint32
	push      []uint32
	bytes     int64 // of the operands: what the op adds to the window's bytes
}

// ParamBytes returns a copy of the memory of *p, a struct of 32-bit fields, for
// Op.Params.
func ParamBytes[P any](p *P) []byte {
	out := make([]byte, unsafe.Sizeof(*p))
	copy(out, unsafe.Slice((*byte)(unsafe.Pointer(p)), unsafe.Sizeof(*p)))
	return out
}

// kept returns a copy of op that does not share memory with the caller.
func (op *Op) kept() Op {
	out := *op
	out.Args, out.Params = slices.Clone(op.Args), slices.Clone(op.Params)
	return out
}

// operands describes the operands: "read float32[2 3] strides [1 2], write float32[2 3]".
func (op *Op) operands() string {
	var list []string
	for i, a := range op.Args {
		if a.View != nil {
			l := a.View.layout
			o := RegionOperand{Index: i, DType: a.View.dtype, Shape: l.Shape, Strides: l.Strides, Offset: l.Offset}
			list = append(list, a.Access.String()+" "+o.String())
		}
	}
	return strings.Join(list, ", ")
}

// unpin releases the operands' storages. The device's mu is held.
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

// overwrites reports whether the op replaces all of the storage's content.
func (a Arg) overwrites() bool {
	v := a.View
	return a.Access == AccessWrite && array.Covers(v.layout, v.st.bytes/v.dtype.Size())
}

// needs returns the access to the storage's content: an op that replaces only a part of it needs the rest.
func (a Arg) needs() Access {
	if a.overwrites() {
		return a.Access
	}
	return a.Access | AccessRead
}
