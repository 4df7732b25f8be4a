// Package opdef has the definitions that Go, C++ and GLSL share: element types,
// kinds, operands and parameters of ops. csrc/ops/ops.def defines them once;
// gen_ops.go, csrc/ops/gen_ops.hpp and shaders/include/gen_kinds.h are generated.
package opdef

import "unsafe"

//go:generate go run ./gen

// Access says what an op does with an operand.
type Access uint8

// The accesses: Write writes every element and reads none, Update may do both.
const (
	Read Access = iota + 1
	Write
	Update
)

// Operand is an operand of an op: its place among the op's arrays, and its name.
type Operand struct {
	Index    int
	Name     string
	Access   Access
	Optional bool
}

// Called returns the operand with the name that a Go function gives it.
func (o Operand) Called(name string) Operand {
	o.Name = name
	return o
}

// Op is an op's basename and its operands in order. The first operand of concat may
// be repeated.
type Op struct {
	Name     string
	Operands []Operand
}

// ParamsOf returns the parameter struct in these bytes.
func ParamsOf[P any](bytes []byte) (params P) {
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&params)), unsafe.Sizeof(params)), bytes)
	return params
}

func nameOf(names []string, number uint32) string {
	if int(number) >= len(names) || names[number] == "" {
		return "unknown"
	}
	return names[number]
}
