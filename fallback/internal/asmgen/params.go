package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// arg loads a pointer or an int parameter.
func arg(name string) reg.GPVirtual { return Load(Param(name), GP64()).(reg.GPVirtual) }

// slot is where a parameter lies: registers are few, and what is used once per
// block of rows can stay in memory.
func slot(name string) Mem {
	basic, err := Param(name).Resolve()
	if err != nil {
		panic(err)
	}
	return basic.Addr
}

// floatArg loads a float32 parameter, and returnFloat stores a result. Load and Store would write MOVSS, which takes
// Intel's processors some 100 ns while the upper parts of 512-bit registers are in use.
func floatArg(name string) reg.VecVirtual {
	x := XMM()
	VMOVSS(slot(name), x)
	return x
}

func returnFloat(x Op) {
	basic, err := ReturnIndex(0).Resolve()
	if err != nil {
		panic(err)
	}
	VMOVSS(x, basic.Addr)
}

// scaled loads an int parameter and multiplies it by 4: floats to bytes.
func scaled(name string) reg.GPVirtual {
	r := arg(name)
	SHLQ(U8(2), r)
	return r
}

// rowAt gives the operand that lies disp bytes after the beginning of a row.
type rowAt func(row, disp int) Mem

// rowPointers makes operands for rows 0 to n-1 that lie stride bytes apart.
func rowPointers(base, stride reg.GPVirtual, n int) rowAt {
	var triple reg.GPVirtual
	if n > 3 {
		triple = tripled(stride)
	}
	return rowsAt(base, stride, triple)
}

func tripled(stride reg.GPVirtual) reg.GPVirtual {
	triple := GP64()
	LEAQ(Mem{Base: stride, Index: stride, Scale: 2}, triple)
	return triple
}

// rowsAt is rowPointers with three times the stride at hand.
func rowsAt(base, stride, triple reg.GPVirtual) rowAt {
	return func(row, disp int) Mem {
		switch row {
		case 0:
			return Mem{Base: base, Disp: disp}
		case 3:
			return Mem{Base: base, Index: triple, Scale: 1, Disp: disp}
		}
		return Mem{Base: base, Index: stride, Scale: uint8(row), Disp: disp}
	}
}

func text(doc, format string, args ...any) func(signature string) {
	name := fmt.Sprintf(format, args...)
	return func(signature string) {
		TEXT(name, 4, "func"+signature) // NOSPLIT
		Doc(name + " " + doc)
		Pragma("noescape")
	}
}
