package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// narrowGroupLimbs is groupLimbs in the order Halves, by AVX2. For want of registers, constants stay in memory.
type narrowGroupLimbs struct {
	limbs
	up, down reg.VecVirtual
}

func (l *narrowGroupLimbs) emit() {
	text("is groupLimbsHalvesAVX512 without AVX-512.", "groupLimbsHalvesAVX2")(groupLimbsSignature)
	l.halves, l.store = true, l.part
	l.out, l.x = arg("out"), arg("x")
	factors, groups, pairs := arg("factors"), arg("groups"), arg("pairs")
	l.constants()
	l.up, l.down = YMM(), YMM()
	room, left, sum := GP64(), GP64(), YMM()
	const whole = 4 // pairs of a block
	MOVQ(U32(whole), room)

	Label("group")
	l.power(pairs, left)
	avx2.zero(sum)
	MOVQ(pairs, left)
	Label("pair")
	l.pair(sum)
	DECQ(room)
	JNZ(LabelRef("inside"))
	MOVQ(U32(whole), room)
	ADDQ(U32(2*partBytes-64), l.out)
	Label("inside")
	DECQ(left)
	JNZ(LabelRef("pair"))
	acrossAll(sum, VPADDD)
	x, down := sum.AsX().(reg.VecVirtual), l.down.AsX()
	VCVTDQ2PS(x, x)
	VMULSS(down, x, x)
	VMOVSS(down, Mem{Base: factors})
	VMOVSS(x, Mem{Base: factors, Disp: 4})
	ADDQ(U8(8), factors)
	DECQ(groups)
	JNZ(LabelRef("group"))
	l.end()
}

// power sets the power of two that brings a group to integers, and its inverse.
func (l *narrowGroupLimbs) power(pairs, left reg.GPVirtual) {
	most, t, at := YMM(), YMM(), GP64()
	avx2.zero(most)
	MOVQ(pairs, left)
	MOVQ(l.x, at)
	Label("most")
	for i := range 4 {
		VMOVDQU(Mem{Base: at, Disp: 32 * i}, t)
		VPAND(repeated("absolute", 0x7fffffff), t, t)
		VPMAXUD(t, most, most)
	}
	ADDQ(U32(128), at)
	DECQ(left)
	JNZ(LabelRef("most"))
	acrossAll(most, VPMAXUD)
	VPMAXUD(most, l.largest, l.largest)
	VPSRLD(U8(23), most, most)
	VPMAXUD(repeated("smallest", 22), most, most)
	VMOVDQU(repeated("upFrom", 275), l.up)
	VPSUBD(most, l.up, l.up)
	VPSLLD(U8(23), l.up, l.up)
	VPSUBD(repeated("downFrom", 21), most, l.down)
	VPSLLD(U8(23), l.down, l.down)
}

// pair writes the limbs of 32 elements and moves on.
func (l *narrowGroupLimbs) pair(sum reg.VecVirtual) {
	n := avx2.vecs(4)
	for i, r := range n {
		VMULPS(Mem{Base: l.x, Disp: 32 * i}, l.up, r)
		VCVTPS2DQ(r, r)
		VPADDD(r, sum, sum)
	}
	l.planes(0, n)
	ADDQ(U32(128), l.x)
	ADDQ(U8(16), l.out)
}

// part writes limbs of one weight: those of the even elements, and in the next part those of the odd ones.
func (l *narrowGroupLimbs) part(_, limb int, r reg.VecVirtual) {
	VMOVDQU(r.AsX(), Mem{Base: l.out, Disp: 64 * limb})
	VEXTRACTI128(U8(1), r, Mem{Base: l.out, Disp: partBytes + 64*limb})
}
