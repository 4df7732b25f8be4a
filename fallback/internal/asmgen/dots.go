package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// dots writes the product of a few rows of A with a few rows of B, along k.
func dots(v isa, rows, cols int) {
	text("sets C, or if add is not 0 increases it, by rows of A times rows of B; strides are in floats.",
		"dots%dx%d%s", rows, cols, v.name)("(c *float32, ldc int, a *float32, lda int, b *float32, ldb int, k int, add int)")
	dotsBody(v, rows, cols, dotsOperand{bytes: 4, tail: true, load: func(m Mem, r reg.VecVirtual) { VMOVUPS(m, r) }})
}

// narrowDots is dots for rows of B of 16-bit numbers, which become floats in
// registers; k is a multiple of the lanes. The sums are those of dots.
func narrowDots(v isa, rows, cols int) {
	for _, of := range []struct {
		name string
		load func(Mem, reg.VecVirtual)
	}{
		{"F16", func(m Mem, r reg.VecVirtual) { VCVTPH2PS(m, r) }},
		{"BF16", func(m Mem, r reg.VecVirtual) {
			VPMOVZXWD(m, r)
			VPSLLD(U8(16), r, r)
		}},
	} {
		text("sets C, or if add is not 0 increases it, by rows of A times rows of B; strides are in elements, k is a multiple of the lanes.",
			"dots%dx%d%s%s", rows, cols, of.name, v.name)("(c *float32, ldc int, a *float32, lda int, b *uint16, ldb int, k int, add int)")
		dotsBody(v, rows, cols, dotsOperand{bytes: 2, load: of.load})
	}
}

// dotsOperand is B.
type dotsOperand struct {
	bytes int // of an element
	tail  bool
	load  func(Mem, reg.VecVirtual)
}

func dotsBody(v isa, rows, cols int, of dotsOperand) {
	a, b, k := arg("a"), arg("b"), arg("k")
	aRow := rowPointers(a, scaled("lda"), rows)
	ldb := arg("ldb")
	SHLQ(U8(of.bytes/2), ldb)
	bRow := rowPointers(b, ldb, cols)
	acc := v.vecs(rows * cols)
	for _, r := range acc {
		v.zero(r)
	}
	as, bv := v.vecs(rows), v.vec()
	step := func(loadA, loadB func(Mem, reg.VecVirtual)) {
		for i, r := range as {
			loadA(aRow(i, 0), r)
		}
		for j := range cols {
			loadB(bRow(j, 0), bv)
			for i, r := range as {
				VFMADD231PS(bv, r, acc[i*cols+j])
			}
		}
	}
	count := GP64()
	MOVQ(k, count)
	SHRQ(U8(v.shift()), count)
	JZ(LabelRef("tail"))
	Label("loop")
	step(func(m Mem, r reg.VecVirtual) { VMOVUPS(m, r) }, of.load)
	ADDQ(U8(v.bytes()), a)
	ADDQ(U8(v.lanes*of.bytes), b)
	DECQ(count)
	JNZ(LabelRef("loop"))
	Label("tail")
	if of.tail {
		ANDQ(U8(v.lanes-1), k)
		JZ(LabelRef("reduce"))
		mask := v.tailMask(k)
		step(mask.load, mask.load)
	}
	Label("reduce")
	storeSums(v, acc, rows, cols)
	VZEROUPPER()
	RET()
}

// shift is log2 of the lanes.
func (v isa) shift() uint8 {
	if v.wide() {
		return 4
	}
	return 3
}

// storeSums writes the lanes' sums of acc to C.
func storeSums(v isa, acc []reg.VecVirtual, rows, cols int) {
	c, ldc, add := arg("c"), scaled("ldc"), arg("add")
	sums := make([]reg.VecVirtual, rows)
	for i := range sums {
		row := acc[i*cols : (i+1)*cols]
		switch cols {
		case 4:
			sums[i] = v.sum4(row)
		case 2:
			sums[i] = v.sum2(row[0], row[1])
		default:
			sums[i] = v.sum(row[0])
		}
	}
	at := rowPointers(c, ldc, rows)
	TESTQ(add, add)
	JZ(LabelRef("store"))
	old := XMM()
	for i, s := range sums {
		switch cols {
		case 4:
			VADDPS(at(i, 0), s, s)
		case 2:
			VMOVSD(at(i, 0), old)
			VADDPS(old, s, s)
		default:
			VADDSS(at(i, 0), s, s)
		}
	}
	Label("store")
	for i, s := range sums {
		switch cols {
		case 4:
			VMOVUPS(s, at(i, 0))
		case 2:
			VMOVSD(s, at(i, 0))
		default:
			VMOVSS(s, at(i, 0))
		}
	}
}
