package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// narrowGroupDots is groupDots by AVX2, for codes of 4 bits in the order Halves and one row of x. Sums of a few products
// of two bytes have 16 bits, without AVX-VNNI. For want of registers, limbs stay in memory. A block of a row's codes is
// two vectors, each of which has the codes of 64 elements.
//
// Making floats of sums and adding these takes long, but few instructions. So that other work fills that time, it is
// done in the middle of what follows.
type narrowGroupDots struct {
	table  bool // codes stand for numbers of a table
	vnni   bool // by AVX-VNNI
	groups int  // in a block

	code, ahead, x, powers reg.GPVirtual
	row                    rowAt
	mask, numbers, total   reg.VecVirtual
	ones, times256, weight Mem
	factors                [2]Mem // scales and biases of four groups, each for four rows
	due                    func() // adds the last sums to the results
}

func (d *narrowGroupDots) emit(order string) {
	name, isa := fmt.Sprintf("groupDots%s%d", order, 128/d.groups), "AVX2"
	if d.vnni {
		isa = "AVXVNNI"
	}
	text("is "+name+"x1VNNI512 without AVX-512.", "%s%s", name, isa)(groupDotsSignature)
	stride, pitch := arg("stride"), arg("pitch")
	triple := tripled(pitch)
	at, rows := factorRows(pitch, triple, &d.factors)
	d.code, d.ahead, d.x, d.powers = GP64(), GP64(), GP64(), GP64()
	d.row = rowPointers(d.code, stride, 4)
	d.constants()
	left := GP64()

	Label("rows")
	MOVQ(slot("scales"), at[0])
	MOVQ(slot("biases"), at[1])
	MOVQ(slot("blocks"), left)
	MOVQ(slot("codes"), d.code)
	MOVQ(d.code, d.ahead)
	MOVQ(slot("x"), d.x)
	MOVQ(slot("powers"), d.powers)
	VXORPS(d.total, d.total, d.total)
	Label("groups")
	d.loadFactors(at, rows)
	var last []func()
	for block := range 4 / d.groups {
		if block > 0 {
			DECQ(left)
			JZ(LabelRef(fmt.Sprintf("last%d", block)))
			last = append(last, d.due)
		}
		d.block(block * d.groups)
	}
	d.settle()
	ADDQ(U8(8*4), d.powers)
	DECQ(left)
	JNZ(LabelRef("groups"))
	JMP(LabelRef("store"))
	for i, add := range last {
		Label(fmt.Sprintf("last%d", i+1))
		add()
		JMP(LabelRef("store"))
	}
	Label("store")
	out := GP64()
	MOVQ(slot("out"), out)
	VMOVUPS(d.total, Mem{Base: out})
	ADDQ(U8(16), slot("out"))
	nextRows(stride, pitch, triple, "scales", "biases")
}

func (d *narrowGroupDots) constants() {
	d.mask, d.total = constant(0x0f0f0f0f), XMM()
	d.ones, d.times256, d.weight = repeated("ones16", 0x00010001), repeated("times256", 0x01000100), repeated("weight65536", 0x47800000)
	if d.table {
		d.numbers = YMM()
		VBROADCASTI128(Mem{Base: arg("control")}, d.numbers)
	}
}

// loadFactors stores four groups' scales and biases of four rows, group by group, and moves on.
func (d *narrowGroupDots) loadFactors(at [2]reg.GPVirtual, rows [2]rowAt) {
	all := [2][4]reg.VecVirtual{}
	load := func(size int, widen func(from Mem, to reg.VecVirtual)) {
		for i := range all {
			for row, r := range all[i] {
				widen(rows[i](row, 0), r)
			}
			ADDQ(U8(4*size), at[i])
		}
	}
	for i := range all {
		for row := range all[i] {
			all[i][row] = XMM()
		}
	}
	if !d.table {
		CMPQ(slot("factors"), U8(bfloat16Factors))
		JEQ(LabelRef("bfloat16"))
		JA(LabelRef("float16"))
	}
	load(4, func(from Mem, to reg.VecVirtual) { VMOVUPS(from, to) })
	if !d.table {
		JMP(LabelRef("loaded"))
		Label("bfloat16")
		load(2, func(from Mem, to reg.VecVirtual) {
			VPMOVZXWD(from, to)
			VPSLLD(U8(16), to, to)
		})
		JMP(LabelRef("loaded"))
		Label("float16")
		load(2, func(from Mem, to reg.VecVirtual) { VCVTPH2PS(from, to) })
		Label("loaded")
	}
	for i, r := range all {
		for group, of := range transposed4(r) {
			VMOVUPS(of, d.factors[i].Offset(16*group))
		}
	}
}

// transposed4 transposes four vectors of four numbers.
func transposed4(r [4]reg.VecVirtual) [4]reg.VecVirtual {
	a, b := XMM(), XMM()
	VUNPCKLPS(r[1], r[0], a)
	VUNPCKHPS(r[1], r[0], r[0])
	VUNPCKLPS(r[3], r[2], b)
	VUNPCKHPS(r[3], r[2], r[2])
	VMOVLHPS(b, a, r[1])
	VMOVHLPS(a, b, b)
	VMOVLHPS(r[2], r[0], r[3])
	VMOVHLPS(r[0], r[2], r[2])
	return [4]reg.VecVirtual{r[1], b, r[3], r[2]}
}

// block adds a block of four rows to the results, and moves on. first is its first group among four.
func (d *narrowGroupDots) block(first int) {
	for line := range 4 {
		PREFETCHT0(Mem{Base: d.ahead, Disp: 2*prefetchAhead + 64*line})
	}
	ADDQ(U32(256), d.ahead)
	if d.groups == 1 {
		d.addLater(first, d.float, 0, 32)
	} else {
		for vector := range 2 {
			if d.groups == 2 {
				d.addLater(first+vector, d.float, 32*vector)
			} else {
				d.addLater(first+2*vector, d.floats, 32*vector)
			}
		}
	}
	ADDQ(U8(64), d.code)
	ADDQ(U32(2*partBytes), d.x)
}

// addLater makes the sums of vectors of codes, of group first among four and, if floats has two, of the next one.
func (d *narrowGroupDots) addLater(first int, floats func(high, low reg.VecVirtual) []reg.VecVirtual, vectors ...int) {
	high, low := d.sums(vectors)
	d.due = func() {
		for i, n := range floats(high, low) {
			d.add(n, first+i)
		}
	}
}

// settle adds the last sums, unless that is done.
func (d *narrowGroupDots) settle() {
	if d.due != nil {
		d.due()
		d.due = nil
	}
}

// sums returns those of four rows and vectors of codes: every four lanes have those of the rows, for half of the
// elements.
func (d *narrowGroupDots) sums(vectors []int) (high, low reg.VecVirtual) {
	var pairs [2][2]reg.VecVirtual
	for pair := range 2 {
		if pair == 1 {
			d.settle()
		}
		firstHigh, firstLow := d.rowSums(2*pair, vectors)
		secondHigh, secondLow := d.rowSums(2*pair+1, vectors)
		pairs[pair] = [2]reg.VecVirtual{avx2.addInterleaved(firstHigh, secondHigh), avx2.addInterleaved(firstLow, secondLow)}
	}
	return avx2.addAlternating(pairs[0][0], pairs[1][0]), avx2.addAlternating(pairs[0][1], pairs[1][1])
}

// rowSums returns a row's sums: of the limbs of weight 65536, and of the others.
func (d *narrowGroupDots) rowSums(row int, vectors []int) (high, low reg.VecVirtual) {
	if d.vnni {
		return d.rowSumsByVNNI(row, vectors)
	}
	var sums [3]reg.VecVirtual
	t := YMM()
	for _, at := range vectors {
		for part, codes := range d.codes(row, at) {
			for limb := range sums {
				limbs := Mem{Base: d.x, Disp: part*partBytes + 64*limb + at}
				if sums[limb] == nil {
					sums[limb] = YMM()
					VPMADDUBSW(limbs, codes, sums[limb])
					continue
				}
				VPMADDUBSW(limbs, codes, t)
				VPADDW(t, sums[limb], sums[limb])
			}
		}
	}
	high, low = sums[0], sums[2]
	VPMADDWD(d.ones, high, high)
	VPMADDWD(d.times256, sums[1], t)
	VPMADDWD(d.ones, low, low)
	VPADDD(t, low, low)
	return high, low
}

// rowSumsByVNNI is rowSums with sums of 32 bits.
func (d *narrowGroupDots) rowSumsByVNNI(row int, vectors []int) (high, low reg.VecVirtual) {
	var sums [3]reg.VecVirtual
	for limb := range sums {
		sums[limb] = YMM()
		VPXOR(sums[limb], sums[limb], sums[limb])
	}
	for _, at := range vectors {
		for part, codes := range d.codes(row, at) {
			for limb, sum := range sums {
				VPDPBUSD(Mem{Base: d.x, Disp: part*partBytes + 64*limb + at}, codes, sum)
			}
		}
	}
	VPSLLD(U8(8), sums[1], sums[1])
	VPADDD(sums[1], sums[2], sums[2])
	return sums[0], sums[2]
}

// codes returns the even and the odd ones of a vector of a row's block.
func (d *narrowGroupDots) codes(row, at int) [2]reg.VecVirtual {
	even, odd := YMM(), YMM()
	VMOVDQU(d.row(row, at), even)
	VPSRLW(U8(4), even, odd)
	VPAND(d.mask, even, even)
	VPAND(d.mask, odd, odd)
	if d.table {
		VPSHUFB(even, d.numbers, even)
		VPSHUFB(odd, d.numbers, odd)
	}
	return [2]reg.VecVirtual{even, odd}
}

// floats returns the sums of four rows, of each half by itself.
func (d *narrowGroupDots) floats(high, low reg.VecVirtual) []reg.VecVirtual {
	second := XMM()
	VCVTDQ2PS(high, high)
	VCVTDQ2PS(low, low)
	VFMADD231PS(d.weight, high, low)
	VEXTRACTF128(U8(1), low, second)
	return []reg.VecVirtual{low.AsX().(reg.VecVirtual), second}
}

// float returns the sums of four rows, with both halves added up.
func (d *narrowGroupDots) float(high, low reg.VecVirtual) []reg.VecVirtual {
	t, n := YMM(), XMM()
	VPERM2I128(U8(0x20), high, low, t)
	VPERM2I128(U8(0x31), high, low, low)
	VPADDD(t, low, low) // low, and then high
	VCVTDQ2PS(low, low)
	VEXTRACTF128(U8(1), low, n)
	VFMADD132PS(d.weight, low.AsX(), n)
	return []reg.VecVirtual{n}
}

// add adds the sums of group g of four to the results, in the order of groupDots.
func (d *narrowGroupDots) add(n reg.VecVirtual, g int) {
	scale, sum := XMM(), XMM()
	VBROADCASTSS(Mem{Base: d.powers, Disp: 8 * g}, scale)
	VBROADCASTSS(Mem{Base: d.powers, Disp: 8*g + 4}, sum)
	VMULPS(d.factors[0].Offset(16*g), scale, scale)
	VFMADD231PS(d.factors[1].Offset(16*g), sum, d.total)
	VFMADD231PS(n, scale, d.total)
}
