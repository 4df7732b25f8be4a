package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// groupDots writes the products of quantized rows, four at a time, with one row of
// simd.GroupLimbs: what tiles compute, by AVX-512 VNNI from the codes as they lie in memory. A
// block of a row's codes has one or two vectors of bytes, its parts, each with the limbs of 64
// elements.
type groupDots struct {
	halves bool // the parts of a block are the low and the high halves of its bytes
	parts  int
	groups int // in a block

	code, x, ahead     reg.GPVirtual
	row                rowAt
	mask, weight, zero reg.VecVirtual
	ones, times256     reg.VecVirtual // of 16 bits
	total              reg.VecVirtual // of four rows
	transposed         reg.VecVirtual // the order of the columns of four rows of four numbers
	places             [4]reg.OpmaskVirtual
	factors            [2]Mem // scales and biases of four groups, each for four rows
}

func (d *groupDots) emit(order string) {
	text("sets out to the products of x with blocks of 4·fours quantized rows. It may read scales and biases of up to four groups behind the last.", "groupDots%s%dVNNI512", order, 64*d.parts/d.groups)(
		"(out *float32, codes *byte, stride int, scales *float32, biases *float32, groups int, x *byte, powers *float32, blocks int, fours int)")
	stride, groups := arg("stride"), scaled("groups")
	triple := tripled(groups)
	var at [2]reg.GPVirtual
	var rows [2]rowAt
	for i := range at {
		at[i], d.factors[i] = GP64(), AllocLocal(64)
		rows[i] = rowsAt(at[i], groups, triple)
	}
	d.code, d.x, d.ahead = GP64(), GP64(), GP64()
	d.row = rowPointers(d.code, stride, 4)
	d.constants()
	d.total = XMM()
	powers, left := GP64(), GP64()

	Label("rows")
	MOVQ(slot("codes"), d.code)
	MOVQ(d.code, d.ahead)
	MOVQ(slot("scales"), at[0])
	MOVQ(slot("biases"), at[1])
	MOVQ(slot("x"), d.x)
	MOVQ(slot("powers"), powers)
	MOVQ(slot("blocks"), left)
	VMOVDQA32(d.zero.AsX(), d.total)
	Label("groups")
	for i := range at {
		d.loadFactors(rows[i], d.factors[i])
		ADDQ(U8(16), at[i])
	}
	for block := range 4 / d.groups {
		for g, sum := range d.sums(d.block()) {
			d.add(sum, block*d.groups+g, Mem{Base: powers, Disp: 8 * g})
		}
		ADDQ(U8(8*d.groups), powers)
		DECQ(left)
		if block < 4/d.groups-1 {
			JZ(LabelRef("store"))
		} else {
			JNZ(LabelRef("groups"))
		}
	}
	Label("store")
	out, bytes := arg("out"), GP64()
	VMOVUPS(d.total, Mem{Base: out})
	ADDQ(U8(16), slot("out"))
	LEAQ(Mem{Base: stride, Index: stride, Scale: 1}, bytes)
	ADDQ(bytes, bytes)
	ADDQ(bytes, slot("codes"))
	LEAQ(Mem{Base: groups, Index: triple, Scale: 1}, bytes)
	ADDQ(bytes, slot("scales"))
	ADDQ(bytes, slot("biases"))
	DECQ(slot("fours"))
	JNZ(LabelRef("rows"))
	VZEROUPPER()
	RET()
}

func (d *groupDots) constants() {
	v := avx512
	if d.halves {
		d.mask, d.ones, d.times256 = v.constant(0x0f0f0f0f), v.constant(0x00010001), v.constant(0x01000100)
	}
	d.weight, d.zero = v.constant(0x47800000), ZMM() // 65536
	v.zero(d.zero)
	for i := 1; i < 4; i++ {
		bits := GP32()
		MOVL(U32(0xf<<(4*i)), bits)
		d.places[i] = K()
		KMOVW(bits, d.places[i])
	}
	d.transposed = ZMM()
	VMOVDQU32(transposedTable(), d.transposed)
}

var transposedColumns *Mem

// transposedTable is the order of the columns of four rows of four numbers.
func transposedTable() Mem {
	if transposedColumns == nil {
		table := GLOBL("transposedColumns", 8|16)
		for i := range 16 {
			DATA(4*i, U32(uint32(i%4*4+i/4)))
		}
		transposedColumns = &table
	}
	return *transposedColumns
}

// loadFactors stores four groups' numbers of four rows, group by group.
func (d *groupDots) loadFactors(at rowAt, to Mem) {
	r := ZMM()
	VBROADCASTF32X4(at(0, 0), r)
	for row := 1; row < 4; row++ {
		VBROADCASTF32X4(at(row, 0), d.places[row], r)
	}
	VPERMPS(r, d.transposed, r)
	VMOVUPS(r, to)
}

// block returns the sums of a block of four rows, of the limbs of weight 65536 and of the
// others, and moves on. A vector has in every four lanes those of the rows, for a quarter of
// the block's elements.
func (d *groupDots) block() (high, low reg.VecVirtual) {
	bytes := 64 * d.parts
	if d.halves {
		bytes = 64
	}
	for i := range 4 * bytes / 64 { // see codeDots.block
		PREFETCHT0(Mem{Base: d.ahead, Disp: 2*prefetchAhead + 64*i})
	}
	ADDQ(U32(4*bytes), d.ahead)
	var limbs [3][]reg.VecVirtual
	for limb := range limbs {
		limbs[limb] = avx512.vecs(d.parts)
		for part, r := range limbs[limb] {
			VMOVDQU32(Mem{Base: d.x, Disp: part*partBytes + 64*limb}, r)
		}
	}
	if d.halves {
		high, low = d.packedSums(limbs)
	} else {
		high, low = d.wideSums(limbs)
	}
	ADDQ(U32(bytes), d.code)
	ADDQ(U32(partBytes*d.parts), d.x)
	return high, low
}

// wideSums are the sums of codes of 8 bits.
func (d *groupDots) wideSums(limbs [3][]reg.VecVirtual) (high, low reg.VecVirtual) {
	var highs, lows [4]reg.VecVirtual
	for row := range highs {
		codes := d.codes(row)
		high, low := d.none(), d.none()
		d.multiply(codes, limbs[0], high)
		d.multiply(codes, limbs[1], low)
		VPSLLD(U8(8), low, low)
		d.multiply(codes, limbs[2], low)
		highs[row], lows[row] = high, low
	}
	return transposedSums(highs), transposedSums(lows)
}

func (d *groupDots) none() reg.VecVirtual {
	r := ZMM()
	VMOVDQA32(d.zero, r)
	return r
}

func (d *groupDots) multiply(codes, limbs []reg.VecVirtual, sum reg.VecVirtual) {
	for part, r := range codes {
		VPDPBUSD(limbs[part], r, sum)
	}
}

// packedSums are the sums of codes of 4 bits. The sum of a lane, 8·15·128 at most, fits 16 bits,
// and so does that of two, so that sums of several rows move into one vector at once.
func (d *groupDots) packedSums(limbs [3][]reg.VecVirtual) (high, low reg.VecVirtual) {
	var pairs [2][3]reg.VecVirtual // sums of two lanes, of two rows and by limb
	for pair := range pairs {
		var codes [2][]reg.VecVirtual
		for i := range codes {
			codes[i] = d.codes(2*pair + i)
		}
		for limb := range limbs {
			first, second := d.none(), d.none()
			d.multiply(codes[0], limbs[limb], first)
			d.multiply(codes[1], limbs[limb], second)
			VPACKSSDW(second, first, first)
			VPMADDWD(d.ones, first, first)
			pairs[pair][limb] = first
		}
	}
	sums := pairs[0]
	for limb, r := range sums {
		VPACKSSDW(pairs[1][limb], r, r)
	}
	VPMADDWD(d.ones, sums[0], sums[0])
	VPMADDWD(d.times256, sums[1], sums[1])
	VPDPWSSD(d.ones, sums[2], sums[1])
	return sums[0], sums[1]
}

// codes loads the parts of a row's block.
func (d *groupDots) codes(row int) []reg.VecVirtual {
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
	} else {
		VMOVDQU32(d.row(row, 64), second)
	}
	return []reg.VecVirtual{first, second}
}

// transposedSums adds up every four lanes of each of four vectors: those of vector i are
// lane i of the same four.
func transposedSums(r [4]reg.VecVirtual) reg.VecVirtual {
	pairs := [2]reg.VecVirtual{}
	for i := range pairs {
		a, b, t := r[2*i], r[2*i+1], ZMM()
		VPUNPCKLDQ(b, a, t)
		VPUNPCKHDQ(b, a, a)
		VPADDD(t, a, a)
		pairs[i] = a
	}
	t := ZMM()
	VPUNPCKLQDQ(pairs[1], pairs[0], t)
	VPUNPCKHQDQ(pairs[1], pairs[0], pairs[0])
	VPADDD(t, pairs[0], pairs[0])
	return pairs[0]
}

// sums returns the sums of each group of a block as floats, of four rows.
func (d *groupDots) sums(high, low reg.VecVirtual) []reg.VecVirtual {
	shuffled := func(a, b reg.VecVirtual, order uint8) reg.VecVirtual {
		r := ZMM()
		VSHUFI32X4(U8(order), b, a, r)
		return r
	}
	if d.groups < 4 {
		// Quarters 0 and 2 and quarters 1 and 3 of both, which are of a group.
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

// add adds a group of four rows to the results, in the order of combineVNNI; place is that of
// the group among four.
func (d *groupDots) add(n reg.VecVirtual, place int, power Mem) {
	sum := power
	sum.Disp += 4
	scale, bias := XMM(), XMM()
	VMOVUPS(d.factors[0].Offset(16*place), scale)
	VMOVUPS(d.factors[1].Offset(16*place), bias)
	VMULPS_BCST(power, scale, scale)
	VFMADD231PS_BCST(sum, bias, d.total)
	VFMADD231PS(n, scale, d.total)
}
