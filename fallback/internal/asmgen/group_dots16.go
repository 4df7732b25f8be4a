package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// groupDots16 is groupDots for 4-bit floats in groups of 16, halves of the groups of x. The numbers of
// their table are 12 too large: the sums of a block begin at minus 12 times those of its limbs, so
// there are no biases.
//
// A block of 128 elements has 8 groups, which are too many to be taken out of vectors one by one. So the
// results stay in vectors to the end: every four lanes have two of one row and two of the next one, of the
// two groups of a quarter of the block.
type groupDots16 struct {
	groupDots
	twelve                   reg.VecVirtual
	starts                   Mem // minus 12 times the sums of a block's limbs
	scalesOrder, powersOrder reg.VecVirtual
	pairs                    [][2]reg.VecVirtual // the results of rows 0 and 1, and of 2 and 3, for each row of x
}

func (d *groupDots16) emit() {
	text("is groupDotsTable32 for groups of 16, halves of those of x, without biases. Results are sums by halves of groups, and by quarters of blocks: (0+2)+(1+3).", "groupDotsTable16x%dVNNI512", d.xs)(
		groupDotsSignature)
	stride, pitch := arg("stride"), arg("pitch")
	triple, scales := tripled(pitch), GP64()
	scalesAt := rowsAt(scales, pitch, triple)
	d.code, d.ahead = GP64(), GP64()
	d.row = rowPointers(d.code, stride, 4)
	for range d.xs {
		d.x, d.powers = append(d.x, GP64()), append(d.powers, GP64())
		d.pairs = append(d.pairs, [2]reg.VecVirtual{ZMM(), ZMM()})
	}
	d.starts = AllocLocal(64 * 3 * d.xs)
	d.constants()
	left := GP64()

	Label("rows")
	MOVQ(slot("scales"), scales)
	MOVQ(slot("blocks"), left)
	d.begin()
	Label("block")
	d.addBlock(scalesAt)
	ADDQ(U8(32), scales)
	DECQ(left)
	JNZ(LabelRef("block"))
	d.reduce()
	d.store()
	nextRows(stride, pitch, triple, "scales")
}

func (d *groupDots16) constants() {
	v := avx512
	d.mask, d.twelve, d.weight, d.zero = v.constant(0x0f0f0f0f), v.constant(0x0c0c0c0c), v.constant(0x47800000), ZMM()
	v.zero(d.zero)
	d.numbers = ZMM()
	VBROADCASTI32X4(Mem{Base: arg("control")}, d.numbers)
	d.scalesOrder, d.powersOrder = ZMM(), ZMM()
	VMOVDQU64(pairedTable(), d.scalesOrder)
	VMOVDQU32(powersTable(), d.powersOrder)
}

func (d *groupDots16) begin() {
	MOVQ(slot("codes"), d.code)
	MOVQ(d.code, d.ahead)
	for i, pairs := range d.pairs {
		MOVQ(slot([]string{"x", "x2"}[i]), d.x[i])
		MOVQ(slot([]string{"powers", "powers2"}[i]), d.powers[i])
		for _, r := range pairs {
			VMOVDQA32(d.zero, r)
		}
	}
}

// addBlock adds a block of four rows to the results, two at a time, and moves on.
func (d *groupDots16) addBlock(scalesAt rowAt) {
	d.prefetch()
	limb := d.limbs()
	for x := range d.xs {
		for which := range 3 {
			sum := d.products([]reg.VecVirtual{d.twelve, d.twelve}, limb, x, which, d.none())
			VPSUBD(sum, d.zero, sum)
			VMOVDQU32(sum, d.starts.Offset(64*(3*x+which)))
		}
	}
	for pair := range 2 {
		sums := d.pairSums(pair, limb)
		scales := ZMM()
		VMOVUPS(scalesAt(2*pair, 0), scales.AsY())
		VINSERTF64X4(U8(1), scalesAt(2*pair+1, 0), scales, scales)
		VPERMPD(scales, d.scalesOrder, scales)
		for x, r := range d.pairs {
			powers := ZMM()
			VMOVUPS(Mem{Base: d.powers[x]}, powers.AsY())
			VPERMPS(powers, d.powersOrder, powers)
			VMULPS(scales, powers, powers)
			VFMADD231PS(sums[x], powers, r[pair])
		}
	}
	ADDQ(U32(d.blockBytes()), d.code)
	for x := range d.xs {
		ADDQ(U32(partBytes*d.parts), d.x[x])
		ADDQ(U8(32), d.powers[x])
	}
}

// pairSums returns the sums of two rows and two groups in every four lanes, for each row of x.
func (d *groupDots16) pairSums(pair int, limb limbOf) (sums []reg.VecVirtual) {
	start := func(x, which int) reg.VecVirtual {
		r := ZMM()
		VMOVDQU32(d.starts.Offset(64*(3*x+which)), r)
		return r
	}
	highs, lows := make([][2]reg.VecVirtual, d.xs), make([][2]reg.VecVirtual, d.xs)
	for row := range 2 {
		codes := d.codes(2*pair + row)
		for x := range d.xs {
			highs[x][row] = d.products(codes, limb, x, 0, start(x, 0))
			middle := d.products(codes, limb, x, 1, start(x, 1))
			lows[x][row] = d.products(codes, limb, x, 2, start(x, 2))
			VPSLLD(U8(8), middle, middle)
			VPADDD(middle, lows[x][row], lows[x][row])
		}
	}
	for x := range d.xs {
		high, low := ofTwoLanes(highs[x]), ofTwoLanes(lows[x])
		VCVTDQ2PS(high, high)
		VCVTDQ2PS(low, low)
		VFMADD231PS(d.weight, high, low)
		sums = append(sums, low)
	}
	return sums
}

// ofTwoLanes adds up every two lanes of two rows: in every four lanes are two of the first, and two of the
// second.
func ofTwoLanes(rows [2]reg.VecVirtual) reg.VecVirtual {
	even := ZMM()
	VSHUFPS(U8(0x88), rows[1], rows[0], even)
	VSHUFPS(U8(0xdd), rows[1], rows[0], rows[0])
	VPADDD(rows[0], even, even)
	return even
}

// reduce sets the totals to those of the four rows.
func (d *groupDots16) reduce() {
	d.totals = nil
	for _, pairs := range d.pairs {
		for _, r := range pairs {
			half := ZMM()
			VEXTRACTF64X4(U8(1), r, half.AsY())
			VADDPS(half.AsY(), r.AsY(), r.AsY())
			VEXTRACTF32X4(U8(1), r.AsY(), half.AsX())
			VADDPS(half.AsX(), r.AsX(), r.AsX())
		}
		even, total := XMM(), pairs[0].AsX().(reg.VecVirtual)
		VSHUFPS(U8(0x88), pairs[1].AsX(), total, even)
		VSHUFPS(U8(0xdd), pairs[1].AsX(), total, total)
		VADDPS(even, total, total)
		d.totals = append(d.totals, total)
	}
}

var pairedOrder, powersOfGroups *Mem

// pairedTable is the order in which pairs of numbers of two rows of eight alternate.
func pairedTable() Mem {
	if pairedOrder == nil {
		table := GLOBL("pairsOfTwoRows", 8|16)
		for i := range 8 {
			DATA(8*i, U64(uint64(i/2+i%2*4)))
		}
		pairedOrder = &table
	}
	return *pairedOrder
}

// powersTable repeats each of the powers of four groups, which alternate with sums, for four lanes.
func powersTable() Mem {
	if powersOfGroups == nil {
		table := GLOBL("powersOfGroups", 8|16)
		for i := range 16 {
			DATA(4*i, U32(uint32(i/4*2)))
		}
		powersOfGroups = &table
	}
	return *powersOfGroups
}
