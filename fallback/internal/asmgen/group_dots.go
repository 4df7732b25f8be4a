package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// groupDots writes the products of quantized rows, four at a time, with one or two rows of
// simd.GroupLimbs: what tiles compute, by AVX-512 VNNI from the codes as they lie in memory. A
// block of a row's codes has one or two vectors of bytes, its parts, each with the limbs of 64
// elements.
type groupDots struct {
	halves bool // the parts of a block are the low and the high halves of its bytes
	table  bool // which stand for numbers of a table
	parts  int
	groups int // in a block
	xs     int // rows of x

	code, ahead        reg.GPVirtual
	row                rowAt
	x, powers          []reg.GPVirtual
	mask, weight, zero reg.VecVirtual
	ones, times256     reg.VecVirtual   // of 16 bits
	numbers            reg.VecVirtual   // of the table
	totals             []reg.VecVirtual // of four rows, for each row of x
	transposed         reg.VecVirtual   // the order of the columns of four rows of four numbers
	places             [4]reg.OpmaskVirtual
	factors            [2]Mem // scales and biases of four groups, each for four rows
}

func (d *groupDots) emit(order string) {
	text("sets out to the products of x with blocks of 4·fours quantized rows, and with two rows of x out2 to those of x2. It may read three scales and biases behind the last.", "groupDots%s%dx%dVNNI512", order, 64*d.parts/d.groups, d.xs)(
		"(out, out2 *float32, codes *byte, stride int, scales, biases *float32, groups int, x, x2 *byte, powers, powers2 *float32, blocks, fours int, table *byte)")
	stride, groups := arg("stride"), scaled("groups")
	triple := tripled(groups)
	var at [2]reg.GPVirtual
	var rows [2]rowAt
	for i := range at {
		at[i], d.factors[i] = GP64(), AllocLocal(64)
		rows[i] = rowsAt(at[i], groups, triple)
	}
	d.code, d.ahead = GP64(), GP64()
	d.row = rowPointers(d.code, stride, 4)
	for range d.xs {
		d.x, d.powers, d.totals = append(d.x, GP64()), append(d.powers, GP64()), append(d.totals, XMM())
	}
	d.constants()
	left := GP64()

	Label("rows")
	MOVQ(slot("codes"), d.code)
	MOVQ(d.code, d.ahead)
	MOVQ(slot("scales"), at[0])
	MOVQ(slot("biases"), at[1])
	for i := range d.xs {
		MOVQ(slot([]string{"x", "x2"}[i]), d.x[i])
		MOVQ(slot([]string{"powers", "powers2"}[i]), d.powers[i])
	}
	MOVQ(slot("blocks"), left)
	for _, r := range d.totals {
		VMOVDQA32(d.zero.AsX(), r)
	}
	Label("groups")
	for i := range at {
		d.loadFactors(rows[i], d.factors[i])
		ADDQ(U8(16), at[i])
	}
	for block := range 4 / d.groups {
		for i, sums := range d.block() {
			for g, n := range d.floats(sums) {
				d.add(n, i, block*d.groups+g, g)
			}
			ADDQ(U8(8*d.groups), d.powers[i])
		}
		DECQ(left)
		if block < 4/d.groups-1 {
			JZ(LabelRef("store"))
		} else {
			JNZ(LabelRef("groups"))
		}
	}
	Label("store")
	bytes := GP64()
	for i, r := range d.totals {
		out := slot([]string{"out", "out2"}[i])
		MOVQ(out, bytes)
		VMOVUPS(r, Mem{Base: bytes})
		ADDQ(U8(16), out)
	}
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
	if d.table {
		d.numbers = ZMM()
		VBROADCASTI32X4(Mem{Base: arg("table")}, d.numbers)
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

// sums are those of four rows and a block. A vector has in every four lanes those of the rows,
// for a quarter of the block's elements.
type sums struct {
	high, low reg.VecVirtual // of the limbs of weight 65536, and of the others
}

// limbOf gives the limb of a part of a row of x.
type limbOf func(x, limb, part int) Op

// block returns the sums of a block of four rows for each row of x, and moves on.
func (d *groupDots) block() (all []sums) {
	bytes := 64 * d.parts
	if d.halves {
		bytes = 64
	}
	for i := range 4 * bytes / 64 { // see codeDots.block
		PREFETCHT0(Mem{Base: d.ahead, Disp: 2*prefetchAhead + 64*i})
	}
	ADDQ(U32(4*bytes), d.ahead)
	limb := d.limbs()
	if d.halves && !d.table {
		all = d.packedSums(limb)
	} else {
		all = d.wideSums(limb)
	}
	ADDQ(U32(bytes), d.code)
	for _, r := range d.x {
		ADDQ(U32(partBytes*d.parts), r)
	}
	return all
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

// packedSums are the sums of codes of 4 bits. The sum of a lane, 8·15·128 at most, fits 16 bits,
// and so does that of two, so that sums of several rows move into one vector at once.
func (d *groupDots) packedSums(limb limbOf) []sums {
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

// floats returns the sums of each group of a block, of four rows.
func (d *groupDots) floats(s sums) []reg.VecVirtual {
	high, low := s.high, s.low
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

// add adds group g of a block to the results of a row of x, in the order of combineVNNI; place
// is the group's among four.
func (d *groupDots) add(n reg.VecVirtual, x, place, g int) {
	power, sum := Mem{Base: d.powers[x], Disp: 8 * g}, Mem{Base: d.powers[x], Disp: 8*g + 4}
	scale, bias := XMM(), XMM()
	VMOVUPS(d.factors[0].Offset(16*place), scale)
	VMOVUPS(d.factors[1].Offset(16*place), bias)
	VMULPS_BCST(power, scale, scale)
	VFMADD231PS_BCST(sum, bias, d.totals[x])
	VFMADD231PS(n, scale, d.totals[x])
}
