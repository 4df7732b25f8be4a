package main

import "fmt"

// vnniFamily writes for AVX-512 VNNI what AMX does with the same tiles of x, with panels of words.
func vnniFamily(a *amx) {
	for _, size := range []int{32, 64, 128} {
		a.productVNNI(size, byteCodes)
		a.productVNNI(size, packedCodes)
	}
	a.productVNNI(16, tabledCodes)
	a.productVNNI(32, tabledCodes)
}

// codeForm is how productVNNI gets codes.
type codeForm int

const (
	byteCodes   codeForm = iota // as words of four
	packedCodes                 // as words of eight
	tabledCodes                 // as such words, of numbers of a table
)

// Registers of productVNNI: Z0 to Z23 are sums of 4 rows, 3 limbs and 2 times 16 columns.
const (
	vnniCodes  = 24 // two registers
	vnniLimbs  = 26 // three registers that take turns
	vnniTable  = 29
	vnniMask   = 30 // the lower code of each byte
	vnniWeight = 31 // 65536
)

func vnniSum(row, limb, half int) int { return (row*3+limb)*2 + half }

// productVNNI writes the product of up to 32 rows of x with panels of 32 rows of w, for
// groups of size elements. R8 is the group of x, R12 the panel's words, DI where in c
// the next row begins, and R14 what is prefetched.
func (a *amx) productVNNI(size int, form codeForm) {
	step := min(size, 64)
	steps, tile := size/step, 16*step
	name, codes, bytes := "tileProductBytes", "4 codes of 8 bits", size*32
	if form != byteCodes {
		name, codes, bytes = "tileProductPacked", "8 codes of 4 bits", size*16
	}
	if form == tabledCodes {
		name, codes = "tileProductTable", codes+" that stand for numbers of table"
	}
	a.begin(fmt.Sprintf("%s%d", name, size), fmt.Sprintf("adds to 4·quarters rows of c, of 32 columns for each panel, the products of x with scale·code + bias, for groups of %d. x has a tile of 16 rows for each step of a group, limb and half of 32 rows; b has rows of 32 words of %s, one for each column, panels stride bytes apart. scales and biases have 32 numbers for each group, panels apart bytes apart; factors have the powers of two of 32 rows for each group, and their sums. Meanwhile it prefetches what is at next, advance bytes for every 16 elements of four rows and a panel, at most 256.", size, codes),
		"(c *float32, x *byte, b *byte, scales *float32, biases *float32, factors *float32, groups int, panels int, stride int, apart int, quarters int, next *byte, advance int, table *Table)", 14)
	for i, r := range []string{"R8", "R9", "R10"} {
		a.line("MOVQ %s, %s", []string{"x+8(FP)", "groups+48(FP)", "panels+56(FP)"}[i], r)
	}
	a.line("MOVQ next+88(FP), R14")
	a.line("MOVQ advance+96(FP), R15")
	a.line("SHLQ $7, R10")         // from row to row of c
	a.line("MOVL $0x47800000, AX") // 65536
	a.line("VPBROADCASTD AX, Z%d", vnniWeight)
	if form != byteCodes {
		a.line("MOVL $0x0f0f0f0f, AX")
		a.line("VPBROADCASTD AX, Z%d", vnniMask)
	}
	if form == tabledCodes {
		a.line("MOVQ table+104(FP), AX")
		a.line("VBROADCASTI32X4 (AX), Z%d", vnniTable)
	}
	a.label("group")
	a.line("MOVQ panels+56(FP), R11")
	a.line("MOVQ b+16(FP), R12")
	a.label("panel")
	a.line("MOVQ R8, SI")
	a.line("MOVQ factors+40(FP), R13")
	a.line("MOVQ c+0(FP), DI")
	a.line("MOVQ quarters+80(FP), CX")
	a.label("quarter")
	a.sumsVNNI(step, steps, form)
	a.combineVNNI()
	a.line("ADDQ $16, R13")
	a.line("ADDQ $%d, SI", 4*step)
	a.line("DECQ CX")
	a.line("JNZ quarter")
	a.nextVNNI(bytes, 6*steps*tile)
	a.line("VZEROUPPER")
	a.line("RET")
}

// sumsVNNI sets the sums of a group: of four rows of x, from SI on, and the panel.
func (a *amx) sumsVNNI(step, steps int, form codeForm) {
	const unrolled = 4          // times four elements
	tile, bytes := 16*step, 128 // of x, and of four elements of the panel
	if form != byteCodes {
		bytes = 64
	}
	for r := range vnniCodes {
		a.line("VPXORD Z%d, Z%d, Z%d", r, r, r)
	}
	a.line("MOVQ SI, BX")
	a.line("MOVQ R12, DX")
	for s := range steps {
		a.line("MOVQ $%d, AX", step/4/unrolled)
		loop := fmt.Sprintf("words%d", s)
		a.label(loop)
		for line := range 4 {
			a.line("PREFETCHT1 %d(R14)", 64*line)
		}
		a.line("ADDQ R15, R14")
		turn := 0
		for four := range unrolled {
			for half := range 2 {
				codes := vnniCodes + half
				if form == byteCodes {
					a.line("VMOVDQU64 %d(DX), Z%d", 64*(2*four+half), codes)
				} else {
					a.codesOfWords(64*(four/2*2+half), four%2, codes)
				}
				if form == tabledCodes {
					a.line("VPSHUFB Z%d, Z%d, Z%d", codes, vnniTable, codes)
				}
			}
			for row := range 4 {
				for limb := range 3 {
					x := vnniLimbs + turn%3
					turn++
					a.line("VPBROADCASTD %d(BX), Z%d", 2*limb*tile+row*step+4*four, x)
					for half := range 2 {
						a.line("VPDPBUSD Z%d, Z%d, Z%d", x, vnniCodes+half, vnniSum(row, limb, half))
					}
				}
			}
		}
		a.line("ADDQ $%d, DX", bytes*unrolled)
		a.line("ADDQ $%d, BX", 4*unrolled)
		a.line("DECQ AX")
		a.line("JNZ %s", loop)
		if s < steps-1 {
			a.line("ADDQ $%d, BX", 6*tile-step)
		}
	}
}

// codesOfWords sets a register to the even codes of 16 words, or the odd ones.
func (a *amx) codesOfWords(at, odd, to int) {
	if odd == 0 {
		a.line("VPANDD %d(DX), Z%d, Z%d", at, vnniMask, to)
		return
	}
	a.line("VPSRLD $4, %d(DX), Z%d", at, to)
	a.line("VPANDD Z%d, Z%d, Z%d", vnniMask, to, to)
}

// combineVNNI adds the sums to four rows of c, in the order of combine.
func (a *amx) combineVNNI() {
	const scales, biases = vnniCodes, vnniLimbs // two registers each
	a.line("MOVQ scales+24(FP), BX")
	a.line("MOVQ biases+32(FP), DX")
	for half := range 2 {
		a.line("VMOVUPS %d(BX), Z%d", 64*half, scales+half)
		a.line("VMOVUPS %d(DX), Z%d", 64*half, biases+half)
	}
	for row := range 4 {
		for half := range 2 {
			high, sum, low := vnniSum(row, 0, half), vnniSum(row, 1, half), vnniSum(row, 2, half)
			a.line("VPSLLD $8, Z%d, Z%d", sum, sum)
			a.line("VPADDD Z%d, Z%d, Z%d", sum, low, low)
			a.line("VCVTDQ2PS Z%d, Z%d", high, high)
			a.line("VCVTDQ2PS Z%d, Z%d", low, low)
			a.line("VMOVUPS %d(DI), Z%d", 64*half, sum)
			a.line("VFMADD231PS Z%d, Z%d, Z%d", vnniWeight, high, low)
			a.line("VMULPS.BCST %d(R13), Z%d, Z%d", 4*row, scales+half, high)
			a.line("VFMADD231PS.BCST %d(R13), Z%d, Z%d", 128+4*row, biases+half, sum)
			a.line("VFMADD231PS Z%d, Z%d, Z%d", low, high, sum)
			a.line("VMOVUPS Z%d, %d(DI)", sum, 64*half)
		}
		a.line("ADDQ R10, DI")
	}
}

// nextVNNI ends the loops over panels and groups, given the bytes of a group of a panel and of x.
func (a *amx) nextVNNI(bytes, ofX int) {
	a.line("ADDQ stride+64(FP), R12")
	a.line("MOVQ apart+72(FP), DX")
	a.line("ADDQ DX, scales+24(FP)")
	a.line("ADDQ DX, biases+32(FP)")
	a.line("ADDQ $128, c+0(FP)")
	a.line("DECQ R11")
	a.line("JNZ panel")
	a.line("SUBQ R10, c+0(FP)")
	a.line("IMULQ panels+56(FP), DX")
	a.line("SUBQ $128, DX")
	a.line("SUBQ DX, scales+24(FP)")
	a.line("SUBQ DX, biases+32(FP)")
	a.line("ADDQ $256, factors+40(FP)")
	a.line("ADDQ $%d, b+16(FP)", bytes)
	a.line("ADDQ $%d, R8", ofX)
	a.line("DECQ R9")
	a.line("JNZ group")
}
