package main

import (
	"encoding/binary"
	"fmt"
)

// amx writes the products on AMX tiles, whose instructions Go's assembler lacks.
type amx struct{ source }

// General registers, by their number in instructions.
var gp = map[string]byte{"AX": 0, "CX": 1, "DX": 2, "BX": 3, "SI": 6, "DI": 7, "R8": 8, "R9": 9, "R10": 10, "R11": 11, "R15": 15}

func (a *amx) bytes(text string, code ...byte) {
	line := ""
	for _, c := range code {
		line += fmt.Sprintf("BYTE $%#02x; ", c)
	}
	a.line("%s// %s", line, text)
}

// tileMemory moves a tile whose rows are stride bytes apart in memory, the first one disp bytes after base.
func (a *amx) tileMemory(name string, third, tile byte, base string, disp int, stride string) {
	b, i := gp[base], gp[stride]
	code := []byte{0xc4, 0x82 | (^i>>3&1)<<6 | (^b>>3&1)<<5, third, 0x4b, 0x80 | tile<<3 | 4, (i&7)<<3 | b&7}
	a.bytes(fmt.Sprintf("%s tmm%d, %d(%s)(%s*1)", name, tile, disp, base, stride), binary.LittleEndian.AppendUint32(code, uint32(disp))...)
}

func (a *amx) load(tile byte, base, stride string) {
	a.tileMemory("tileloadd", 0x7b, tile, base, 0, stride)
}
func (a *amx) store(tile byte, base string, disp int, stride string) {
	a.tileMemory("tilestored", 0x7a, tile, base, disp, stride)
}

func (a *amx) zero(tile byte) {
	a.bytes(fmt.Sprintf("tilezero tmm%d", tile), 0xc4, 0xe2, 0x7b, 0x49, 0xc0|tile<<3)
}

// dot adds to sum, of 32-bit integers, the products of signed bytes in the rows of x with
// unsigned bytes in the columns of w.
func (a *amx) dot(sum, x, w byte) {
	a.bytes(fmt.Sprintf("tdpbsud tmm%d, tmm%d, tmm%d", sum, x, w), 0xc4, 0xe2, (^w&15)<<3|0x02, 0x5e, 0xc0|sum<<3|x)
}

func (a *amx) configure(base string) {
	a.bytes("ldtilecfg ("+base+")", 0xc4, 0xc2|(^gp[base]>>3&1)<<5, 0x78, 0x49, gp[base]&7)
}

func (a *amx) release() { a.bytes("tilerelease", 0xc4, 0xe2, 0x78, 0x49, 0xc0) }

func amxFamily(a *amx) {
	for _, rows := range []int{8, 16, 32} {
		a.product(1, rows)
		a.product(2, rows)
	}
	a.split()
	a.expand4(false)
	a.expand4(true)
	a.expand8()
	vnniFamily(a)
}

// product writes the product of 8, 16 or 32 rows of x, in tiles of 8 or 16, with panels of
// 32 rows of w, for groups of a given number of steps. A group of x is multiplied with all panels before the next group, so
// that it is in the nearest cache for all panels but the first.
//
// A block is a group, one tile of rows of x and 16 columns. Blocks alternate between two sets of tiles (see set). The
// products of a block are computed by another unit of the processor. Meanwhile, the sums of the previous block, whose
// products are done by then, are stored, and those of the block before that one, which used the same set, are added to c.
func (a *amx) product(steps, rows int) {
	a.begin(fmt.Sprintf("amxProduct%dx%d", steps, rows), fmt.Sprintf("adds to %d rows of c, of 32 columns for each panel, the products of x with scale·code + bias. A group has %d step(s). x has a tile of 16 rows, row bytes apart, for each step, limb and half of the rows; b has a tile of codes for each step and half of a panel's 32 columns, panels stride bytes apart. tile is the size of a tile. scales and biases have 32 numbers for each group, panels apart bytes apart; factors have the powers of two of 32 rows for each group, and their sums. space is 6 KiB.", rows, steps),
		"(c *float32, x *byte, b *byte, scales *float32, biases *float32, factors *float32, groups int, space *float32, config *byte, panels int, tile int, row int, stride int, apart int)", 14)
	for _, p := range []struct {
		name string
		at   int
		reg  string
	}{{"config", 64, "AX"}, {"x", 8, "SI"}, {"row", 88, "R8"}, {"groups", 48, "R9"}, {"space", 56, "BX"}, {"panels", 72, "R10"}, {"c", 0, "CX"}, {"factors", 40, "R13"}} {
		if a.line("MOVQ %s+%d(FP), %s", p.name, p.at, p.reg); p.name == "config" {
			a.configure("AX")
		}
	}
	a.line("SHLQ $7, R10")         // from row to row of c
	a.line("MOVL $0x47800000, AX") // 65536
	a.line("VPBROADCASTD AX, Z31")
	sets := setsOf(rows)
	for _, s := range sets { // no block is before the first ones: that adds 0, or NaN in rows of x that are not finite
		for _, z := range []int{s.scale, s.bias} {
			a.line("VPXORD Z%d, Z%d, Z%d", z, z, z)
		}
		a.placeRows(s)
		a.line("MOVQ R13, %s", s.factors)
		for tile := s.tile; tile < s.tile+3; tile++ {
			a.zero(byte(tile))
		}
	}
	a.line("MOVQ tile+80(FP), AX")
	a.line("MOVQ $64, R15")
	a.label("group")
	a.line("MOVQ panels+72(FP), R11")
	a.line("MOVQ b+16(FP), R12")
	a.label("panel")
	if rows > 16 {
		a.line("MOVQ $2, config+64(FP)")
		a.label("half")
	}
	for i := range sets {
		a.block(steps, sets[i], sets[1-i])
	}
	if rows > 16 {
		a.line("DECQ config+64(FP)")
		a.line("JNZ half")
	}
	a.nextPanel()
	a.line("DECQ R11")
	a.line("JNZ panel")
	a.nextGroup(steps)
	a.line("DECQ R9")
	a.line("JNZ group")
	for i, s := range sets {
		if i == 1 {
			a.storeSums(s)
		}
		a.beginCombining(s)
		for row := range s.rows {
			a.combine(s, row)
		}
	}
	a.release()
	a.line("VZEROUPPER")
	a.line("RET")
}

// set is what blocks of one of two kinds use: those of rows 0 to 15 of x and of rows 16 to 31 or, if there are no more than
// 16 rows, those of the first and of the last 16 columns of a panel.
type set struct {
	tile        int    // the first of three, one for each limb
	rows, first int    // of x, and the first of them
	sums        int    // where they are stored, in bytes from BX
	scale, bias int    // registers with those of the last block
	c, factors  string // parameters that are not needed any more, for where in c that block begins, and for its factors
	last        bool   // whether the next block is of other columns
}

func setsOf(rows int) [2]set {
	sets := [2]set{
		{tile: 0, rows: rows, scale: 0, bias: 1, c: "x+8(FP)", factors: "row+88(FP)", last: true},
		{tile: 3, rows: rows, sums: 1024, scale: 26, bias: 27, c: "groups+48(FP)", factors: "space+56(FP)", last: true},
	}
	if rows > 16 {
		sets[0].rows, sets[1].rows, sets[1].first = 16, 16, 16
		sets[0].last = false
	}
	return sets
}

// block sets the tiles of s to the sums of a block: of each limb of x, from SI on, and of the 16 columns of w from R12 on.
func (a *amx) block(steps int, s, before set) {
	for limb := range 3 {
		a.zero(byte(s.tile + limb))
	}
	a.beginCombining(s)
	a.line("MOVQ R12, DI")
	a.line("MOVQ SI, DX")
	if s.first > 0 {
		a.line("ADDQ AX, DX")
	}
	row := 0
	for step := range steps {
		a.load(6, "DI", "R15")
		for limb := range 3 {
			a.load(7, "DX", "R8")
			a.dot(byte(s.tile+limb), 7, 6)
			a.line("LEAQ (DX)(AX*2), DX")
			for ; row < s.rows*(3*step+limb+1)/(3*steps); row++ {
				a.combine(s, row)
			}
		}
		if step == 0 {
			a.storeSums(before)
		}
		a.line("LEAQ (DI)(AX*2), DI")
	}
	a.line("MOVQ factors+40(FP), R13")
	a.line("MOVQ R13, %s", s.factors)
	a.line("MOVQ c+0(FP), CX")
	a.placeRows(s)
	for _, p := range []struct {
		name string
		to   int
	}{{"scales+24", s.scale}, {"biases+32", s.bias}} {
		a.line("MOVQ %s(FP), DX", p.name)
		a.line("VMOVUPS (DX), Z%d", p.to)
		if s.last {
			a.line("ADDQ $64, %s(FP)", p.name)
		}
	}
	if s.last {
		a.line("ADDQ $64, c+0(FP)")
		a.line("ADDQ AX, R12")
	}
}

// placeRows keeps where in c the rows of s begin, if CX is where row 0 does.
func (a *amx) placeRows(s set) {
	if s.first > 0 {
		a.line("MOVQ R10, DX")
		a.line("SHLQ $4, DX")
		a.line("ADDQ DX, CX")
	}
	a.line("MOVQ CX, %s", s.c)
}

// storeSums stores those of the last block of a set.
func (a *amx) storeSums(s set) {
	for limb := range 3 {
		a.store(byte(s.tile+limb), "BX", s.sums+2048*limb, "R15")
	}
}

// beginCombining loads where the last block of a set goes.
func (a *amx) beginCombining(s set) {
	a.line("MOVQ %s, CX", s.c)
	a.line("MOVQ %s, R13", s.factors)
}

// combine adds a row of the stored sums of a set to c, and moves CX to the next.
func (a *amx) combine(s set, row int) {
	high := 2 + row%6*4
	low, scale, sum, at := high+1, high+2, high+3, s.sums+64*row
	a.line("VPSLLD $8, %d(BX), Z%d", 2048+at, low)
	a.line("VPADDD %d(BX), Z%d, Z%d", 4096+at, low, low)
	a.line("VCVTDQ2PS %d(BX), Z%d", at, high)
	a.line("VCVTDQ2PS Z%d, Z%d", low, low)
	a.line("VMULPS.BCST %d(R13), Z%d, Z%d", 4*(s.first+row), s.scale, scale)
	a.line("VMOVUPS (CX), Z%d", sum)
	a.line("VFMADD231PS Z31, Z%d, Z%d", high, low)
	a.line("VFMADD231PS.BCST %d(R13), Z%d, Z%d", 128+4*(s.first+row), s.bias, sum)
	a.line("VFMADD231PS Z%d, Z%d, Z%d", low, scale, sum)
	a.line("VMOVUPS Z%d, (CX)", sum)
	a.line("ADDQ R10, CX")
}

// nextPanel goes on to the next panel of the group.
func (a *amx) nextPanel() {
	a.line("ADDQ stride+96(FP), R12")
	a.line("SUBQ AX, R12")
	a.line("SUBQ AX, R12")
	a.line("MOVQ apart+104(FP), DX")
	a.line("SUBQ $128, DX")
	a.line("ADDQ DX, scales+24(FP)")
	a.line("ADDQ DX, biases+32(FP)")
}

// nextGroup goes back to the first panel, and on to the next group.
func (a *amx) nextGroup(steps int) {
	a.line("SUBQ R10, c+0(FP)")
	a.line("MOVQ panels+72(FP), DX")
	a.line("IMULQ apart+104(FP), DX")
	a.line("SUBQ $128, DX")
	a.line("SUBQ DX, scales+24(FP)")
	a.line("SUBQ DX, biases+32(FP)")
	a.line("ADDQ $256, factors+40(FP)")
	a.line("LEAQ (AX)(AX*2), DX") // of the six tiles of a step
	a.line("IMUL3Q $%d, AX, DI", 2*steps)
	a.line("ADDQ DI, b+16(FP)")
	a.line("IMUL3Q $%d, DX, DX", 2*steps)
	a.line("ADDQ DX, SI")
}
