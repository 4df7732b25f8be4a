package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// codeDots writes the products of blocks of quantized rows with one row of limbs:
// simd.CodeDots says what is computed, simd.Limbs how x lies in memory. A block
// has 16 lanes: one 512-bit vector, or two parts of 256 bits.
type codeDots struct {
	isa        isa
	dot        dotForm
	halves     bool // two codes to a byte
	groupLanes int  // lanes that share a scale: 4, 8, 16, or 32, two blocks
	rows       int

	code, x             reg.GPVirtual
	codeRow             rowAt
	scaleRow, biasRow   rowAt
	total               [][]reg.VecVirtual // per row and part of a block
	mask, lanes, ones   reg.VecVirtual
	scale256, even, odd reg.VecVirtual
}

// dotForm is how four bytes are multiplied with four bytes.
type dotForm int

const (
	dotVNNI dotForm = iota // VPDPBUSD
	dotAVX2                // VPMADDUBSW, whose sums of two fit 16 bits for codes up to 6 bits
)

func (d *codeDots) parts() int { return 16 / d.isa.lanes }

// codeDotsFamily writes every form.
func codeDotsFamily() {
	for _, form := range []struct {
		isa  isa
		dot  dotForm
		rows int
	}{{isa{"VNNI512", 16}, dotVNNI, 4}} {
		for _, rows := range []int{form.rows, 1} {
			for _, lanes := range []int{4, 8, 16} {
				(&codeDots{isa: form.isa, dot: form.dot, halves: true, groupLanes: lanes, rows: rows}).emit()
			}
			for _, lanes := range []int{4, 8, 16, 32} {
				(&codeDots{isa: form.isa, dot: form.dot, groupLanes: lanes, rows: rows}).emit()
			}
		}
	}
}

func (d *codeDots) emit() {
	v := d.isa
	order := "Natural"
	if d.halves {
		order = "Halves"
	}
	text("sets out to the products of x with count blocks of quantized rows.", "codeDots%s%dx%d%s", order, d.groupLanes, d.rows, v.name)(
		"(out *float32, codes *byte, stride int, scales *float32, biases *float32, groups int, x *byte, count int, blocks int)")
	stride, groups := arg("stride"), scaled("groups")
	scales, biases := GP64(), GP64()
	d.code, d.x = GP64(), GP64()
	d.codeRow = rowPointers(d.code, stride, d.rows)
	var triple reg.GPVirtual
	if d.rows > 3 {
		triple = tripled(groups)
	}
	d.scaleRow, d.biasRow = rowsAt(scales, groups, triple), rowsAt(biases, groups, triple)
	d.constants()
	for range d.rows {
		d.total = append(d.total, v.vecs(d.parts()))
	}

	Label("rows")
	MOVQ(slot("codes"), d.code)
	MOVQ(slot("scales"), scales)
	MOVQ(slot("biases"), biases)
	MOVQ(slot("x"), d.x)
	for _, row := range d.total {
		for _, r := range row {
			v.zero(r)
		}
	}
	left := GP64()
	MOVQ(slot("blocks"), left)
	Label("block")
	d.block()
	if d.groupLanes == 32 {
		d.block()
		SUBQ(U8(2), left)
	} else {
		DECQ(left)
	}
	step := max(4, 4*16/d.groupLanes)
	ADDQ(U8(step), scales)
	ADDQ(U8(step), biases)
	TESTQ(left, left)
	JNZ(LabelRef("block"))
	d.store()
	d.nextRows(stride, groups)
	DECQ(slot("count"))
	JNZ(LabelRef("rows"))
	VZEROUPPER()
	RET()
}

// constants loads what all blocks use.
func (d *codeDots) constants() {
	if d.halves {
		d.mask = d.isa.constant(0x0f0f0f0f)
	} else {
		d.scale256 = d.isa.constant(0x43800000) // 256
	}
	if d.groupLanes < d.isa.lanes {
		d.lanes = d.isa.vec()
		table := "groups of four"
		if d.groupLanes == 8 {
			table = "groups of eight"
		}
		d.isa.loadInts(laneTable(table), d.lanes)
	}
}

// laneTables say, for VPERMILPS, which of the numbers that are broadcast to every
// four lanes a lane takes.
var laneTables = map[string]*Mem{}

func laneTable(name string) Mem {
	if laneTables[name] == nil {
		symbol, lanes := "lanesOfFour", 4
		if name == "groups of eight" {
			symbol, lanes = "lanesOfEight", 8
		}
		table := GLOBL(symbol, 8|16)
		for i := range 16 {
			DATA(4*i, U32(uint32(i/lanes)))
		}
		laneTables[name] = &table
	}
	return *laneTables[name]
}

// constant puts a dword into every lane.
func (v isa) constant(bits uint32) reg.VecVirtual {
	r, x, y := GP32(), XMM(), v.vec()
	MOVL(U32(bits), r)
	VMOVD(r, x)
	VPBROADCASTD(x, y)
	return y
}

// block adds a block to the sums and moves on to the next one.
func (d *codeDots) block() {
	elements := 64
	if d.halves {
		elements = 128
	}
	for part := range d.parts() {
		d.part(part, elements)
	}
	ADDQ(U32(elements/d.codesPerByte()), d.code)
	ADDQ(U32(3*elements+128), d.x)
}

func (d *codeDots) codesPerByte() int {
	if d.halves {
		return 2
	}
	return 1
}

// part adds a vector of lanes of each row.
func (d *codeDots) part(part, elements int) {
	v := d.isa
	at := part * v.bytes()
	perLimb := elements / 64 // vectors of limbs in 64 bytes of lanes
	limbs := make([][]reg.VecVirtual, 3)
	for limb := range limbs {
		for half := range perLimb {
			r := v.vec()
			v.loadInts(Mem{Base: d.x, Disp: limb*elements + half*64 + at}, r)
			limbs[limb] = append(limbs[limb], r)
		}
	}
	powers, sums := v.vec(), v.vec()
	VMOVUPS(Mem{Base: d.x, Disp: 3*elements + at}, powers)
	VMOVUPS(Mem{Base: d.x, Disp: 3*elements + 64 + at}, sums)
	from := make([]Mem, d.rows)
	for row := range from {
		from[row] = d.codeRow(row, at)
	}
	dots := d.dots(from, limbs)
	for row, dot := range dots {
		total := d.total[row][part]
		if d.groupLanes >= v.lanes {
			// One scale for the vector.
			disp := part * v.lanes / d.groupLanes * 4
			scale := v.vec()
			VMULPS_BCST(d.scaleRow(row, disp), powers, scale)
			VFMADD231PS(scale, dot, total)
			VFMADD231PS_BCST(d.biasRow(row, disp), sums, total)
			continue
		}
		scale := d.spread(d.scaleRow(row, 0))
		VMULPS(powers, scale, scale)
		VFMADD231PS(scale, dot, total)
		VFMADD231PS(d.spread(d.biasRow(row, 0)), sums, total)
	}
}

// spread gives each lane its group's number.
func (d *codeDots) spread(from Mem) reg.VecVirtual {
	r := d.isa.vec()
	if d.groupLanes == 8 {
		VBROADCASTSD(from, r)
	} else {
		VBROADCASTF32X4(from, r)
	}
	VPERMILPS(d.lanes, r, r)
	return r
}

// dots returns, for each row, Σ code·n of each lane as floats. The rows take turns,
// because each one's instructions wait for one another.
func (d *codeDots) dots(codes []Mem, limbs [][]reg.VecVirtual) []reg.VecVirtual {
	v := d.isa
	first, high := v.vecs(d.rows), v.vecs(d.rows)
	eachRow := func(f func(row int)) {
		for row := range d.rows {
			f(row)
		}
	}
	eachRow(func(row int) {
		v.loadInts(codes[row], first[row])
		v.zero(high[row])
	})
	if d.halves {
		second := v.vecs(d.rows)
		eachRow(func(row int) {
			VPSRLW(U8(4), first[row], second[row])
			VPANDD(d.mask, first[row], first[row])
			VPANDD(d.mask, second[row], second[row])
		})
		// 15·8·2²² fits 32 bits.
		for limb := range 3 {
			if limb > 0 {
				eachRow(func(row int) { VPSLLD(U8(8), high[row], high[row]) })
			}
			eachRow(func(row int) { VPDPBUSD(limbs[limb][0], first[row], high[row]) })
			eachRow(func(row int) { VPDPBUSD(limbs[limb][1], second[row], high[row]) })
		}
		eachRow(func(row int) { VCVTDQ2PS(high[row], high[row]) })
		return high
	}
	// 255·4·2²² does not: two sums below 2²⁴, added with one rounding.
	low := v.vecs(d.rows)
	eachRow(func(row int) {
		v.zero(low[row])
		VPDPBUSD(limbs[0][0], first[row], high[row])
		VPDPBUSD(limbs[2][0], first[row], low[row])
	})
	eachRow(func(row int) { VPSLLD(U8(8), high[row], high[row]) })
	eachRow(func(row int) { VPDPBUSD(limbs[1][0], first[row], high[row]) })
	eachRow(func(row int) {
		VCVTDQ2PS(high[row], high[row])
		VCVTDQ2PS(low[row], low[row])
		VFMADD231PS(d.scale256, high[row], low[row])
	})
	return low
}

// store adds up the lanes of each row and writes the results.
func (d *codeDots) store() {
	v := d.isa
	out := arg("out")
	sums := make([]reg.VecVirtual, d.rows)
	for i, parts := range d.total {
		sums[i] = parts[0]
		if len(parts) == 2 {
			VADDPS(parts[1], sums[i], sums[i])
		}
	}
	switch d.rows {
	case 4:
		VMOVUPS(v.sum4(sums), Mem{Base: out})
	case 2:
		VMOVSD(v.sum2(sums[0], sums[1]), Mem{Base: out})
	default:
		VMOVSS(v.sum(sums[0]), Mem{Base: out})
	}
}

// nextRows moves the pointers in the arguments to the next rows.
func (d *codeDots) nextRows(stride, groups reg.GPVirtual) {
	bytes, numbers := GP64(), GP64()
	MOVQ(stride, bytes)
	MOVQ(groups, numbers)
	if d.rows > 1 {
		shift := U8(d.rows / 2) // 4 rows: 2, 2 rows: 1
		SHLQ(shift, bytes)
		SHLQ(shift, numbers)
	}
	ADDQ(U8(4*d.rows), slot("out"))
	ADDQ(bytes, slot("codes"))
	ADDQ(numbers, slot("scales"))
	ADDQ(numbers, slot("biases"))
}
