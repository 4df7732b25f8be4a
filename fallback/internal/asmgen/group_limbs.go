package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// groupsFamily writes the functions of simd.GroupLimbs, which documents their layout.
func groupsFamily() {
	(&groupLimbs{}).emit("Natural")
	(&groupLimbs{halves: true}).emit("Halves")
	(&narrowGroupLimbs{}).emit()
	for _, vnni := range []bool{false, true} {
		for _, groups := range []int{4, 2, 1} {
			(&narrowGroupDots{vnni: vnni, groups: groups}).emit("Halves")
		}
		(&narrowGroupDots{vnni: vnni, table: true, groups: 4}).emit("Table")
	}
	halfScalesFamily()
	packedFamily()
	for xs := 1; xs <= 2; xs++ {
		for _, groups := range []int{4, 2, 1} {
			(&groupDots{halves: true, parts: 2, groups: groups, xs: xs}).emit("Halves")
		}
		(&groupDots{halves: true, table: true, parts: 2, groups: 4, xs: xs}).emit("Table")
		(&groupDots16{groupDots: groupDots{halves: true, table: true, parts: 2, xs: xs}}).emit()
		(&groupDots{parts: 1, groups: 2, xs: xs}).emit("Natural")
		(&groupDots{parts: 1, groups: 1, xs: xs}).emit("Natural")
		(&groupDots{parts: 2, groups: 1, xs: xs}).emit("Natural")
	}
}

// packedFamily writes the products of one row of x with packed codes.
func packedFamily() {
	(&groupDots{packed: true, parts: 1, groups: 2, xs: 1}).emit("Packed")
	(&groupDots{packed: true, parts: 1, groups: 1, xs: 1}).emit("Packed")
	(&groupDots{packed: true, parts: 2, groups: 1, xs: 1}).emit("Packed")
}

// partBytes is the size of the limbs of 64 elements.
const partBytes = 3 * 64

// groupLimbs writes what makes limbs of groups of floats.
type groupLimbs struct {
	halves                               bool
	x, out                               reg.GPVirtual
	absolute, smallest, upFrom, downFrom reg.VecVirtual
	digits, evenOdd                      reg.VecVirtual
	largest, up, down                    reg.VecVirtual
}

const groupLimbsSignature = "(out *byte, x *float32, factors *float32, groups int, pairs int) uint32"

func (l *groupLimbs) emit(order string) {
	text("makes the limbs of groups of 32·pairs elements of x, and their factors, and returns the largest of their absolute values' bits. Elements fill whole parts, or both parts of a block.", "groupLimbs%sAVX512", order)(
		groupLimbsSignature)
	whole := 2 // pairs of a part, or of a block of two parts
	if l.halves {
		whole = 4
	}
	l.out, l.x = arg("out"), arg("x")
	groupLoop{l, &l.out, avx512, across, whole, l.toNext()}.emit()
	across(l.largest, VPMAXUD)
	returnWord(l.largest)
}

// groupLoop is the loop over groups, in the form of an instruction set.
type groupLoop struct {
	form interface {
		constants()
		// power sets the power of two that brings a group to integers, and its inverse.
		power(pairs, left reg.GPVirtual)
		// pair writes the limbs of 32 elements and moves on.
		pair(sum reg.VecVirtual)
		inverse() reg.VecVirtual
	}
	out           *reg.GPVirtual
	isa           isa
	across        func(r reg.VecVirtual, op func(...Op)) // joins all lanes in the first
	whole, toNext int                                    // pairs of a block or part, and how far it is from its end to the next one
}

func (g groupLoop) emit() {
	factors, groups, pairs := arg("factors"), arg("groups"), arg("pairs")
	g.form.constants()
	room, left, sum := GP64(), GP64(), g.isa.vec()
	MOVQ(U32(g.whole), room)

	Label("group")
	g.form.power(pairs, left)
	g.isa.zero(sum)
	MOVQ(pairs, left)
	Label("pair")
	g.form.pair(sum)
	DECQ(room)
	JNZ(LabelRef("inside"))
	MOVQ(U32(g.whole), room)
	ADDQ(U32(g.toNext), *g.out)
	Label("inside")
	DECQ(left)
	JNZ(LabelRef("pair"))
	g.across(sum, VPADDD)
	x, inverse := sum.AsX().(reg.VecVirtual), g.form.inverse().AsX()
	VCVTDQ2PS(x, x)
	VMULSS(inverse, x, x)
	VMOVSS(inverse, Mem{Base: factors})
	VMOVSS(x, Mem{Base: factors, Disp: 4})
	ADDQ(U8(8), factors)
	DECQ(groups)
	JNZ(LabelRef("group"))
}

func (l *groupLimbs) inverse() reg.VecVirtual { return l.down }

func (l *groupLimbs) constants() {
	v := avx512
	l.absolute, l.smallest, l.upFrom, l.downFrom = v.constant(0x7fffffff), v.constant(22), v.constant(275), v.constant(21)
	l.digits, l.largest, l.up, l.down = v.constant(0x00808080), ZMM(), ZMM(), ZMM()
	v.zero(l.largest)
	if l.halves {
		l.evenOdd = YMM()
		VMOVDQU(evenOddTable(), l.evenOdd)
	}
}

func (l *groupLimbs) power(pairs, left reg.GPVirtual) {
	most, t, at := ZMM(), ZMM(), GP64()
	avx512.zero(most)
	MOVQ(pairs, left)
	MOVQ(l.x, at)
	Label("most")
	for i := range 2 {
		VPANDD(Mem{Base: at, Disp: 64 * i}, l.absolute, t)
		VPMAXUD(t, most, most)
	}
	ADDQ(U8(128), at)
	DECQ(left)
	JNZ(LabelRef("most"))
	across(most, VPMAXUD)
	VPBROADCASTD(most.AsX(), most)
	VPMAXUD(most, l.largest, l.largest)
	VPSRLD(U8(23), most, most)
	VPMAXUD(l.smallest, most, most)
	VPSUBD(most, l.upFrom, l.up)
	VPSLLD(U8(23), l.up, l.up)
	VPSUBD(l.downFrom, most, l.down)
	VPSLLD(U8(23), l.down, l.down)
}

// toNext is how far it is from the end of a part, or of both parts of a block, to the next.
func (l *groupLimbs) toNext() int {
	if l.halves {
		return 2*partBytes - 64
	}
	return partBytes - 64
}

// across joins all lanes of z in its first.
func across(z reg.VecVirtual, op func(...Op)) {
	y, x := z.AsY().(reg.VecVirtual), z.AsX().(reg.VecVirtual)
	upper := YMM()
	VEXTRACTI64X4(U8(1), z, upper)
	op(upper, y, y)
	half := upper.AsX().(reg.VecVirtual)
	VEXTRACTI32X4(U8(1), y, half)
	op(half, x, x)
	VPSHUFD(U8(0x4e), x, half)
	op(half, x, x)
	VPSHUFD(U8(0xb1), x, half)
	op(half, x, x)
}

func (l *groupLimbs) pair(sum reg.VecVirtual) {
	n := [2]reg.VecVirtual{ZMM(), ZMM()}
	for i, r := range n {
		VMULPS(Mem{Base: l.x, Disp: 64 * i}, l.up, r)
		VCVTPS2DQ(r, r)
		VPADDD(r, sum, sum)
		// Digits from -128 to 127: those of n + 0x808080, each less 0x80.
		VPADDD(l.digits, r, r)
		VPXORD(l.digits, r, r)
	}
	for limb := 2; limb >= 0; limb-- {
		bytes := [2]reg.VecVirtual{XMM(), XMM()}
		for i, r := range n {
			VPMOVDB(r, bytes[i])
			if limb > 0 {
				VPSRLD(U8(8), r, r)
			}
		}
		if !l.halves {
			VMOVDQU32(bytes[0], Mem{Base: l.out, Disp: 64 * limb})
			VMOVDQU32(bytes[1], Mem{Base: l.out, Disp: 64*limb + 16})
			continue
		}
		all := YMM()
		VINSERTI32X4(U8(1), bytes[1], bytes[0].AsY(), all)
		VPSHUFB(l.evenOdd, all, all)
		VPERMQ(U8(0xd8), all, all)
		VMOVDQU32(all.AsX(), Mem{Base: l.out, Disp: 64 * limb})
		VEXTRACTI32X4(U8(1), all, Mem{Base: l.out, Disp: partBytes + 64*limb})
	}
	ADDQ(U32(128), l.x)
	if l.halves {
		ADDQ(U8(16), l.out)
	} else {
		ADDQ(U8(32), l.out)
	}
}

// evenOddTable moves the even bytes of 16 before the odd ones.
func evenOddTable() Mem {
	table := GLOBL("bytesEvenOdd", 8|16)
	for i := range 32 {
		DATA(i, U8(uint8(i%8*2+i%16/8)))
	}
	return table
}
