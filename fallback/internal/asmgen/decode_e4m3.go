package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// decodeE4M3 writes a function that makes floats of floats of 8 bits in groups of 32 with a
// power of two.
func decodeE4M3(v isa) {
	text("sets dst to E4M3 numbers times 2^(scale-127), in groups of 32.", "decodeE4M3%s", v.name)(
		"(dst *float32, codes *byte, scales *byte, groups int)")
	d := &e4m3{isa: v}
	dst, codes, scales, groups := arg("dst"), arg("codes"), arg("scales"), arg("groups")
	d.rest, d.sign, d.nan = v.constant(0x3f803f80), v.constant(0x80008000), v.constant(0x7e007e00)
	times256, scale := v.constant(0x43800000), v.vec()
	power, least := GP32(), GP32()
	MOVL(U32(0x00400000), least)
	Label("group")
	MOVBLZX(Mem{Base: scales}, power)
	SHLL(U8(23), power)
	CMOVLEQ(least, power) // 2^-127 is subnormal
	x := XMM()
	VMOVD(power, x)
	VBROADCASTSS(x, scale)
	for at := 0; at < 32; at += 2 * v.lanes {
		for half, r := range d.halves(Mem{Base: codes, Disp: at}) {
			VMULPS(times256, r, r)
			VMULPS(scale, r, r)
			VMOVUPS(r, Mem{Base: dst, Disp: 4 * (at + half*v.lanes)})
		}
	}
	INCQ(scales)
	ADDQ(U8(32), codes)
	ADDQ(U32(128), dst)
	DECQ(groups)
	JNZ(LabelRef("group"))
	VZEROUPPER()
	RET()
}

// e4m3 has constants for two numbers each.
type e4m3 struct {
	isa
	rest, sign, nan reg.VecVirtual
}

// halves returns the numbers of two vectors, divided by 256: with its exponent and its fraction
// in the places of a float16's, a number is that much smaller, also a subnormal one.
func (d *e4m3) halves(from Mem) [2]reg.VecVirtual {
	words, sign := d.vec(), d.vec()
	VPMOVZXBW(from, words)
	VPSLLW(U8(8), words, sign)
	VPSLLW(U8(7), words, words)
	d.and(d.rest, words, words)
	d.and(d.sign, sign, sign)
	if d.wide() {
		isNaN := K()
		VPCMPEQW(d.rest, words, isNaN)
		VMOVDQU16(d.nan, isNaN, words)
		VPORD(sign, words, words)
	} else {
		isNaN := d.vec()
		VPCMPEQW(d.rest, words, isNaN)
		VPBLENDVB(isNaN, d.nan, words, words)
		VPOR(sign, words, words)
	}
	out := [2]reg.VecVirtual{d.vec(), d.vec()}
	if d.wide() {
		upper := YMM()
		VEXTRACTI64X4(U8(1), words, upper)
		VCVTPH2PS(words.AsY(), out[0])
		VCVTPH2PS(upper, out[1])
	} else {
		upper := XMM()
		VEXTRACTI128(U8(1), words, upper)
		VCVTPH2PS(words.AsX(), out[0])
		VCVTPH2PS(upper, out[1])
	}
	return out
}
