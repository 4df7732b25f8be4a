package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
)

// dotsOfHeads writes dots of rows of A of k numbers, which stay in registers, with many
// rows of B. Those are read one after another, so that the processor sees what comes next.
// The sums are those of dots, in the same order.
func dotsOfHeads(v isa, rows, k int) {
	const cols = 4 // at a time
	vectors := k / v.lanes
	text(fmt.Sprintf("sets C to rows of A times 4·fours rows of B, of %d numbers; strides are in floats.", k),
		"headDots%dx%d%s", rows, k, v.name)("(c *float32, ldc int, a *float32, lda int, b *float32, ldb int, fours int)")
	aRow, ldb, b := rowPointers(arg("a"), scaled("lda"), rows), scaled("ldb"), arg("b")
	acc, bv := v.vecs(rows*cols), v.vec() // the first registers: VHADDPS reaches only 16
	as := v.vecs(rows * vectors)
	for i, r := range as {
		VMOVUPS(aRow(i/vectors, i%vectors*v.bytes()), r)
	}
	c, fours := arg("c"), arg("fours")
	cRow := rowPointers(c, scaled("ldc"), rows)
	Label("loop")
	for _, r := range acc {
		v.zero(r)
	}
	for j := range cols {
		for at := range vectors {
			VMOVUPS(Mem{Base: b, Disp: at * v.bytes()}, bv)
			for i := range rows {
				VFMADD231PS(bv, as[i*vectors+at], acc[i*cols+j])
			}
		}
		ADDQ(ldb, b)
	}
	for i := range rows {
		VMOVUPS(v.sum4(acc[i*cols:(i+1)*cols]), cRow(i, 0))
	}
	ADDQ(U8(4*cols), c)
	DECQ(fours)
	JNZ(LabelRef("loop"))
	VZEROUPPER()
	RET()
}
