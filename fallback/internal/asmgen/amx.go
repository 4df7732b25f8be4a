package main

import "fmt"

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

// tileMemory moves a tile, whose rows are stride bytes apart in memory.
func (a *amx) tileMemory(name string, third, tile byte, base, stride string) {
	b, i := gp[base], gp[stride]
	a.bytes(fmt.Sprintf("%s tmm%d, (%s)(%s*1)", name, tile, base, stride),
		0xc4, 0x82|(^i>>3&1)<<6|(^b>>3&1)<<5, third, 0x4b, tile<<3|4, (i&7)<<3|b&7)
}

func (a *amx) load(tile byte, base, stride string) {
	a.tileMemory("tileloadd", 0x7b, tile, base, stride)
}
func (a *amx) store(tile byte, base, stride string) {
	a.tileMemory("tilestored", 0x7a, tile, base, stride)
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
	a.expand4()
	a.expand8()
	vnniFamily(a)
}

// product writes the product of 8, 16 or 32 rows of x, in tiles of 8 or 16, with panels of
// 32 rows of w, for groups of a given number of steps. A group of x is multiplied with all panels before the next group, so
// that it is in the nearest cache for all panels but the first.
//
// The sums of a block, a group and 16 columns, are added to c between the products of
// the next block, which another unit of the processor computes: Z0 and Z1 are scales and
// biases of the block before, CX is where in c it begins, and R13 are its factors.
func (a *amx) product(steps, rows int) {
	a.begin(fmt.Sprintf("amxProduct%dx%d", steps, rows), fmt.Sprintf("adds to %d rows of c, of 32 columns for each panel, the products of x with scale·code + bias. x has for each group, %d steps, limb and half of the rows a tile of 16 rows, row bytes apart; b has for each step and half of its 32 columns a tile of codes, panels stride bytes apart. tile is the size of a tile. scales and biases have 32 numbers for each group, panels apart bytes apart; factors have for each group the powers of two of 32 rows, and their sums. space is 6 KiB.", rows, steps),
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
	a.line("VPXORD Z0, Z0, Z0") // there is no block before the first: it adds 0 to that
	a.line("VPXORD Z1, Z1, Z1")
	a.line("MOVQ tile+80(FP), AX")
	a.line("MOVQ $64, R15")
	a.label("group")
	a.line("MOVQ panels+72(FP), R11")
	a.line("MOVQ b+16(FP), R12")
	a.label("panel")
	a.line("MOVQ $2, config+64(FP)")
	a.label("half")
	a.block(steps, rows)
	a.line("ADDQ AX, R12")
	a.line("DECQ config+64(FP)")
	a.line("JNZ half")
	a.nextPanel()
	a.line("DECQ R11")
	a.line("JNZ panel")
	a.nextGroup(steps)
	a.line("DECQ R9")
	a.line("JNZ group")
	for row := range rows {
		a.combine(row)
	}
	a.release()
	a.line("VZEROUPPER")
	a.line("RET")
}

// block sets tiles 0 to 5, or 0 to 2 if there are no more than 16 rows, to the sums of a
// block: of each limb of x, from SI on, and half of its rows, and of the 16 columns of w
// from R12 on. It stores them, and makes it the block before.
func (a *amx) block(steps, rows int) {
	tiles, stride := 6, 1 // stride: in tiles, of x and of sums
	if rows <= 16 {
		tiles, stride = 3, 2 // without those of rows 16 to 31
	}
	for tile := range tiles {
		a.zero(byte(tile))
	}
	a.line("MOVQ R12, DI")
	a.line("MOVQ SI, DX")
	row := 0
	for step := range steps {
		a.load(6, "DI", "R15")
		for tile := range tiles {
			a.load(7, "DX", "R8")
			a.dot(byte(tile), 7, 6)
			a.line("LEAQ (DX)(AX*%d), DX", stride)
			for ; row < rows*(tiles*step+tile+1)/(tiles*steps); row++ {
				a.combine(row)
			}
		}
		a.line("LEAQ (DI)(AX*2), DI")
	}
	a.line("MOVQ BX, DX")
	for tile := range tiles {
		a.store(byte(tile), "DX", "R15")
		a.line("ADDQ $%d, DX", 1024*stride)
	}
	for i, p := range []string{"scales+24", "biases+32"} {
		a.line("MOVQ %s(FP), DX", p)
		a.line("VMOVUPS (DX), Z%d", i)
		a.line("ADDQ $64, %s(FP)", p)
	}
	a.line("MOVQ factors+40(FP), R13")
	a.line("MOVQ c+0(FP), CX")
	a.line("ADDQ $64, c+0(FP)")
}

// combine adds a row of the sums of the block before to c, and moves CX to the next.
func (a *amx) combine(row int) {
	high := 2 + row%7*4
	low, scale, sum := high+1, high+2, high+3
	a.line("VPSLLD $8, %d(BX), Z%d", 2048+64*row, low)
	a.line("VPADDD %d(BX), Z%d, Z%d", 4096+64*row, low, low)
	a.line("VCVTDQ2PS %d(BX), Z%d", 64*row, high)
	a.line("VCVTDQ2PS Z%d, Z%d", low, low)
	a.line("VMULPS.BCST %d(R13), Z0, Z%d", 4*row, scale)
	a.line("VMOVUPS (CX), Z%d", sum)
	a.line("VFMADD231PS Z31, Z%d, Z%d", high, low)
	a.line("VFMADD231PS.BCST %d(R13), Z1, Z%d", 128+4*row, sum)
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
