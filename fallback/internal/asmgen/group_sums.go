package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// sums are those of four rows and a block. A vector has in every four lanes those of the rows,
// for a quarter of the block's elements.
type sums struct {
	high, low reg.VecVirtual // of the limbs of weight 65536, and of the others
}

// limbOf gives the limb of a part of a row of x.
type limbOf func(x, limb, part int) Op

// block returns the sums of a block of four rows for each row of x, and moves on.
func (d *groupDots) block() (all []sums) {
	d.prefetch()
	limb := d.limbs()
	if d.halves && !d.table {
		all = d.narrowSums(limb)
	} else {
		all = d.wideSums(limb)
	}
	if d.packed {
		LEAQ(Mem{Base: d.code, Index: d.step, Scale: uint8(d.parts)}, d.code)
	} else {
		ADDQ(U32(d.blockBytes()), d.code)
	}
	for _, r := range d.x {
		ADDQ(U32(partBytes*d.parts), r)
	}
	return all
}

// blockBytes is the size of a block of a row, if codes are not packed.
func (d *groupDots) blockBytes() int {
	if d.halves {
		return 64
	}
	return 64 * d.parts
}

// prefetch prefetches codes ahead (see codeDots.block), as many as a block of four rows has, or as
// it would have with codes of 8 bits.
func (d *groupDots) prefetch() {
	bytes := 4 * d.blockBytes()
	for i := range bytes / 64 {
		PREFETCHT0(Mem{Base: d.ahead, Disp: 2*prefetchAhead + 64*i})
	}
	if d.packed {
		LEAQ(Mem{Base: d.ahead, Index: d.step, Scale: uint8(4 * d.parts)}, d.ahead)
	} else {
		ADDQ(U32(bytes), d.ahead)
	}
}

// limbs gives those of one row of x in registers, and those of two in memory.
func (d *groupDots) limbs() limbOf {
	at := func(x, limb, part int) Mem { return Mem{Base: d.x[x], Disp: part*partBytes + 64*limb} }
	if d.xs > 1 {
		return func(x, limb, part int) Op { return at(x, limb, part) }
	}
	var r [3][2]reg.VecVirtual
	for limb := range r {
		for part := range d.parts {
			r[limb][part] = ZMM()
			VMOVDQU32(at(0, limb, part), r[limb][part])
		}
	}
	return func(_, limb, part int) Op { return r[limb][part] }
}

// wideSums are the sums of codes of up to 8 bits.
func (d *groupDots) wideSums(limb limbOf) []sums {
	highs, lows := make([][4]reg.VecVirtual, d.xs), make([][4]reg.VecVirtual, d.xs)
	for row := range 4 {
		codes := d.codes(row)
		for x := range d.xs {
			high := d.products(codes, limb, x, 0, d.none())
			low := d.products(codes, limb, x, 1, d.none())
			VPSLLD(U8(8), low, low)
			highs[x][row], lows[x][row] = high, d.products(codes, limb, x, 2, low)
		}
	}
	all := make([]sums, d.xs)
	for x := range all {
		all[x] = sums{transposedSums(highs[x]), transposedSums(lows[x])}
	}
	return all
}

func (d *groupDots) none() reg.VecVirtual {
	r := ZMM()
	VMOVDQA32(d.zero, r)
	return r
}

// products adds the products of codes with a limb of a row of x to sum, and returns that.
func (d *groupDots) products(codes []reg.VecVirtual, limb limbOf, x, which int, sum reg.VecVirtual) reg.VecVirtual {
	for part, r := range codes {
		VPDPBUSD(limb(x, which, part), r, sum)
	}
	return sum
}

// narrowSums are the sums of codes of 4 bits. The sum of a lane, 8·15·128 at most, fits 16 bits,
// and so does that of two, so that sums of several rows move into one vector at once.
func (d *groupDots) narrowSums(limb limbOf) []sums {
	pairs := make([][2][3]reg.VecVirtual, d.xs) // sums of two lanes, of two rows and by limb
	for pair := range 2 {
		first, second := d.codes(2*pair), d.codes(2*pair+1)
		for x := range d.xs {
			for which := range 3 {
				r := d.products(first, limb, x, which, d.none())
				VPACKSSDW(d.products(second, limb, x, which, d.none()), r, r)
				VPMADDWD(d.ones, r, r)
				pairs[x][pair][which] = r
			}
		}
	}
	all := make([]sums, d.xs)
	for x, p := range pairs {
		for which, r := range p[0] {
			VPACKSSDW(p[1][which], r, r)
		}
		VPMADDWD(d.ones, p[0][0], p[0][0])
		VPMADDWD(d.times256, p[0][1], p[0][1])
		VPDPWSSD(d.ones, p[0][2], p[0][1])
		all[x] = sums{p[0][0], p[0][1]}
	}
	return all
}

// codes loads the parts of a row's block.
func (d *groupDots) codes(row int) []reg.VecVirtual {
	if d.packed {
		return d.packedCodes(row)
	}
	first := ZMM()
	VMOVDQU32(d.row(row, 0), first)
	if d.parts == 1 {
		return []reg.VecVirtual{first}
	}
	second := ZMM()
	if d.halves {
		VPSRLW(U8(4), first, second)
		VPANDD(d.mask, first, first)
		VPANDD(d.mask, second, second)
		if d.table {
			VPSHUFB(first, d.numbers, first)
			VPSHUFB(second, d.numbers, second)
		}
	} else {
		VMOVDQU32(d.row(row, 64), second)
	}
	return []reg.VecVirtual{first, second}
}

// packedCodes makes bytes of codes.
func (d *groupDots) packedCodes(row int) (parts []reg.VecVirtual) {
	at := d.row(row, 0)
	for part := range d.parts {
		if part == 1 {
			second := GP64()
			LEAQ(at, second)
			at = Mem{Base: second, Index: d.step, Scale: 1}
		}
		parts = append(parts, d.wide.unpack(at))
	}
	return parts
}

// transposedSums adds up every four lanes of each of four vectors: those of vector i are
// lane i of the same four.
func transposedSums(r [4]reg.VecVirtual) reg.VecVirtual {
	pairs := [2]reg.VecVirtual{}
	for i := range pairs {
		pairs[i] = avx512.addInterleaved(r[2*i], r[2*i+1])
	}
	return avx512.addAlternating(pairs[0], pairs[1])
}

// addInterleaved adds up two lanes of a and of b each, in turns.
func (v isa) addInterleaved(a, b reg.VecVirtual) reg.VecVirtual {
	return v.addUnpacked(a, b, VPUNPCKLDQ, VPUNPCKHDQ)
}

// addAlternating adds up what addInterleaved has left, of two vectors each.
func (v isa) addAlternating(a, b reg.VecVirtual) reg.VecVirtual {
	return v.addUnpacked(a, b, VPUNPCKLQDQ, VPUNPCKHQDQ)
}

func (v isa) addUnpacked(a, b reg.VecVirtual, low, high func(...Op)) reg.VecVirtual {
	t := v.vec()
	low(b, a, t)
	high(b, a, a)
	VPADDD(t, a, a)
	return a
}

// floats returns the sums of each group of a block, of four rows.
func (d *groupDots) floats(s sums) []reg.VecVirtual {
	high, low := s.high, s.low
	shuffled := func(a, b reg.VecVirtual, order uint8) reg.VecVirtual {
		r := ZMM()
		VSHUFI32X4(U8(order), b, a, r)
		return r
	}
	if d.groups < 4 {
		// The sum of quarters 0 and 1 and that of quarters 2 and 3 are each of one group.
		both, odd := shuffled(high, low, 0x88), shuffled(high, low, 0xdd)
		VPADDD(odd, both, both)
		if d.groups == 1 {
			VPADDD(shuffled(both, both, 0xb1), both, both)
		}
		high, low = both, ZMM()
		VCVTDQ2PS(high, high)
		VEXTRACTF64X4(U8(1), high, low.AsY())
	} else {
		VCVTDQ2PS(high, high)
		VCVTDQ2PS(low, low)
	}
	VFMADD231PS(d.weight, high, low)
	out := []reg.VecVirtual{low.AsX().(reg.VecVirtual)}
	for g := 1; g < d.groups; g++ {
		x := XMM()
		VEXTRACTF32X4(U8(uint8(g)), low, x)
		out = append(out, x)
	}
	return out
}
