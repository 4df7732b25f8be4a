package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// factorPanel writes what makes panels of scales and biases of 16 bits: the numbers of two groups of a row are gathered
// as one of 32 bits.
func factorPanel() {
	text("sets two rows of a panel for each of some pairs of groups, to the numbers of 32 rows that lie pitch bytes apart, of the type factors.", "factorPanelAVX512")(
		"(panel *float32, from *byte, pitch, pairs, factors int)")
	panel, pitch := arg("panel"), arg("pitch")
	halves := [2]reg.GPVirtual{arg("from"), GP64()} // rows 0 to 15, and 16 to 31
	MOVQ(pitch, halves[1])
	SHLQ(U8(4), halves[1])
	ADDQ(halves[0], halves[1])
	places := ZMM()
	VPBROADCASTD(pitch.As32(), places)
	VPMULLD(sixteenTable(), places, places)
	gather := func(half int) reg.VecVirtual {
		r, all := ZMM(), K()
		KXNORW(all, all, all)
		VPGATHERDD(Mem{Base: halves[half], Index: places, Scale: 1}, all, r)
		return r
	}
	pairs, upper := arg("pairs"), avx512.constant(0xffff0000)
	loop := func(label string, widen func(both reg.VecVirtual) (first, second reg.VecVirtual)) {
		Label(label)
		for half := range halves {
			first, second := widen(gather(half))
			VMOVUPS(first, Mem{Base: panel, Disp: 64 * half})
			VMOVUPS(second, Mem{Base: panel, Disp: 128 + 64*half})
			ADDQ(U8(4), halves[half])
		}
		ADDQ(U32(256), panel)
		DECQ(pairs)
		JNZ(LabelRef(label))
		VZEROUPPER()
		RET()
	}
	CMPQ(slot("factors"), U8(float16Factors))
	JEQ(LabelRef("float16"))
	loop("bfloat16", func(both reg.VecVirtual) (first, second reg.VecVirtual) {
		first = ZMM()
		VPSLLD(U8(16), both, first)
		VPANDD(upper, both, both)
		return first, both
	})
	loop("float16", func(both reg.VecVirtual) (first, second reg.VecVirtual) {
		first, second = ZMM(), ZMM()
		VPMOVDW(both, first.AsY())
		VPSRLD(U8(16), both, both)
		VPMOVDW(both, second.AsY())
		VCVTPH2PS(first.AsY(), first)
		VCVTPH2PS(second.AsY(), second)
		return first, second
	})
}

// sixteenTable has the numbers from 0 to 15.
func sixteenTable() Mem {
	table := GLOBL("fromZeroToFifteen", 8|16)
	for i := range 16 {
		DATA(4*i, U32(uint32(i)))
	}
	return table
}
