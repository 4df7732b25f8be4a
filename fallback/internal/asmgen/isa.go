package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// isa is an instruction set with vectors of lanes float32 numbers.
type isa struct {
	name  string
	lanes int
}

var (
	avx2   = isa{"AVX2", 8}
	avx512 = isa{"AVX512", 16}
)

func (v isa) wide() bool { return v.lanes == 16 }

// vec allocates a vector register.
func (v isa) vec() reg.VecVirtual {
	if v.wide() {
		return ZMM()
	}
	return YMM()
}

// vecs allocates n vector registers.
func (v isa) vecs(n int) []reg.VecVirtual {
	out := make([]reg.VecVirtual, n)
	for i := range out {
		out[i] = v.vec()
	}
	return out
}

// zero clears a register.
func (v isa) zero(r reg.VecVirtual) {
	if v.wide() {
		VPXORD(r, r, r)
		return
	}
	VXORPS(r, r, r)
}

// bytes is the size of a vector.
func (v isa) bytes() int { return 4 * v.lanes }

// halve adds the upper half of a wide vector to its lower and returns that.
func (v isa) halve(r reg.VecVirtual) reg.VecVirtual {
	if !v.wide() {
		return r
	}
	upper := YMM()
	VEXTRACTF64X4(U8(1), r, upper)
	low := r.AsY().(reg.VecVirtual)
	VADDPS(upper, low, low)
	return low
}

// sum adds all lanes of r into the first lane of the result. sum, sum2 and sum4
// add in the same order, so that a result does not depend on how many are
// computed together: views and their copies give the same bits.
func (v isa) sum(r reg.VecVirtual) reg.VecVirtual {
	y := v.halve(r)
	VHADDPS(y, y, y)
	VHADDPS(y, y, y)
	return v.addUpper(y)
}

// sum2 adds the lanes of each of two registers into the first two of the result.
func (v isa) sum2(a, b reg.VecVirtual) reg.VecVirtual {
	a, b = v.halve(a), v.halve(b)
	VHADDPS(b, a, a)
	VHADDPS(a, a, a)
	return v.addUpper(a)
}

// addUpper adds the upper four lanes to the lower.
func (v isa) addUpper(y reg.VecVirtual) reg.VecVirtual {
	upper := XMM()
	if v.wide() {
		VEXTRACTF32X4(U8(1), y, upper) // reaches all registers
	} else {
		VEXTRACTF128(U8(1), y, upper)
	}
	x := y.AsX().(reg.VecVirtual)
	VADDPS(upper, x, x)
	return x
}

// sum4 adds the lanes of each of four registers into the lanes of the result.
func (v isa) sum4(r []reg.VecVirtual) reg.VecVirtual {
	a, b, c, d := v.halve(r[0]), v.halve(r[1]), v.halve(r[2]), v.halve(r[3])
	VHADDPS(b, a, a)
	VHADDPS(d, c, c)
	VHADDPS(c, a, a)
	return v.addUpper(a)
}

// mask makes loads and stores of the first n lanes only, n < lanes.
type mask struct {
	isa isa
	k   reg.OpmaskVirtual
	y   reg.VecVirtual
}

// tailMask loads the mask of n lanes.
func (v isa) tailMask(n reg.GPVirtual) mask {
	m := mask{isa: v}
	if v.wide() {
		m.k = K()
		bits := GP64()
		Comment("Mask of the lanes of the tail")
		MOVQ(I64(-1), bits)
		bzhi := GP64()
		BZHIQ(n, bits, bzhi)
		KMOVW(bzhi.As32(), m.k)
		return m
	}
	m.y = YMM()
	table, at := GP64(), GP64()
	Comment("Mask of the lanes of the tail")
	LEAQ(laneMasks(), table)
	MOVQ(n, at)
	NEGQ(at)
	VMOVUPS(Mem{Base: table, Index: at, Scale: 4, Disp: 32}, m.y)
	return m
}

func (m mask) load(from Mem, to reg.VecVirtual) {
	if m.isa.wide() {
		VMOVUPS_Z(from, m.k, to)
		return
	}
	VMASKMOVPS(from, m.y, to)
}

func (m mask) store(from reg.VecVirtual, to Mem) {
	if m.isa.wide() {
		VMOVUPS(from, m.k, to)
		return
	}
	VMASKMOVPS(from, m.y, to)
}

var laneMaskTable *Mem

// laneMasks is 8 dwords of ones, then 8 of zeros.
func laneMasks() Mem {
	if laneMaskTable == nil {
		table := GLOBL("lanemasks", 8|16) // RODATA|NOPTR
		for i := range 16 {
			ones := U32(0)
			if i < 8 {
				ones = 0xffffffff
			}
			DATA(4*i, ones)
		}
		laneMaskTable = &table
	}
	return *laneMaskTable
}

// constant puts a dword into every lane.
func (v isa) constant(bits uint32) reg.VecVirtual {
	r, x, y := GP32(), XMM(), v.vec()
	MOVL(U32(bits), r)
	VMOVD(r, x)
	VPBROADCASTD(x, y)
	return y
}

// constant is that of AVX2.
func constant(bits uint32) reg.VecVirtual { return avx2.constant(bits) }

var repeatedWords = map[string]Mem{}

// repeated is a vector of the same words in memory, of 256 bits.
func repeated(name string, word uint32) Mem {
	if table, ok := repeatedWords[name]; ok {
		return table
	}
	table := GLOBL(name, 8|16)
	for i := range 8 {
		DATA(4*i, U32(word))
	}
	repeatedWords[name] = table
	return table
}

func (v isa) loadInts(m Mem, r reg.VecVirtual) {
	if v.wide() {
		VMOVDQU32(m, r)
		return
	}
	VMOVDQU(m, r)
}

func (v isa) and(a, b, to reg.VecVirtual) {
	if v.wide() {
		VPANDD(a, b, to)
		return
	}
	VPAND(a, b, to)
}
