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
	a, b, k := arg("a"), arg("b"), arg("k")
	aRow := rowPointers(a, scaled("lda"), rows)
	bRow := rowPointers(b, scaled("ldb"), cols)
	acc := v.vecs(rows * cols)
	for _, r := range acc {
		v.zero(r)
	}
	as, bv := v.vecs(rows), v.vec()
	step := func(load func(Mem, reg.VecVirtual)) {
		for i, r := range as {
			load(aRow(i, 0), r)
		}
		for j := range cols {
			load(bRow(j, 0), bv)
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
	step(func(m Mem, r reg.VecVirtual) { VMOVUPS(m, r) })
	ADDQ(U8(v.bytes()), a)
	ADDQ(U8(v.bytes()), b)
	DECQ(count)
	JNZ(LabelRef("loop"))
	Label("tail")
	ANDQ(U8(v.lanes-1), k)
	JZ(LabelRef("reduce"))
	step(v.tailMask(k).load)
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
