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
	groupLoop{l, &l.out, avx2, acrossAll, 4, 2*partBytes - 64}.emit()
	l.end()
}

func (l *narrowGroupLimbs) constants() {
	l.limbs.constants()
	l.up, l.down = YMM(), YMM()
}

func (l *narrowGroupLimbs) inverse() reg.VecVirtual { return l.down }

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
