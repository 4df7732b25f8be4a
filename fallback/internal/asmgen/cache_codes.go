package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
)

// decodeHeads writes a function that makes floats of heads of codes, each followed by a
// scale for each group of 32 of its codes.
func decodeHeads(v isa) {
	text("sets dst to (code - zero) · scale; heads of groups of 32 codes, stride bytes apart in src.",
		"decodeHeads%s", v.name)("(dst *float32, src *byte, stride, heads, groups, zero int)")
	dst, src, stride, heads, groups := arg("dst"), arg("src"), arg("stride"), arg("heads"), arg("groups")
	low, zero := XMM(), v.vec()
	VMOVQ(arg("zero"), low)
	VPBROADCASTD(low, zero)
	codes, scales, left, scale := GP64(), GP64(), GP64(), v.vec()
	Label("head")
	MOVQ(src, codes)
	MOVQ(groups, scales)
	SHLQ(U8(5), scales)
	ADDQ(src, scales)
	MOVQ(groups, left)
	Label("group")
	VBROADCASTSS(Mem{Base: scales}, scale)
	for i := 0; i < 32; i += v.lanes {
		r := v.vec()
		VPMOVZXBD(Mem{Base: codes, Disp: i}, r)
		VPSUBD(zero, r, r)
		VCVTDQ2PS(r, r)
		VMULPS(scale, r, r)
		VMOVUPS(r, Mem{Base: dst, Disp: 4 * i})
	}
	ADDQ(U8(32), codes)
	ADDQ(U8(4), scales)
	ADDQ(I32(128), dst)
	DECQ(left)
	JNZ(LabelRef("group"))
	ADDQ(stride, src)
	DECQ(heads)
	JNZ(LabelRef("head"))
	VZEROUPPER()
	RET()
}
