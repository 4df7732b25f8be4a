package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
)

// partsFamily writes what splits float32 numbers in three bfloat16 numbers.
func partsFamily() {
	text("splits groups of x, 16 times vectors numbers each, in three parts of bfloat16, part bytes apart, and sets sums to the sums of the groups.", "splitPartsAVX512")(
		"(dst *uint16, part int, x *float32, sums *float32, groups int, vectors int)")
	dst, part, x, sums, groups, vectors := arg("dst"), arg("part"), arg("x"), arg("sums"), arg("groups"), arg("vectors")
	upper := avx512.constant(0xffff0000)
	Label("group")
	sum, left := ZMM(), GP64()
	avx512.zero(sum)
	MOVQ(vectors, left)
	Label("vector")
	rest := ZMM()
	VMOVUPS(Mem{Base: x}, rest)
	VADDPS(rest, sum, sum)
	for i := range 3 {
		bits, words := ZMM(), YMM()
		VPANDD(upper, rest, bits)
		if i < 2 {
			VSUBPS(bits, rest, rest) // exact
		}
		VPSRLD(U8(16), bits, bits)
		VPMOVDW(bits, words)
		to := Mem{Base: dst}
		if i > 0 {
			to.Index, to.Scale = part, uint8(i)
		}
		VMOVDQU(words, to)
	}
	ADDQ(U8(64), x)
	ADDQ(U8(32), dst)
	DECQ(left)
	JNZ(LabelRef("vector"))
	total := avx512.sum(sum)
	VMOVSS(total, Mem{Base: sums})
	ADDQ(U8(4), sums)
	DECQ(groups)
	JNZ(LabelRef("group"))
	VZEROUPPER()
	RET()
}
