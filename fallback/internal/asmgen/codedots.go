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

	code, x, ahead    reg.GPVirtual
	codeRow           rowAt
	scaleRow, biasRow rowAt
	total             [][]reg.VecVirtual // per row and part of a block
	mask, lanes       reg.VecVirtual
	ones, sixteens    reg.VecVirtual // of 16 bits
	scale256          reg.VecVirtual
	limbs             [3][2]reg.VecVirtual // where there are registers for them
	part0             int                  // bytes of the lanes before this part
}

// dotForm is how four bytes are multiplied with four bytes.
type dotForm int

const (
	dotVNNI dotForm = iota // VPDPBUSD
	dotAVX2                // VPMADDUBSW, whose sums of two fit 16 bits for codes of 4 bits
)

// prefetchAhead is how many bytes ahead codes are prefetched: somewhat more than
// memory delivers in the time of one access. groupDots prefetches them twice as far ahead.
const prefetchAhead = 4096

func (d *codeDots) parts() int { return 16 / d.isa.lanes }

// codeDotsFamily writes every form. With AVX-512 VNNI, only nvfp4 with its groups of 16 takes them:
// for larger groups there is simd.GroupDots.
func codeDotsFamily() {
	for _, form := range []struct {
		isa             isa
		dot             dotForm
		rows            int
		halves, natural []int // how many lanes share a scale
	}{
		{isa{"VNNI512", 16}, dotVNNI, 4, nil, []int{4}},
		{isa{"AVXVNNI", 8}, dotVNNI, 2, []int{4, 8, 16}, []int{4, 8, 16, 32}},
		{isa{"AVX2", 8}, dotAVX2, 2, []int{4, 8, 16}, []int{4, 8, 16, 32}},
	} {
		for _, rows := range []int{form.rows, 1} {
			for _, lanes := range form.halves {
				(&codeDots{isa: form.isa, dot: form.dot, halves: true, groupLanes: lanes, rows: rows}).emit()
			}
			for _, lanes := range form.natural {
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
	d.code, d.x, d.ahead = GP64(), GP64(), GP64()
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
	MOVQ(d.code, d.ahead)
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
	d.group(left, scales, biases)
	TESTQ(left, left)
	JNZ(LabelRef("block"))
	d.store()
	d.nextRows(stride, groups)
	DECQ(slot("count"))
	JNZ(LabelRef("rows"))
	VZEROUPPER()
	RET()
}

// constants loads the constants that all blocks use.
func (d *codeDots) constants() {
	if d.halves {
		d.mask = d.isa.constant(0x0f0f0f0f)
	} else {
		d.scale256 = d.isa.constant(0x43800000) // 256
	}
	if d.dot == dotAVX2 {
		d.ones = d.isa.constant(0x00010001)
		if !d.halves {
			d.mask, d.sixteens = d.isa.constant(0x0f0f0f0f), d.isa.constant(0x00100010)
		}
	}
	if d.groupLanes < d.isa.lanes {
		d.lanes = d.isa.vec()
		d.isa.loadInts(laneTable(d.groupLanes), d.lanes)
	}
}

// laneTables say, for VPERMILPS, which of the numbers that are broadcast to every
// four lanes a lane takes, by how many lanes share a number.
var laneTables = map[int]*Mem{}

func laneTable(lanes int) Mem {
	if laneTables[lanes] == nil {
		table := GLOBL(map[int]string{4: "lanesOfFour", 8: "lanesOfEight"}[lanes], 8|16)
		for i := range 16 {
			DATA(4*i, U32(uint32(i/lanes)))
		}
		laneTables[lanes] = &table
	}
	return *laneTables[lanes]
}

// group adds the blocks that share a scale and a bias, or one block, and counts them down.
func (d *codeDots) group(left, scales, biases reg.GPVirtual) {
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
}

// block adds a block to the sums and moves on to the next one.
func (d *codeDots) block() {
	elements := 64
	if d.halves {
		elements = 128
	}
	// The rows take turns, which the processor's own prefetcher does not detect, but they
	// follow one another in memory.
	for row := range d.rows {
		PREFETCHT0(Mem{Base: d.ahead, Disp: prefetchAhead + 64*row})
	}
	ADDQ(U32(64*d.rows), d.ahead)
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
	d.part0 = at
	if v.wide() {
		for limb := range 3 {
			for half := range elements / 64 {
				d.limbs[limb][half] = v.vec()
				v.loadInts(d.limbAt(limb, half), d.limbs[limb][half])
			}
		}
	}
	from := make([]Mem, d.rows)
	for row := range from {
		from[row] = d.codeRow(row, at)
	}
	dots := d.dots(from)
	powers, sums := v.vec(), v.vec()
	VMOVUPS(Mem{Base: d.x, Disp: 3*elements + at}, powers)
	VMOVUPS(Mem{Base: d.x, Disp: 3*elements + 64 + at}, sums)
	for row, dot := range dots {
		total := d.total[row][part]
		scale, bias := v.vec(), v.vec()
		disp := part * v.lanes / d.groupLanes * 4
		if d.groupLanes >= v.lanes { // one scale for the vector
			VBROADCASTSS(d.scaleRow(row, disp), scale)
			VBROADCASTSS(d.biasRow(row, disp), bias)
		} else {
			scale, bias = d.spread(d.scaleRow(row, disp)), d.spread(d.biasRow(row, disp))
		}
		VMULPS(powers, scale, scale)
		VFMADD231PS(scale, dot, total)
		VFMADD231PS(bias, sums, total)
	}
}

// spread gives each lane its group's number.
func (d *codeDots) spread(from Mem) reg.VecVirtual {
	r := d.isa.vec()
	if d.isa.wide() && d.groupLanes == 4 {
		VBROADCASTF32X4(from, r)
	} else {
		VBROADCASTSD(from, r)
	}
	VPERMILPS(d.lanes, r, r)
	return r
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
