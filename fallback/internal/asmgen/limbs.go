package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// limbsFamily writes the functions that make limbs from floats; simd.Limbs documents their
// layout.
func limbsFamily() {
	(&limbs{}).emit("Natural")
	(&limbs{halves: true}).emit("Halves")
}

type limbs struct {
	halves                               bool
	x, out                               reg.GPVirtual
	absolute, smallest, upFrom, downFrom reg.VecVirtual
	digits, split, order, largest        reg.VecVirtual
	store                                func(unit, plane int, r reg.VecVirtual) // of limbs of one weight
}

func (l *limbs) elements() int {
	if l.halves {
		return 128
	}
	return 64
}

func (l *limbs) emit(order string) {
	text("makes the limbs of blocks of x, and returns the largest of their absolute values' bits.", "prepareLimbs%sAVX2", order)(
		"(out *byte, x *float32, blocks int) uint32")
	l.out, l.x, l.store = arg("out"), arg("x"), l.plane
	blocks := arg("blocks")
	l.absolute, l.smallest = constant(0x7fffffff), constant(22)
	l.upFrom, l.downFrom = constant(275), constant(21)
	l.constants()
	Label("block")
	for unit := range l.elements() / 32 {
		l.unit(unit)
	}
	ADDQ(U32(4*l.elements()), l.x)
	ADDQ(U32(3*l.elements()+128), l.out)
	DECQ(blocks)
	JNZ(LabelRef("block"))
	l.end()
}

// constants loads what planes takes, and clears the largest.
func (l *limbs) constants() {
	l.digits = constant(0x00808080)
	l.split, l.order, l.largest = YMM(), YMM(), YMM()
	VMOVDQU(splitTable(), l.split)
	VMOVDQU(orderTable(l.halves), l.order)
	avx2.zero(l.largest)
}

// end returns the largest of the absolute values' bits.
func (l *limbs) end() {
	acrossAll(l.largest, VPMAXUD)
	returnWord(l.largest)
}

// returnWord ends a function that returns the first word of a vector.
func returnWord(r reg.VecVirtual) {
	result := GP32()
	VMOVD(r.AsX(), result)
	Store(result, ReturnIndex(0))
	VZEROUPPER()
	RET()
}

// acrossAll joins all lanes of y in each of them.
func acrossAll(y reg.VecVirtual, op func(...Op)) {
	t := YMM()
	VPERM2I128(U8(1), y, y, t)
	op(t, y, y)
	VPSHUFD(U8(0x4e), y, t)
	op(t, y, y)
	VPSHUFD(U8(0xb1), y, t)
	op(t, y, y)
}

// unit makes the limbs of 32 elements.
func (l *limbs) unit(unit int) {
	n := make([]reg.VecVirtual, 4)
	most, t := YMM(), YMM()
	for i := range n {
		n[i] = YMM()
		VMOVUPS(Mem{Base: l.x, Disp: 4 * (32*unit + 8*i)}, n[i])
		if i == 0 {
			VPAND(l.absolute, n[i], most)
			continue
		}
		VPAND(l.absolute, n[i], t)
		VPMAXUD(t, most, most)
	}
	acrossAll(most, VPMAXUD)
	VPMAXUD(most, l.largest, l.largest)
	exponent, up, none := YMM(), YMM(), YMM()
	avx2.zero(none)
	VPCMPEQD(none, most, none)
	VPSRLD(U8(23), most, exponent)
	VPMAXUD(l.smallest, exponent, exponent)
	VPSUBD(exponent, l.upFrom, up)
	VPSLLD(U8(23), up, up)
	VPSUBD(l.downFrom, exponent, exponent)
	VPSLLD(U8(23), exponent, exponent)
	down := exponent
	VPANDN(down, none, down)
	for _, r := range n {
		VMULPS(up, r, r)
		VCVTPS2DQ(r, r)
	}
	l.laneSums(unit, n, down)
	l.planes(unit, n)
}

// laneSums writes the power and the sum of each lane of a unit.
func (l *limbs) laneSums(unit int, n []reg.VecVirtual, down reg.VecVirtual) {
	a, b := YMM(), YMM()
	VPHADDD(n[1], n[0], a)
	VPHADDD(n[3], n[2], b)
	VPHADDD(b, a, a) // sums of four: first those of the lower halves
	at := 3 * l.elements()
	if l.halves {
		upper := XMM()
		VEXTRACTI128(U8(1), a, upper)
		x := a.AsX().(reg.VecVirtual)
		VPADDD(upper, x, x)
		VCVTDQ2PS(x, x)
		VMULPS(down.AsX(), x, x)
		VMOVUPS(down.AsX(), Mem{Base: l.out, Disp: at + 16*unit})
		VMOVUPS(x, Mem{Base: l.out, Disp: at + 64 + 16*unit})
		return
	}
	VPERMD(a, l.order, a)
	VCVTDQ2PS(a, a)
	VMULPS(down, a, a)
	VMOVUPS(down, Mem{Base: l.out, Disp: at + 32*unit})
	VMOVUPS(a, Mem{Base: l.out, Disp: at + 64 + 32*unit})
}

// planes writes the limbs of a unit.
func (l *limbs) planes(unit int, n []reg.VecVirtual) {
	for _, r := range n {
		// Digits from -128 to 127: those of n + 0x808080, each less 0x80.
		VPADDD(l.digits, r, r)
		VPXOR(l.digits, r, r)
		if l.halves {
			VPERMD(r, l.order, r) // even elements, then odd ones
		}
		VPSHUFB(l.split, r, r) // the limbs of four elements side by side
	}
	low, high, t := YMM(), YMM(), YMM()
	VPUNPCKLDQ(n[1], n[0], low)
	VPUNPCKLDQ(n[3], n[2], high)
	VPUNPCKHDQ(n[1], n[0], n[0])
	VPUNPCKHDQ(n[3], n[2], n[2])
	VPUNPCKLQDQ(high, low, t)
	l.store(unit, 2, t)
	VPUNPCKHQDQ(high, low, t)
	l.store(unit, 1, t)
	VPUNPCKLQDQ(n[2], n[0], t)
	l.store(unit, 0, t)
}

func (l *limbs) plane(unit, plane int, r reg.VecVirtual) {
	at := plane * l.elements()
	if l.halves {
		VMOVDQU(r.AsX(), Mem{Base: l.out, Disp: at + 16*unit})
		VEXTRACTI128(U8(1), r, Mem{Base: l.out, Disp: at + 64 + 16*unit})
		return
	}
	VPERMD(r, l.order, r)
	VMOVDQU(r, Mem{Base: l.out, Disp: at + 32*unit})
}

// splitTable moves byte i of each of four dwords to dword i.
func splitTable() Mem {
	if splitLimbs == nil {
		table := GLOBL("splitLimbs", 8|16)
		for i := range 32 {
			DATA(i, U8(uint8(i%16%4*4+i%16/4)))
		}
		splitLimbs = &table
	}
	return *splitLimbs
}

var splitLimbs *Mem

// orderTable gives the lanes of a vector: where halves were interleaved, or the
// even ones and then the odd ones.
func orderTable(halves bool) Mem {
	name, lanes := "lanesInterleaved", []int{0, 4, 1, 5, 2, 6, 3, 7}
	if halves {
		name, lanes = "lanesEvenOdd", []int{0, 2, 4, 6, 1, 3, 5, 7}
	}
	table := GLOBL(name, 8|16)
	for i, lane := range lanes {
		DATA(4*i, U32(uint32(lane)))
	}
	return table
}
