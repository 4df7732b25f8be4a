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

// dot adds to sum the products of pairs of bfloat16 numbers in the rows of x with
// those in the columns of w.
func (a *amx) dot(sum, x, w byte) {
	a.bytes(fmt.Sprintf("tdpbf16ps tmm%d, tmm%d, tmm%d", sum, x, w), 0xc4, 0xe2, (^w&15)<<3|0x02, 0x5c, 0xc0|sum<<3|x)
}

func (a *amx) configure(base string) {
	a.bytes("ldtilecfg ("+base+")", 0xc4, 0xc2|(^gp[base]>>3&1)<<5, 0x78, 0x49, gp[base]&7)
}

func (a *amx) release() { a.bytes("tilerelease", 0xc4, 0xe2, 0x78, 0x49, 0xc0) }

func amxFamily(a *amx) {
	a.product()
	a.expand4()
	a.expand8()
}

// product writes the product of 32 rows of x, in three parts, with panels of 32
// rows of w. A group of x meets all panels before the next one, so that it is read
// from the nearest cache for all but the first.
func (a *amx) product() {
	a.begin("amxProduct", "adds to 32 rows of c, ldc bytes apart, and to 32 columns for each panel the products of x with scale·code + bias. x has three parts, part bytes apart, of rows ldx bytes apart; b has tiles of codes, panels stride bytes apart; scales and biases have 32 numbers for each group, panels factors bytes apart; sums are those of the groups of x, in rows ldsums bytes apart; a group has 32 times steps elements; space is 4 KiB.",
		"(c *float32, ldc int, x *uint16, ldx int, part int, b *uint16, scales *float32, biases *float32, sums *float32, ldsums int, groups int, steps int, space *float32, config *byte, panels int, stride int, factors int)", 17)
	for _, p := range []struct {
		name string
		at   int
		reg  string
	}{{"x", 16, "SI"}, {"ldx", 24, "R8"}, {"groups", 80, "R9"}, {"config", 104, "AX"}} {
		a.line("MOVQ %s+%d(FP), %s", p.name, p.at, p.reg)
	}
	a.configure("AX")
	a.line("MOVQ $64, R15")
	a.label("group")
	a.line("MOVQ b+40(FP), R12") // of the panel
	a.line("MOVQ panels+112(FP), R11")
	a.label("panel")
	a.line("MOVQ R12, DI")
	a.line("MOVQ SI, R13")
	a.steps()
	a.combine()
	a.line("ADDQ stride+120(FP), R12")
	a.line("ADDQ $128, c+0(FP)")
	a.line("MOVQ factors+128(FP), AX")
	a.line("ADDQ AX, scales+48(FP)")
	a.line("ADDQ AX, biases+56(FP)")
	a.line("DECQ R11")
	a.line("JNZ panel")
	a.nextGroup()
	a.line("DECQ R9")
	a.line("JNZ group")
	a.release()
	a.line("VZEROUPPER")
	a.line("RET")
}

// steps sets tiles 0 to 3 to the sums of a group: of x from R13 on and of w from DI
// on, both of which it moves behind the group.
func (a *amx) steps() {
	for tile := range byte(4) {
		a.zero(tile)
	}
	a.line("MOVQ steps+88(FP), R10")
	a.label("step")
	a.load(6, "DI", "R15")
	a.line("LEAQ 1024(DI), BX")
	a.load(7, "BX", "R15")
	a.line("MOVQ R13, AX")
	a.line("MOVQ R8, CX")
	a.line("SHLQ $4, CX")
	for part := range 3 {
		if part > 0 {
			a.line("ADDQ part+32(FP), AX")
		}
		a.line("LEAQ (AX)(CX*1), DX")
		a.load(4, "AX", "R8")
		a.load(5, "DX", "R8")
		a.dot(0, 4, 6)
		a.dot(1, 4, 7)
		a.dot(2, 5, 6)
		a.dot(3, 5, 7)
	}
	a.line("ADDQ $64, R13")
	a.line("ADDQ $2048, DI")
	a.line("DECQ R10")
	a.line("JNZ step")
}

// nextGroup goes back to the first panel, and on to the next group.
func (a *amx) nextGroup() {
	a.line("MOVQ R13, SI")
	a.line("MOVQ panels+112(FP), AX")
	a.line("MOVQ AX, BX")
	a.line("SHLQ $7, BX")
	a.line("SUBQ BX, c+0(FP)")
	a.line("IMULQ factors+128(FP), AX")
	a.line("SUBQ $128, AX")
	a.line("SUBQ AX, scales+48(FP)")
	a.line("SUBQ AX, biases+56(FP)")
	a.line("MOVQ steps+88(FP), AX")
	a.line("SHLQ $11, AX")
	a.line("ADDQ AX, b+40(FP)")
	a.line("ADDQ $4, sums+64(FP)")
}

// combine adds a group's sums, in tiles 0 to 3, to c.
func (a *amx) combine() {
	a.line("MOVQ space+96(FP), AX")
	a.line("MOVQ $128, DX")
	for tile, at := range []int{0, 64, 2048, 2112} {
		a.line("LEAQ %d(AX), BX", at)
		a.store(byte(tile), "BX", "DX")
	}
	a.line("MOVQ scales+48(FP), BX")
	a.line("MOVQ biases+56(FP), CX")
	a.line("VMOVUPS (BX), Z0")
	a.line("VMOVUPS 64(BX), Z1")
	a.line("VMOVUPS (CX), Z2")
	a.line("VMOVUPS 64(CX), Z3")
	a.line("MOVQ c+0(FP), BX")
	a.line("MOVQ sums+64(FP), CX")
	a.line("MOVQ $32, R10")
	a.label("row")
	a.line("VBROADCASTSS (CX), Z4")
	a.line("VMOVUPS (BX), Z5")
	a.line("VMOVUPS 64(BX), Z6")
	a.line("VFMADD231PS (AX), Z0, Z5")
	a.line("VFMADD231PS 64(AX), Z1, Z6")
	a.line("VFMADD231PS Z4, Z2, Z5")
	a.line("VFMADD231PS Z4, Z3, Z6")
	a.line("VMOVUPS Z5, (BX)")
	a.line("VMOVUPS Z6, 64(BX)")
	a.line("ADDQ $128, AX")
	a.line("ADDQ ldc+8(FP), BX")
	a.line("ADDQ ldsums+72(FP), CX")
	a.line("DECQ R10")
	a.line("JNZ row")
}

const expandDoc = "makes tiles of codes as bfloat16 numbers from a panel of words, 32 elements at a time."

// expand4 looks the numbers up: a word of an index has some more bits than a code,
// so the table of 32 has every number twice.
func (a *amx) expand4() {
	a.begin("amxExpand4", expandDoc, "(dst *uint16, codes *float32, steps int, table *uint16)", 4)
	a.expandBegin()
	a.line("VMOVDQU16 (BX), Z31")
	a.label("step")
	for word := range 4 {
		for half := range 2 {
			a.line("VMOVDQU32 %d(SI), Z0", word*128+half*64)
			for pair := range 4 {
				even, odd := 8*pair, 16-8*pair-4
				if even == 0 {
					a.line("VMOVDQA32 Z0, Z1")
				} else {
					a.line("VPSRLD $%d, Z0, Z1", even)
				}
				if odd > 0 {
					a.line("VPSLLD $%d, Z0, Z2", odd)
				} else {
					a.line("VPSRLD $%d, Z0, Z2", -odd)
				}
				a.line("VPBLENDMW Z2, Z1, K1, Z1")
				a.line("VPERMW Z31, Z1, Z1")
				a.line("VMOVDQU16 Z1, %d(DI)", half*1024+(word*4+pair)*64)
			}
		}
	}
	a.expandEnd(4 * 128)
}

// expand8 converts the numbers.
func (a *amx) expand8() {
	a.begin("amxExpand8", expandDoc, "(dst *uint16, codes *float32, steps int, table *uint16)", 4)
	a.expandBegin()
	a.line("MOVL $255, AX")
	a.line("VPBROADCASTD AX, Z31")
	a.label("step")
	for word := range 8 {
		for half := range 2 {
			a.line("VMOVDQU32 %d(SI), Z0", word*128+half*64)
			for pair := range 2 {
				a.line("VPSRLD $%d, Z0, Z1", 16*pair)
				a.line("VPSRLD $%d, Z0, Z2", 16*pair+8)
				for _, r := range []int{1, 2} {
					a.line("VPANDD Z31, Z%d, Z%d", r, r)
					a.line("VCVTDQ2PS Z%d, Z%d", r, r)
				}
				a.line("VPSRLD $16, Z1, Z1")
				a.line("VPBLENDMW Z2, Z1, K1, Z1")
				a.line("VMOVDQU16 Z1, %d(DI)", half*1024+(word*2+pair)*64)
			}
		}
	}
	a.expandEnd(8 * 128)
}

func (a *amx) expandBegin() {
	for i, r := range []string{"DI", "SI", "CX", "BX"} {
		a.line("MOVQ %s+%d(FP), %s", []string{"dst", "codes", "steps", "table"}[i], 8*i, r)
	}
	a.line("MOVL $0xaaaaaaaa, AX")
	a.line("KMOVD AX, K1")
}

func (a *amx) expandEnd(bytes int) {
	a.line("ADDQ $%d, SI", bytes)
	a.line("ADDQ $2048, DI")
	a.line("DECQ CX")
	a.line("JNZ step")
	a.line("VZEROUPPER")
	a.line("RET")
}
