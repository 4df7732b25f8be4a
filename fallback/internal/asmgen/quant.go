package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// decoder turns a vector's worth of codes into float32 numbers. bits is 4, 8, or
// 0 for a layout given at run time by a control block (see simd.control).
type decoder struct {
	isa                   isa
	bits                  int
	shuffle, shifts, mask reg.VecVirtual
	step                  reg.GPVirtual // bytes of a vector's codes, where bits is 0
}

// controlShifts and controlMask are where a control block holds these; the
// shuffle comes first.
const controlShifts, controlMask = 64, 128

func newDecoder(v isa, bits int) *decoder {
	d := &decoder{isa: v, bits: bits}
	if bits == 8 {
		return d
	}
	control := arg("control")
	d.shifts = v.vec()
	v.loadInts(Mem{Base: control, Disp: controlShifts}, d.shifts)
	if !d.table() {
		d.mask = v.vec()
		VPBROADCASTD(Mem{Base: control, Disp: controlMask}, d.mask)
	}
	if bits == 0 {
		d.shuffle = v.vec()
		v.loadInts(Mem{Base: control}, d.shuffle)
		d.step = arg("step")
	}
	return d
}

func (v isa) loadInts(m Mem, r reg.VecVirtual) {
	if v.wide() {
		VMOVDQU32(m, r)
		return
	}
	VMOVDQU(m, r)
}

// table reports whether codes are looked up in a table of the group's 16
// numbers, which one instruction can do.
func (d *decoder) table() bool { return d.isa.wide() && d.bits == 4 }

// codes moves codes from memory so that each lane's low bits are one.
func (d *decoder) codes(from Mem, to reg.VecVirtual) {
	wide := d.isa.wide()
	switch {
	case d.bits == 8:
		VPMOVZXBD(from, to)
		return
	case d.bits == 4 && wide:
		VPBROADCASTQ(from, to)
	case d.bits == 4:
		VPBROADCASTD(from, to)
	case wide:
		VBROADCASTI32X4(from, to)
		VPSHUFB(d.shuffle, to, to)
	default:
		VPBROADCASTQ(from, to)
		VPSHUFB(d.shuffle, to, to)
	}
	VPSRLVD(d.shifts, to, to)
}

// floats decodes codes from memory to whole float32 numbers.
func (d *decoder) floats(from Mem, to reg.VecVirtual) {
	d.codes(from, to)
	if d.bits != 8 {
		if d.isa.wide() {
			VPANDD(d.mask, to, to)
		} else {
			VPAND(d.mask, to, to)
		}
	}
	VCVTDQ2PS(to, to)
}

// advance moves a pointer over the codes of a vector.
func (d *decoder) advance(p reg.GPVirtual) {
	if d.bits == 0 {
		ADDQ(d.step, p)
		return
	}
	ADDQ(U8(d.isa.lanes*d.bits/8), p)
}

// quantDots writes products of quantized rows with one float32 row. A block of
// rows shares the loads of x. Per group either a table of its numbers is made and
// codes are looked up in it, or Σ code·x is scaled once and the bias goes with
// the group's Σ x.
func quantDots(v isa, rows, bits int) {
	name := fmt.Sprint(bits)
	if bits == 0 {
		name = "any"
	}
	text(fmt.Sprintf("sets out to the products of x with count blocks of %d quantized rows.", rows),
		"quantDots%s_%d%s", name, rows, v.name)("(out *float32, codes *byte, rowBytes int, scales *float32, biases *float32, x *float32, sums *float32, count int, groups int, stride int, vectors int, control *byte, step int)")
	d := newDecoder(v, bits)
	rowBytes, stride := arg("rowBytes"), scaled("stride")
	code, scales, biases, triple := GP64(), GP64(), GP64(), tripled(stride)
	codeRow := rowPointers(code, rowBytes, rows)
	scaleRow, biasRow := rowsAt(scales, stride, triple), rowsAt(biases, stride, triple)
	total, part := v.vecs(rows), v.vecs(rows)
	iota := v.vec()
	if d.table() {
		v.loadInts(Mem{Base: arg("control"), Disp: 0}, iota)
	}

	Label("block")
	MOVQ(slot("codes"), code)
	MOVQ(slot("scales"), scales)
	MOVQ(slot("biases"), biases)
	for _, r := range total {
		v.zero(r)
	}
	x, sums, group := arg("x"), GP64(), GP64()
	if !d.table() {
		Load(Param("sums"), sums)
	}
	MOVQ(slot("groups"), group)
	Label("group")
	inner := GP64()
	MOVQ(slot("vectors"), inner)
	if d.table() {
		groupByTable(d, total, part, iota, codeRow, scaleRow, biasRow, code, x, inner)
	} else {
		groupBySum(d, total, part, codeRow, scaleRow, biasRow, code, x, sums, inner)
	}
	ADDQ(U8(4), scales)
	ADDQ(U8(4), biases)
	DECQ(group)
	JNZ(LabelRef("group"))

	out := arg("out")
	if rows == 4 {
		VMOVUPS(v.sum4(total), Mem{Base: out})
		SHLQ(U8(2), rowBytes)
		SHLQ(U8(2), stride)
	} else {
		VMOVSS(v.sum(total[0]), Mem{Base: out})
	}
	ADDQ(U8(4*rows), slot("out"))
	ADDQ(rowBytes, slot("codes"))
	ADDQ(stride, slot("scales"))
	ADDQ(stride, slot("biases"))
	if rows == 4 {
		SHRQ(U8(2), rowBytes)
		SHRQ(U8(2), stride)
	}
	DECQ(slot("count"))
	JNZ(LabelRef("block"))
	VZEROUPPER()
	RET()
}

type rowAt func(row, disp int) Mem

// groupByTable adds one group: tables of scale·code + bias, then lookups.
func groupByTable(d *decoder, total, table []reg.VecVirtual, iota reg.VecVirtual, codeRow, scaleRow, biasRow rowAt, code, x, inner reg.GPVirtual) {
	v := d.isa
	for i := range total {
		VBROADCASTSS(biasRow(i, 0), table[i])
		VFMADD231PS_BCST(scaleRow(i, 0), iota, table[i])
	}
	xs, q := v.vec(), v.vecs(len(total))
	Label("codes")
	VMOVUPS(Mem{Base: x}, xs)
	for i := range total {
		d.codes(codeRow(i, 0), q[i])
		VPERMPS(table[i], q[i], q[i])
		VFMADD231PS(q[i], xs, total[i])
	}
	d.advance(code)
	ADDQ(U8(v.bytes()), x)
	DECQ(inner)
	JNZ(LabelRef("codes"))
}

// groupBySum adds one group: scale·Σ code·x + bias·Σ x.
func groupBySum(d *decoder, total, part []reg.VecVirtual, codeRow, scaleRow, biasRow rowAt, code, x, sums, inner reg.GPVirtual) {
	v := d.isa
	for _, r := range part {
		v.zero(r)
	}
	q := v.vec()
	Label("codes")
	for i := range total {
		d.floats(codeRow(i, 0), q)
		VFMADD231PS(Mem{Base: x}, q, part[i])
	}
	d.advance(code)
	ADDQ(U8(v.bytes()), x)
	DECQ(inner)
	JNZ(LabelRef("codes"))
	sum := v.vec()
	VMOVUPS(Mem{Base: sums}, sum.AsY())
	ADDQ(U8(32), sums)
	for i := range total {
		VBROADCASTSS(biasRow(i, 0), q)
		VFMADD231PS(q, sum, total[i])
		VBROADCASTSS(scaleRow(i, 0), q)
		VFMADD231PS(q, part[i], total[i])
	}
}

// dequantize writes one row as float32 numbers, any bits.
func dequantize(v isa) {
	text("writes scale·code + bias for the groups of one row.", "dequantize%s", v.name)("(dst *float32, codes *byte, scales *float32, biases *float32, groups int, vectors int, control *byte, step int)")
	d := newDecoder(v, 0)
	dst, codes, scales, biases, groups, vectors := arg("dst"), arg("codes"), arg("scales"), arg("biases"), arg("groups"), arg("vectors")
	scale, bias, q := v.vec(), v.vec(), v.vec()
	Label("group")
	VBROADCASTSS(Mem{Base: scales}, scale)
	VBROADCASTSS(Mem{Base: biases}, bias)
	ADDQ(U8(4), scales)
	ADDQ(U8(4), biases)
	inner := GP64()
	MOVQ(vectors, inner)
	Label("codes")
	d.floats(Mem{Base: codes}, q)
	VFMADD213PS(bias, scale, q)
	VMOVUPS(q, Mem{Base: dst})
	d.advance(codes)
	ADDQ(U8(v.bytes()), dst)
	DECQ(inner)
	JNZ(LabelRef("codes"))
	DECQ(groups)
	JNZ(LabelRef("group"))
	VZEROUPPER()
	RET()
}

// prepareSums writes, per group, 8 numbers that add up to the sum of the group.
func prepareSums() {
	text("sets dst, for each group of x, to 8 numbers that add up to the group's sum; a group has 8 times vectors numbers.",
		"prepareSumsAVX2")("(dst *float32, x *float32, groups int, vectors int)")
	dst, x, groups, vectors := arg("dst"), arg("x"), arg("groups"), arg("vectors")
	sum, inner := YMM(), GP64()
	Label("group")
	avx2.zero(sum)
	MOVQ(vectors, inner)
	Label("add")
	VADDPS(Mem{Base: x}, sum, sum)
	ADDQ(U8(32), x)
	DECQ(inner)
	JNZ(LabelRef("add"))
	VMOVUPS(sum, Mem{Base: dst})
	ADDQ(U8(32), dst)
	DECQ(groups)
	JNZ(LabelRef("group"))
	VZEROUPPER()
	RET()
}
