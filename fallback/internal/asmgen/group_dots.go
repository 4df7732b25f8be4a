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
	table  bool // codes of 4 bits stand for numbers of a table
	packed bool // codes have any number of bits, without gaps between them
	parts  int
	groups int // in a block
	xs     int // rows of x

	code, ahead, step  reg.GPVirtual
	row                rowAt
	wide               wideCodes // that are packed
	x, powers          []reg.GPVirtual
	mask, weight, zero reg.VecVirtual
	ones, times256     reg.VecVirtual       // of 16 bits
	numbers            reg.VecVirtual       // of the table
	totals             []reg.VecVirtual     // of four rows, for each row of x
	transposed         reg.VecVirtual       // the order of the columns of four rows of four numbers
	places, quads      [4]reg.OpmaskVirtual // of a row's four numbers of 32 bits, and of 16
	factors            [2]Mem               // scales and biases of four groups, each for four rows
}

func (d *groupDots) emit(order string) {
	level := "VNNI512"
	if d.packed {
		level = "VBMI"
	}
	text("sets out to the products of x with blocks of 4·fours quantized rows, and with two rows of x out2 to those of x2. Rows of scales and biases are pitch bytes apart, of the type factors. It may read three such rows past the last. control is the table of codes, or what unpackCodes takes for codes of which 64 have step bytes.", "groupDots%s%dx%d%s", order, 64*d.parts/d.groups, d.xs, level)(
		groupDotsSignature)
	stride, pitch := arg("stride"), arg("pitch")
	triple := tripled(pitch)
	at, rows := factorRows(pitch, triple, &d.factors)
	d.code, d.ahead = GP64(), GP64()
	d.row = rowPointers(d.code, stride, 4)
	for range d.xs {
		d.x, d.powers, d.totals = append(d.x, GP64()), append(d.powers, GP64()), append(d.totals, XMM())
	}
	d.constants()
	left := GP64()

	Label("rows")
	MOVQ(slot("scales"), at[0])
	MOVQ(slot("biases"), at[1])
	MOVQ(slot("blocks"), left)
	d.begin()
	Label("groups")
	d.loadFactors(at, rows)
	d.fourGroups(left)
	Label("store")
	d.store()
	nextRows(stride, pitch, triple, "scales", "biases")
}

// factorRows makes pointers to the scales and the biases of four rows, which lie pitch bytes apart, and room for those of
// four groups.
func factorRows(pitch, triple reg.GPVirtual, room *[2]Mem) (at [2]reg.GPVirtual, rows [2]rowAt) {
	for i := range at {
		at[i], room[i] = GP64(), AllocLocal(64)
		rows[i] = rowsAt(at[i], pitch, triple)
	}
	return at, rows
}

const groupDotsSignature = "(out, out2 *float32, codes *byte, stride int, scales, biases *byte, pitch, factors int, x, x2 *byte, powers, powers2 *float32, blocks, fours int, control *byte, step int)"

// nextRows ends the loop over four rows at a time, whose codes are stride bytes apart and whose factors pitch bytes;
// triple is three times that.
func nextRows(stride, pitch, triple reg.GPVirtual, factors ...string) {
	bytes := GP64()
	LEAQ(Mem{Base: stride, Index: stride, Scale: 1}, bytes)
	ADDQ(bytes, bytes)
	ADDQ(bytes, slot("codes"))
	LEAQ(Mem{Base: pitch, Index: triple, Scale: 1}, bytes)
	for _, name := range factors {
		ADDQ(bytes, slot(name))
	}
	DECQ(slot("fours"))
	JNZ(LabelRef("rows"))
	VZEROUPPER()
	RET()
}

// begin begins four rows.
func (d *groupDots) begin() {
	MOVQ(slot("codes"), d.code)
	MOVQ(d.code, d.ahead)
	for i := range d.xs {
		MOVQ(slot([]string{"x", "x2"}[i]), d.x[i])
		MOVQ(slot([]string{"powers", "powers2"}[i]), d.powers[i])
		VMOVDQA32(d.zero.AsX(), d.totals[i])
	}
}

// fourGroups adds up to four groups; left counts blocks.
func (d *groupDots) fourGroups(left reg.GPVirtual) {
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
}

// store writes four results for each row of x.
func (d *groupDots) store() {
	at := GP64()
	for i, r := range d.totals {
		out := slot([]string{"out", "out2"}[i])
		MOVQ(out, at)
		VMOVUPS(r, Mem{Base: at})
		ADDQ(U8(16), out)
	}
}

func (d *groupDots) constants() {
	v := avx512
	if d.halves {
		d.mask, d.ones, d.times256 = v.constant(0x0f0f0f0f), v.constant(0x00010001), v.constant(0x01000100)
	}
	if d.table {
		d.numbers = ZMM()
		VBROADCASTI32X4(Mem{Base: arg("control")}, d.numbers)
	}
	if d.packed {
		d.step = arg("step")
		d.wide = newWideCodes(arg("control"), d.step)
	}
	d.weight, d.zero = v.constant(0x47800000), ZMM() // 65536
	v.zero(d.zero)
	for i := 1; i < 4; i++ {
		bits := GP32()
		MOVL(U32(0xf<<(4*i)), bits)
		d.places[i] = K()
		KMOVW(bits, d.places[i])
	}
	for i := 1; i < 4 && !d.table; i++ {
		bit := GP32()
		MOVL(U32(1<<i), bit)
		d.quads[i] = K()
		KMOVW(bit, d.quads[i])
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

// The types of factors, as in simd.FactorType. Those of tables are of 32 bits, as floats.
const (
	float32Factors = iota
	bfloat16Factors
	float16Factors
)

// loadFactors stores four groups' scales and biases of four rows, group by group, and moves on.
func (d *groupDots) loadFactors(at [2]reg.GPVirtual, rows [2]rowAt) {
	all := [2]reg.VecVirtual{ZMM(), ZMM()}
	if !d.table {
		CMPQ(slot("factors"), U8(float32Factors))
		JNE(LabelRef("narrow"))
	}
	for i, r := range all {
		VBROADCASTF32X4(rows[i](0, 0), r)
		for row := 1; row < 4; row++ {
			VBROADCASTF32X4(rows[i](row, 0), d.places[row], r)
		}
		ADDQ(U8(16), at[i])
	}
	if !d.table {
		JMP(LabelRef("loaded"))
		Label("narrow")
		d.widenFactors(at, rows, all)
		Label("loaded")
	}
	for i, r := range all {
		VPERMPS(r, d.transposed, r)
		VMOVUPS(r, d.factors[i])
	}
}

// widenFactors is the part of loadFactors for factors of 16 bits.
func (d *groupDots) widenFactors(at [2]reg.GPVirtual, rows [2]rowAt, all [2]reg.VecVirtual) {
	for i, r := range all {
		VPBROADCASTQ(rows[i](0, 0), r.AsY())
		for row := 1; row < 4; row++ {
			VPBROADCASTQ(rows[i](row, 0), d.quads[row], r.AsY())
		}
		ADDQ(U8(8), at[i])
	}
	CMPQ(slot("factors"), U8(float16Factors))
	JEQ(LabelRef("float16"))
	for _, r := range all {
		VPMOVZXWD(r.AsY(), r)
		VPSLLD(U8(16), r, r)
	}
	JMP(LabelRef("loaded"))
	Label("float16")
	for _, r := range all {
		VCVTPH2PS(r.AsY(), r)
	}
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
