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

// tileMemory moves 16 rows of 64 bytes, stride bytes apart.
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
	a.product(1)
	a.product(2)
	a.split()
	a.expand4()
	a.expand8()
	vnniFamily(a)
}

// product writes the product of 32 rows of x with panels of 32 rows of w, for groups of
// so many steps. A group of x is multiplied with all panels before the next group, so
// that it is in the nearest cache for all panels but the first.
//
// The sums of a block, a group and 16 columns, are added to c between the products of
// the next block, which another unit of the processor computes: Z0 and Z1 are scales and
// biases of the block before, CX is where in c it begins, and R13 are its factors.
func (a *amx) product(steps int) {
	a.begin(fmt.Sprintf("amxProduct%d", steps), fmt.Sprintf("adds to 32 rows of c, of 32 columns for each panel, the products of x with scale·code + bias. x has for each group, %d steps, limb and half of the rows a tile of 16 rows, row bytes apart; b has for each step and half of its 32 columns a tile of codes, panels stride bytes apart. tile is the size of a tile. scales and biases have 32 numbers for each group, panels apart bytes apart; factors have for each group the powers of two of 32 rows, and their sums. space is 6 KiB.", steps),
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
	a.block(steps)
	a.line("ADDQ AX, R12")
	a.line("DECQ config+64(FP)")
	a.line("JNZ half")
	a.nextPanel()
	a.line("DECQ R11")
	a.line("JNZ panel")
	a.nextGroup(steps)
	a.line("DECQ R9")
	a.line("JNZ group")
	for row := range 32 {
		a.combine(row)
	}
	a.release()
	a.line("VZEROUPPER")
	a.line("RET")
}

// block sets tiles 0 to 5 to the sums of a block: of each limb of x, from SI on, and half
// of its rows, and of the 16 columns of w from R12 on. It stores them, and makes it the
// block before.
func (a *amx) block(steps int) {
	for tile := range byte(6) {
		a.zero(tile)
	}
	a.line("MOVQ R12, DI")
	a.line("MOVQ SI, DX")
	row := 0
	for step := range steps {
		a.load(6, "DI", "R15")
		for tile := range 6 {
			a.load(7, "DX", "R8")
			a.dot(byte(tile), 7, 6)
			a.line("ADDQ AX, DX")
			for ; row < 32*(6*step+tile+1)/(6*steps); row++ {
				a.combine(row)
			}
		}
		a.line("LEAQ (DI)(AX*2), DI")
	}
	a.line("MOVQ BX, DX")
	for tile := range byte(6) {
		a.store(tile, "DX", "R15")
		a.line("ADDQ $1024, DX")
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

// split writes what makes limbs of a row of x: simd.Tiles says how they lie.
func (a *amx) split() {
	a.begin("tileSplit", "makes the limbs of a row of x: in each of steps of a group 16 times vectors elements, those of one limb side by side and limbs limb bytes apart, steps six halves of that. It sets the group's power of two and, 128 bytes behind it, its sum; groups are 256 bytes apart. It sets largest to the largest of the bits of absolute values.",
		"(dst *byte, x *float32, factors *float32, groups int, steps int, vectors int, limb int, largest *uint32)", 8)
	for i, r := range []string{"DI", "SI", "DX", "R9", "R10", "R11", "R13"} {
		a.line("MOVQ %s+%d(FP), %s", []string{"dst", "x", "factors", "groups", "steps", "vectors", "limb"}[i], 8*i, r)
	}
	for i, constant := range []int{0x7fffffff, 22, 275, 21, 128} {
		a.line("MOVL $%d, AX", constant)
		a.line("VPBROADCASTD AX, Z%d", 31-i)
	}
	a.line("MOVQ R10, R12") // vectors of a group
	a.line("IMULQ R11, R12")
	a.line("LEAQ (R13)(R13*2), R8") // from the end of a step to the next
	a.line("MOVQ R11, AX")
	a.line("SHLQ $4, AX")
	a.line("SUBQ AX, R8")
	a.line("VPXORD Z16, Z16, Z16") // the largest of all
	a.label("group")
	a.power()
	a.digits()
	a.line("DECQ R9")
	a.line("JNZ group")
	a.line("MOVQ largest+56(FP), AX")
	a.line("VMOVD X16, (AX)")
	a.line("VZEROUPPER")
	a.line("RET")
}

// power sets Z3 to the power of two that brings a group to integers, and Z4 to its
// inverse.
func (a *amx) power() {
	a.line("VPXORD Z0, Z0, Z0")
	a.line("MOVQ SI, BX")
	a.line("MOVQ R12, CX")
	a.label("most")
	a.line("VPANDD (BX), Z31, Z1")
	a.line("VPMAXUD Z1, Z0, Z0")
	a.line("ADDQ $64, BX")
	a.line("DECQ CX")
	a.line("JNZ most")
	a.across("VPMAXUD", 0)
	a.line("VPBROADCASTD X0, Z0")
	a.line("VPMAXUD Z0, Z16, Z16")
	a.line("VPSRLD $23, Z0, Z2")
	a.line("VPMAXUD Z30, Z2, Z2")
	a.line("VPSUBD Z2, Z29, Z3")
	a.line("VPSLLD $23, Z3, Z3")
	a.line("VPSUBD Z28, Z2, Z4")
	a.line("VPSLLD $23, Z4, Z4")
}

// across joins all lanes of a register in its first, with Z1 for the other operand.
func (a *amx) across(op string, r int) {
	a.line("VEXTRACTI64X4 $1, Z%d, Y1", r)
	a.line("%s Y1, Y%d, Y%d", op, r, r)
	a.line("VEXTRACTI128 $1, Y%d, X1", r)
	a.line("%s X1, X%d, X%d", op, r, r)
	a.line("VPSHUFD $0x4e, X%d, X1", r)
	a.line("%s X1, X%d, X%d", op, r, r)
	a.line("VPSHUFD $0xb1, X%d, X1", r)
	a.line("%s X1, X%d, X%d", op, r, r)
}

// digits writes the limbs of a group, its power and its sum.
func (a *amx) digits() {
	a.line("VPXORD Z0, Z0, Z0")
	a.line("MOVQ R10, AX")
	a.label("step")
	a.line("MOVQ R11, CX")
	a.label("vector")
	a.line("VMULPS (SI), Z3, Z5")
	a.line("VCVTPS2DQ Z5, Z5")
	a.line("VPADDD Z5, Z0, Z0")
	a.line("VPMOVDB Z5, (DI)(R13*2)")
	for _, to := range []string{"(DI)(R13*1)", "(DI)"} { // what is left of the signed last byte
		a.line("VPADDD Z27, Z5, Z5")
		a.line("VPSRAD $8, Z5, Z5")
		a.line("VPMOVDB Z5, %s", to)
	}
	a.line("ADDQ $64, SI")
	a.line("ADDQ $16, DI")
	a.line("DECQ CX")
	a.line("JNZ vector")
	a.line("ADDQ R8, DI")
	a.line("DECQ AX")
	a.line("JNZ step")
	a.across("VPADDD", 0)
	a.line("VCVTDQ2PS X0, X0")
	a.line("VMULSS X4, X0, X0")
	a.line("VMOVSS X4, (DX)")
	a.line("VMOVSS X0, 128(DX)")
	a.line("ADDQ $256, DX")
}

const expandDoc = "makes tiles of codes from a panel of words, for each step of so many rows of words two tiles of 16 columns."

// expand4 takes four codes of each word at a time, by a shift for each.
func (a *amx) expand4() {
	a.begin("tileExpand4VBMI", expandDoc+" Shifts are those of the lower codes of two words, and of the upper ones.", "(dst *byte, codes *float32, steps int, words int, shifts *byte)", 5)
	a.expandBegin(2)
	a.line("MOVQ shifts+32(FP), AX")
	a.line("VMOVDQU64 (AX), Z30")
	a.line("VMOVDQU64 64(AX), Z29")
	a.line("MOVL $0x0f0f0f0f, AX")
	a.line("VPBROADCASTD AX, Z31")
	a.expandWords(128, func(half int, to string) {
		for i := range 2 {
			a.line("VPMULTISHIFTQB %d(SI), Z%d, Z%d", 64*half, 30-i, i)
			a.line("VPANDD Z31, Z%d, Z%d", i, i)
			a.line("VMOVDQU64 Z%d, %d%s", i, 64*i, to)
		}
	})
}

// expand8 copies words.
func (a *amx) expand8() {
	a.begin("tileExpand8", expandDoc, "(dst *byte, codes *float32, steps int, words int)", 4)
	a.expandBegin(1)
	a.expandWords(64, func(half int, to string) {
		a.line("VMOVDQU64 %d(SI), Z0", 64*half)
		a.line("VMOVDQU64 Z0, %s", to)
	})
}

// expandBegin loads the parameters; a word takes so many rows of a tile.
func (a *amx) expandBegin(rows int) {
	for i, r := range []string{"DI", "SI", "CX", "DX"} {
		a.line("MOVQ %s+%d(FP), %s", []string{"dst", "codes", "steps", "words"}[i], 8*i, r)
	}
	a.line("MOVQ DX, R8") // the size of a tile
	a.line("SHLQ $%d, R8", 5+rows)
}

// expandWords writes the loops over steps and words, which take so many bytes of a
// tile each.
func (a *amx) expandWords(bytes int, word func(half int, to string)) {
	a.label("step")
	a.line("MOVQ DX, BX")
	a.label("word")
	word(0, "(DI)")
	word(1, "(DI)(R8*1)")
	a.line("ADDQ $128, SI")
	a.line("ADDQ $%d, DI", bytes)
	a.line("DECQ BX")
	a.line("JNZ word")
	a.line("ADDQ R8, DI")
	a.line("DECQ CX")
	a.line("JNZ step")
	a.line("VZEROUPPER")
	a.line("RET")
}
