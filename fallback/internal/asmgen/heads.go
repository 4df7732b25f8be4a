package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// headForm is how the numbers of heads are stored: rows of B in the functions below.
type headForm struct {
	name, pointer string
	// size is how many bytes an element of the stride between heads has.
	size int
	// loader returns what makes floats of a vector of a head; k are the numbers of a head.
	loader func(v isa, k int) func(b reg.GPVirtual, vector int, r reg.VecVirtual)
}

var floatHeads = headForm{"", "float32", 4, func(v isa, _ int) func(reg.GPVirtual, int, reg.VecVirtual) {
	return func(b reg.GPVirtual, vector int, r reg.VecVirtual) {
		VMOVUPS(Mem{Base: b, Disp: vector * v.bytes()}, r)
	}
}}

// narrowHeads become floats in registers.
var narrowHeads = []headForm{
	{"BF16", "byte", 1, func(v isa, _ int) func(reg.GPVirtual, int, reg.VecVirtual) {
		return func(b reg.GPVirtual, vector int, r reg.VecVirtual) {
			VPMOVZXWD(Mem{Base: b, Disp: vector * v.bytes() / 2}, r)
			VPSLLD(U8(16), r, r)
		}
	}},
	{"F16", "byte", 1, func(v isa, _ int) func(reg.GPVirtual, int, reg.VecVirtual) {
		return func(b reg.GPVirtual, vector int, r reg.VecVirtual) {
			VCVTPH2PS(Mem{Base: b, Disp: vector * v.bytes() / 2}, r)
		}
	}},
	{"Codes", "byte", 1, func(v isa, k int) func(reg.GPVirtual, int, reg.VecVirtual) {
		const zero, group = 128, 32 // of ops.CacheZero and CacheGroup
		zeros := v.constant(zero)
		return func(b reg.GPVirtual, vector int, r reg.VecVirtual) {
			VPMOVZXBD(Mem{Base: b, Disp: vector * v.lanes}, r)
			VPSUBD(zeros, r, r)
			VCVTDQ2PS(r, r)
			VMULPS_BCST(Mem{Base: b, Disp: k + vector*v.lanes/group*4}, r, r)
		}
	}},
}

// stride loads the parameter as bytes.
func (f headForm) stride() reg.GPVirtual {
	if f.size == 4 {
		return scaled("ldb")
	}
	return arg("ldb")
}

// dotsOfHeads writes dots of rows of A of k numbers, which stay in registers, with many
// rows of B. Those are read one after another, so that the processor sees what comes next.
// The sums are those of dots, in the same order.
func dotsOfHeads(v isa, rows, k int, form headForm) {
	const cols = 4 // at a time
	vectors := k / v.lanes
	text(fmt.Sprintf("sets C to rows of A times 4·fours rows of B, of %d numbers; ldb is in elements of B, other strides are in floats.", k),
		"headDots%dx%d%s%s", rows, k, form.name, v.name)("(c *float32, ldc int, a *float32, lda int, b *" + form.pointer + ", ldb int, fours int)")
	aRow, ldb, b := rowPointers(arg("a"), scaled("lda"), rows), form.stride(), arg("b")
	acc, bv := v.vecs(rows*cols), v.vec() // the first registers: VHADDPS reaches only 16
	load := form.loader(v, k)
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
			load(b, at, bv)
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

// mulAddOfHeads writes what adds rows of A times n rows of B of k numbers to C, which stays in registers. The sums are
// those of mulAdd, in the same order.
func mulAddOfHeads(v isa, rows, k int, form headForm) {
	vectors := k / v.lanes
	text(fmt.Sprintf("increases C by rows of A times n rows of B, of %d numbers; ldb is in elements of B, other strides are in floats.", k),
		"headMulAdd%dx%d%s%s", rows, k, form.name, v.name)("(c *float32, ldc int, a *float32, lda int, b *" + form.pointer + ", ldb int, n int)")
	a, b, n, ldb := arg("a"), arg("b"), arg("n"), form.stride()
	aRow, cRow := rowPointers(a, scaled("lda"), rows), rowPointers(arg("c"), scaled("ldc"), rows)
	load := form.loader(v, k)
	acc, fs, bs := v.vecs(rows*vectors), v.vecs(rows), v.vecs(2)
	for i, r := range acc {
		VMOVUPS(cRow(i/vectors, i%vectors*v.bytes()), r)
	}
	Label("loop")
	for i, f := range fs {
		VBROADCASTSS(aRow(i, 0), f)
	}
	for at := range vectors {
		load(b, at, bs[at%2])
		for i, f := range fs {
			VFMADD231PS(bs[at%2], f, acc[i*vectors+at])
		}
	}
	ADDQ(U8(4), a)
	ADDQ(ldb, b)
	DECQ(n)
	JNZ(LabelRef("loop"))
	for i, r := range acc {
		VMOVUPS(r, cRow(i/vectors, i%vectors*v.bytes()))
	}
	VZEROUPPER()
	RET()
}
