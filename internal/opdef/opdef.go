// Package opdef is what the ops' Go, C++ and GLSL have in common: element types,
// kinds, operands and parameters. csrc/ops/ops.def says it once; gen_ops.go,
// csrc/ops/gen_ops.hpp and shaders/include/gen_kinds.h are made of it.
package opdef

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

// Called returns the operand under the name that a Go function has for it.
func (o Operand) Called(name string) Operand {
	o.Name = name
	return o
}

// Op is an op's basename and its operands in their order. Of the first operand of
// concat there may be several.
type Op struct {
	Name     string
	Operands []Operand
}

func nameOf(names []string, number uint32) string {
	if int(number) >= len(names) || names[number] == "" {
		return "unknown"
	}
	return names[number]
}
