package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// gemmFamily writes the products of rows of A with a panel of B, and the
// functions that make panels. A panel is 2 vectors wide.
func gemmFamily() {
	for _, form := range []struct {
		isa  isa
		rows []int
	}{{avx512, []int{12, 8, 4, 2, 1}}, {avx2, []int{6, 4, 2, 1}}} {
		for _, rows := range form.rows {
			panelProduct(form.isa, rows)
		}
	}
	transposePanel512()
	factorPanel()
	transposePanel2()
	expandPanels()
}

// byThrees makes operands for rows that lie stride bytes apart, with a pointer for
// every third row. pointers are those that a loop must advance.
func byThrees(base, stride reg.GPVirtual, rows int) (at rowAt, pointers []reg.GPVirtual) {
	pointers = []reg.GPVirtual{base}
	for row := 3; row < rows; row += 3 {
		p := GP64()
		LEAQ(Mem{Base: pointers[len(pointers)-1], Index: stride, Scale: 2}, p)
		ADDQ(stride, p)
		pointers = append(pointers, p)
	}
	return func(row, disp int) Mem {
		m := Mem{Base: pointers[row/3], Disp: disp}
		if row%3 > 0 {
			m.Index, m.Scale = stride, uint8(row%3)
		}
		return m
	}, pointers
}

// panelProduct writes the product of some rows of A with a panel of B.
func panelProduct(v isa, rows int) {
	text("sets rows of C, or if add is not 0 increases them, by rows of A times a panel of B of k rows; strides are in floats.",
		"panelProduct%d%s", rows, v.name)("(c *float32, ldc int, a *float32, lda int, b *float32, k int, add int)")
	const width, unroll = 2, 4
	acc := v.vecs(rows * width)
	c, _ := byThrees(arg("c"), scaled("ldc"), rows)
	for _, r := range acc {
		v.zero(r)
	}
	add := arg("add")
	TESTQ(add, add)
	JZ(LabelRef("start"))
	for i, r := range acc {
		VMOVUPS(c(i/width, i%width*v.bytes()), r)
	}
	Label("start")
	a, pointers := byThrees(arg("a"), scaled("lda"), rows)
	b, k := arg("b"), arg("k")
	step := func(i int) { panelStep(v, acc, rows, i, a, b) }
	move := func(steps int) {
		for _, p := range pointers {
			ADDQ(U8(4*steps), p)
		}
		ADDQ(U32(steps*width*v.bytes()), b)
	}
	SUBQ(U8(unroll), k)
	JL(LabelRef("tail"))
	Label("loop")
	for i := range unroll {
		step(i)
	}
	move(unroll)
	SUBQ(U8(unroll), k)
	JGE(LabelRef("loop"))
	Label("tail")
	ADDQ(U8(unroll), k)
	JZ(LabelRef("store"))
	Label("one")
	step(0)
	move(1)
	DECQ(k)
	JNZ(LabelRef("one"))
	Label("store")
	c, _ = byThrees(arg("c"), scaled("ldc"), rows)
	for i, r := range acc {
		VMOVUPS(r, c(i/width, i%width*v.bytes()))
	}
	VZEROUPPER()
	RET()
}

// panelStep adds the products of step i of rows of A with a row of the panel.
func panelStep(v isa, acc []reg.VecVirtual, rows, i int, a rowAt, b reg.GPVirtual) {
	width := len(acc) / rows
	bs := v.vecs(width)
	for j, r := range bs {
		VMOVUPS(Mem{Base: b, Disp: (i*width + j) * v.bytes()}, r)
	}
	for row := range rows {
		f := v.vec()
		VBROADCASTSS(a(row, 4*i), f)
		for j, r := range bs {
			VFMADD231PS(r, f, acc[row*width+j])
		}
	}
}

// transposePanel512 writes columns of a panel from rows, 16 at a time.
func transposePanel512() {
	text("sets k rows of 32 numbers, of which it writes 16, to the columns of 16 rows of src, ld floats apart.",
		"transposePanelAVX512")("(dst *float32, src *float32, ld int, k int)")
	dst := arg("dst")
	src, pointers := byThrees(arg("src"), scaled("ld"), 16)
	k := arg("k")
	CMPQ(k, U8(4))
	JL(LabelRef("rest"))
	Label("loop")
	for column, out := range fourColumns(func(row int, to reg.VecVirtual) { VMOVUPS(src(row, 0), to) }, func(row, block int, to reg.VecVirtual) {
		VINSERTF32X4(U8(uint8(block)), src(row, 0), to, to)
	}) {
		VMOVUPS(out, Mem{Base: dst, Disp: column * 128})
	}
	for _, p := range pointers {
		ADDQ(U8(16), p)
	}
	ADDQ(U32(4*128), dst)
	SUBQ(U8(4), k)
	CMPQ(k, U8(4))
	JGE(LabelRef("loop"))
	Label("rest")
	TESTQ(k, k)
	JZ(LabelRef("done"))
	ones, mask := GP64(), K()
	MOVQ(I64(-1), ones)
	BZHIQ(k, ones, ones)
	KMOVW(ones.As32(), mask)
	rest := fourColumns(func(row int, to reg.VecVirtual) { VMOVUPS_Z(src(row, 0), mask, to) }, func(row, block int, to reg.VecVirtual) {
		x := XMM()
		VMOVUPS_Z(src(row, 0), mask, x)
		VINSERTF32X4(U8(uint8(block)), x, to, to)
	})
	for column, out := range rest[:3] {
		VMOVUPS(out, Mem{Base: dst, Disp: column * 128})
		DECQ(k)
		JZ(LabelRef("done"))
	}
	Label("done")
	VZEROUPPER()
	RET()
}

// fourColumns returns four columns of 16 rows. load loads four numbers of a row, insert
// those of a further one as a block of a register.
func fourColumns(load func(row int, to reg.VecVirtual), insert func(row, block int, to reg.VecVirtual)) []reg.VecVirtual {
	r := make([]reg.VecVirtual, 4)
	for i := range r {
		z := ZMM()
		load(i, z.AsX().(reg.VecVirtual))
		for block := 1; block < 4; block++ {
			insert(4*block+i, block, z)
		}
		r[i] = z
	}
	transpose4(r, func() reg.VecVirtual { return ZMM() })
	return r
}

// transpose4 transposes the 4 by 4 numbers in each 128 bits of four registers.
func transpose4(r []reg.VecVirtual, vec func() reg.VecVirtual) {
	low, low2, high, high2 := vec(), vec(), vec(), vec()
	VUNPCKLPS(r[1], r[0], low)
	VUNPCKLPS(r[3], r[2], low2)
	VUNPCKHPS(r[1], r[0], high)
	VUNPCKHPS(r[3], r[2], high2)
	VUNPCKLPD(low2, low, r[0])
	VUNPCKHPD(low2, low, r[1])
	VUNPCKLPD(high2, high, r[2])
	VUNPCKHPD(high2, high, r[3])
}

// transposePanel2 writes columns of a panel from rows, 8 at a time.
func transposePanel2() {
	text("sets k rows of 16 numbers, a multiple of 8, of which it writes 8, to the columns of 8 rows of src, ld floats apart.",
		"transposePanelAVX2")("(dst *float32, src *float32, ld int, k int)")
	dst := arg("dst")
	src, pointers := byThrees(arg("src"), scaled("ld"), 8)
	k := arg("k")
	Label("loop")
	r := make([]reg.VecVirtual, 8)
	for i := range r {
		r[i] = YMM()
		VMOVUPS(src(i, 0), r[i])
	}
	for i := 0; i < 8; i += 4 {
		transpose4(r[i:i+4], func() reg.VecVirtual { return YMM() })
	}
	out := YMM()
	for column := range 4 {
		VPERM2F128(U8(0x20), r[4+column], r[column], out)
		VMOVUPS(out, Mem{Base: dst, Disp: column * 64})
		VPERM2F128(U8(0x31), r[4+column], r[column], out)
		VMOVUPS(out, Mem{Base: dst, Disp: (4 + column) * 64})
	}
	for _, p := range pointers {
		ADDQ(U8(32), p)
	}
	ADDQ(U32(8*64), dst)
	SUBQ(U8(8), k)
	JNZ(LabelRef("loop"))
	VZEROUPPER()
	RET()
}

// expandPanels writes the functions that make panels of numbers from panels of codes.
func expandPanels() {
	for _, v := range []isa{avx512, avx2} {
		for _, bits := range []int{2, 4, 8} {
			expandPanel(v, bits)
		}
	}
}

// expandPanel writes the numbers of a panel whose codes lie in a panel of words,
// scales and biases in panels with a row per group.
func expandPanel(v isa, bits int) {
	text("writes scale·code + bias for every code of a panel of words, each group of which has the given number of words in a row.",
		"expandPanel%d%s", bits, v.name)("(dst *float32, codes *float32, scales *float32, biases *float32, groups int, words int)")
	dst, codes, scales, biases, groups, words := arg("dst"), arg("codes"), arg("scales"), arg("biases"), arg("groups"), arg("words")
	mask := v.constant(1<<bits - 1)
	const width = 2
	scale, bias, word := v.vecs(width), v.vecs(width), v.vecs(width)
	Label("group")
	for i := range width {
		VMOVUPS(Mem{Base: scales, Disp: i * v.bytes()}, scale[i])
		VMOVUPS(Mem{Base: biases, Disp: i * v.bytes()}, bias[i])
	}
	left := GP64()
	MOVQ(words, left)
	Label("word")
	for i, w := range word {
		v.loadInts(Mem{Base: codes, Disp: i * v.bytes()}, w)
	}
	for j := range 32 / bits {
		for i, w := range word {
			q := v.vec()
			switch {
			case j == 0:
				v.and(mask, w, q)
			case j == 32/bits-1:
				VPSRLD(U8(j*bits), w, q)
			default:
				VPSRLD(U8(j*bits), w, q)
				v.and(mask, q, q)
			}
			VCVTDQ2PS(q, q)
			VFMADD213PS(bias[i], scale[i], q)
			VMOVUPS(q, Mem{Base: dst, Disp: (j*width + i) * v.bytes()})
		}
	}
	ADDQ(U32(32/bits*width*v.bytes()), dst)
	ADDQ(U32(width*v.bytes()), codes)
	DECQ(left)
	JNZ(LabelRef("word"))
	ADDQ(U32(width*v.bytes()), scales)
	ADDQ(U32(width*v.bytes()), biases)
	DECQ(groups)
	JNZ(LabelRef("group"))
	VZEROUPPER()
	RET()
}
