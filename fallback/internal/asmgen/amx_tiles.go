package main

// split writes what makes limbs of a row of x: simd.Tiles says how they lie.
func (a *amx) split() {
	a.begin("tileSplit", "makes the limbs of a row of x. A group has steps of 16·vectors elements each; the three limbs of a step are limb bytes apart, and steps 3·limb. It sets each group's power of two and, 128 bytes after it, its sum; in factors, groups are 256 bytes apart. It sets largest to the bits of the largest magnitude. order has the places of the elements of a vector.",
		"(dst *byte, x *float32, factors *float32, groups int, steps int, vectors int, limb int, largest *uint32, order *[16]uint32)", 9)
	for i, r := range []string{"DI", "SI", "DX", "R9", "R10", "R11", "R13"} {
		a.line("MOVQ %s+%d(FP), %s", []string{"dst", "x", "factors", "groups", "steps", "vectors", "limb"}[i], 8*i, r)
	}
	for i, constant := range []int{0x7fffffff, 22, 275, 21, 128} {
		a.line("MOVL $%d, AX", constant)
		a.line("VPBROADCASTD AX, Z%d", 31-i)
	}
	a.line("MOVQ order+64(FP), AX")
	a.line("VMOVDQU64 (AX), Z26")
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
	a.line("VPERMD Z5, Z26, Z5")
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

const expandDoc = "makes tiles of codes from a panel of words: two tiles of 16 columns for each step, which has the given number of rows of words."

// expand4 takes the even codes of each word, and then the odd ones.
func (a *amx) expand4(table bool) {
	name, doc, signature, params := "tileExpand4", expandDoc, "(dst *byte, codes *float32, steps int, words int)", 4
	if table {
		name, doc, signature, params = name+"Table", doc+" table has the bytes that codes become.", "(dst *byte, codes *float32, steps int, words int, table *Table)", 5
	}
	a.begin(name, doc, signature, params)
	a.expandBegin(2)
	a.line("MOVL $0x0f0f0f0f, AX")
	a.line("VPBROADCASTD AX, Z31")
	if table {
		a.line("MOVQ table+32(FP), AX")
		a.line("VBROADCASTI32X4 (AX), Z28")
	}
	a.expandWords(128, func(half int, to string) {
		a.line("VMOVDQU64 %d(SI), Z0", 64*half)
		a.line("VPSRLD $4, Z0, Z1")
		for i := range 2 {
			a.line("VPANDD Z31, Z%d, Z%d", i, i)
			if table {
				a.line("VPSHUFB Z%d, Z28, Z%d", i, i)
			}
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

// expandBegin loads the parameters; rows is the binary logarithm of a word's rows of a tile.
func (a *amx) expandBegin(rows int) {
	for i, r := range []string{"DI", "SI", "CX", "DX"} {
		a.line("MOVQ %s+%d(FP), %s", []string{"dst", "codes", "steps", "words"}[i], 8*i, r)
	}
	a.line("MOVQ DX, R8") // the size of a tile
	a.line("SHLQ $%d, R8", 5+rows)
}

// expandWords writes the loops over steps and words, each of which
// takes the given number of bytes of a tile.
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
