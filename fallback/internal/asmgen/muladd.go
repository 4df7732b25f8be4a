package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// mulAdd writes the product of a few rows of A with a strip of columns of B. The
// strip is some vectors wide; the tail form is for less than one.
func mulAdd(v isa, rows, width int, tail bool) {
	name, extra := fmt.Sprint(width), ""
	if tail {
		name, extra = "tail", ", n int"
	}
	text("sets a strip of C, or if add is not 0 increases it, by rows of A times B; strides are in floats.",
		"mulAdd%dx%s%s", rows, name, v.name)("(c *float32, ldc int, a *float32, lda int, b *float32, ldb int, k int, add int" + extra + ")")
	b, ldb := arg("b"), scaled("ldb")
	load := func(m Mem, r reg.VecVirtual) { VMOVUPS(m, r) }
	store := func(r reg.VecVirtual, m Mem) { VMOVUPS(r, m) }
	if tail {
		m := v.tailMask(arg("n"))
		load, store = m.load, m.store
	}
	acc := v.vecs(rows * width)
	for _, r := range acc {
		v.zero(r)
	}
	c := arg("c")
	cRow := rowPointers(c, scaled("ldc"), rows)
	add := arg("add")
	TESTQ(add, add)
	JZ(LabelRef("start"))
	for i := range rows {
		for j := range width {
			load(cRow(i, j*v.bytes()), acc[i*width+j])
		}
	}
	Label("start")
	a, k := arg("a"), arg("k")
	aRow := rowPointers(a, scaled("lda"), rows)
	Label("loop")
	addOuter(v, acc, rows, aRow, b, load)
	ADDQ(U8(4), a)
	ADDQ(ldb, b)
	DECQ(k)
	JNZ(LabelRef("loop"))
	for i := range rows {
		for j := range width {
			store(acc[i*width+j], cRow(i, j*v.bytes()))
		}
	}
	VZEROUPPER()
	RET()
}

// addOuter adds the product of a column of A with a row of B.
func addOuter(v isa, acc []reg.VecVirtual, rows int, aRow rowAt, b reg.GPVirtual, load func(Mem, reg.VecVirtual)) {
	width := len(acc) / rows
	if rows <= 2 {
		fs, bs := v.vecs(rows), v.vecs(min(width, 2))
		for i, f := range fs {
			VBROADCASTSS(aRow(i, 0), f)
		}
		for j := range width {
			load(Mem{Base: b, Disp: j * v.bytes()}, bs[j%2%len(bs)])
			for i, f := range fs {
				VFMADD231PS(bs[j%2%len(bs)], f, acc[i*width+j])
			}
		}
		return
	}
	bs, f := v.vecs(width), v.vec()
	for j := range width {
		load(Mem{Base: b, Disp: j * v.bytes()}, bs[j])
	}
	for i := range rows {
		VBROADCASTSS(aRow(i, 0), f)
		for j := range width {
			VFMADD231PS(bs[j], f, acc[i*width+j])
		}
	}
}
