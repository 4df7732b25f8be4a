package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// unpackFamily writes the functions that unpack codes to bytes.
// simd.unpackControl has the constants.
func unpackFamily() {
	for _, table := range []bool{false, true} {
		unpack512(table)
		unpack256(table)
	}
}

func unpackName(table bool, isa string) string {
	if table {
		return "unpackTable" + isa
	}
	return "unpackCodes" + isa
}

// wideCodes takes 64 codes from step bytes: it moves the bytes of eight codes to every eight
// bytes, and takes each code from there by a shift of its own.
type wideCodes struct {
	bytes, shifts, mask reg.VecVirtual
	present             reg.OpmaskVirtual
}

func newWideCodes(control, step reg.GPVirtual) wideCodes {
	u := wideCodes{ZMM(), ZMM(), ZMM(), K()}
	VMOVDQU64(Mem{Base: control}, u.bytes)
	VMOVDQU64(Mem{Base: control, Disp: 64}, u.shifts)
	VPBROADCASTD(Mem{Base: control, Disp: 128}, u.mask)
	ones := GP64()
	MOVQ(I64(-1), ones)
	BZHIQ(step, ones, ones)
	KMOVQ(ones, u.present)
	return u
}

func (u *wideCodes) unpack(from Mem) reg.VecVirtual {
	x := ZMM()
	VMOVDQU8_Z(from, u.present, x)
	VPERMB(x, u.bytes, x)
	VPMULTISHIFTQB(x, u.shifts, x)
	VPANDD(u.mask, x, x)
	return x
}

func unpack512(table bool) {
	text("writes codes as bytes, 64 times count of them; with a table, its numbers in their place.", "%s", unpackName(table, "VBMI"))(
		"(dst *byte, codes *byte, count int, step int, control *byte)")
	dst, codes, count, step, control := arg("dst"), arg("codes"), arg("count"), arg("step"), arg("control")
	wide, numbers := newWideCodes(control, step), ZMM()
	if table {
		VBROADCASTI32X4(Mem{Base: control, Disp: 144}, numbers)
	}
	Label("loop")
	x := wide.unpack(Mem{Base: codes})
	if table {
		VPSHUFB(x, numbers, x)
	}
	VMOVDQU64(x, Mem{Base: dst})
	ADDQ(step, codes)
	ADDQ(U8(64), dst)
	DECQ(count)
	JNZ(LabelRef("loop"))
	VZEROUPPER()
	RET()
}

// unpack256 moves the two bytes that hold a code to 16 bits, where a product with
// a power of two brings it to the top.
func unpack256(table bool) {
	text("writes codes as bytes, 32 times count of them; with a table, its numbers in their place. It may read 16 bytes further than the codes.", "%s", unpackName(table, "AVX2"))(
		"(dst *byte, codes *byte, count int, step int, control *byte)")
	dst, codes, count, step, control := arg("dst"), arg("codes"), arg("count"), arg("step"), arg("control")
	bytes, powers, shift, numbers := YMM(), YMM(), XMM(), YMM()
	VMOVDQU(Mem{Base: control}, bytes)
	VMOVDQU(Mem{Base: control, Disp: 32}, powers)
	VMOVQ(Mem{Base: control, Disp: 64}, shift)
	if table {
		VBROADCASTI128(Mem{Base: control, Disp: 72}, numbers)
	}
	Label("loop")
	a, b := YMM(), YMM()
	VBROADCASTI128(Mem{Base: codes}, a)
	VBROADCASTI128(Mem{Base: codes, Index: step, Scale: 1}, b)
	VPSHUFB(bytes, a, a)
	VPSHUFB(bytes, b, b)
	VPMULLW(powers, a, a)
	VPMULLW(powers, b, b)
	VPSRLW(shift, a, a)
	VPSRLW(shift, b, b)
	VPACKUSWB(b, a, a)
	VPERMQ(U8(0xd8), a, a)
	if table {
		VPSHUFB(a, numbers, a)
	}
	VMOVDQU(a, Mem{Base: dst})
	LEAQ(Mem{Base: codes, Index: step, Scale: 2}, codes)
	ADDQ(U8(32), dst)
	DECQ(count)
	JNZ(LabelRef("loop"))
	VZEROUPPER()
	RET()
}
