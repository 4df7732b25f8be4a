package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// eights writes a function that handles n, a multiple of 8, elements of src, 8 at
// a time, four times in a turn while there are as many. from and to are element sizes.
func eights(name, doc, signature string, from, to int, prepare, body func(src, dst Mem)) {
	text(doc, "%s", name)(signature)
	dst, src, n := arg("dst"), arg("src"), arg("n")
	prepare(Mem{}, Mem{})
	turn := func(times int) {
		for i := range times {
			body(Mem{Base: src, Disp: i * 8 * from}, Mem{Base: dst, Disp: i * 8 * to})
		}
		ADDQ(U32(times*8*from), src)
		ADDQ(U32(times*8*to), dst)
	}
	SUBQ(U8(32), n)
	JL(LabelRef("few"))
	Label("many")
	turn(4)
	SUBQ(U8(32), n)
	JGE(LabelRef("many"))
	Label("few")
	ADDQ(U8(32), n)
	JZ(LabelRef("done"))
	Label("loop")
	turn(1)
	SUBQ(U8(8), n)
	JNZ(LabelRef("loop"))
	Label("done")
	VZEROUPPER()
	RET()
}

func conversions() {
	none := func(_, _ Mem) {}
	const widen, narrow = "(dst *float32, src *uint16, n int)", "(dst *uint16, src *float32, n int)"
	eights("fromBF16AVX2", "widens bfloat16 numbers; n is a multiple of 8.", widen, 2, 4, none, func(src, dst Mem) {
		y := YMM()
		VPMOVZXWD(src, y)
		VPSLLD(U8(16), y, y)
		VMOVDQU(y, dst)
	})
	eights("fromF16AVX2", "widens binary16 numbers; n is a multiple of 8.", widen, 2, 4, none, func(src, dst Mem) {
		y := YMM()
		VCVTPH2PS(src, y)
		VMOVUPS(y, dst)
	})
	eights("addBF16AVX2", "adds bfloat16 numbers to dst; n is a multiple of 8.", widen, 2, 4, none, func(src, dst Mem) {
		y := YMM()
		VPMOVZXWD(src, y)
		VPSLLD(U8(16), y, y)
		VADDPS(dst, y, y)
		VMOVUPS(y, dst)
	})
	eights("addF16AVX2", "adds binary16 numbers to dst; n is a multiple of 8.", widen, 2, 4, none, func(src, dst Mem) {
		y := YMM()
		VCVTPH2PS(src, y)
		VADDPS(dst, y, y)
		VMOVUPS(y, dst)
	})
	eights("toF16AVX2", "rounds to binary16 numbers; n is a multiple of 8.", narrow, 4, 2, none, func(src, dst Mem) {
		y := YMM()
		VMOVUPS(src, y)
		VCVTPS2PH(U8(0), y, dst)
	})
	var one, round, quiet reg.VecVirtual
	eights("toBF16AVX2", "rounds to bfloat16 numbers; n is a multiple of 8.", narrow, 4, 2, func(_, _ Mem) {
		one, round, quiet = constant(1), constant(0x7fff), constant(0x40)
	}, func(src, dst Mem) {
		bits, up, odd, nan := YMM(), YMM(), YMM(), YMM()
		VMOVUPS(src, bits)
		VPSRLD(U8(16), bits, up)
		VPAND(one, up, odd)
		VPADDD(round, odd, odd)
		VPADDD(bits, odd, odd)
		VPSRLD(U8(16), odd, odd)
		VCMPPS(U8(3), bits, bits, nan) // unordered
		VPOR(quiet, up, up)
		VPBLENDVB(nan, up, odd, odd)
		VPACKUSDW(odd, odd, odd)
		VPERMQ(U8(0x08), odd, odd)
		VMOVDQU(odd.AsX(), dst)
	})
}
