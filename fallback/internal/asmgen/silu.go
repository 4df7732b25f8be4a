package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// siluMax is the largest exponent of SiLU's power of e: the second of its two powers of 2
// is 2^127 then, whose reciprocal is 0 here, as the result for such an x is.
const siluMax = 176

// newSiLU returns a function that replaces x by x / (1 + e^-x). e^-x is infinite from x =
// -88.7 on, where results are still normal numbers, so both sides of the division are
// multiplied by the reciprocal of the second power of 2 in e^-x.
func newSiLU() func(x reg.VecVirtual) {
	e, sign := newExponential(avx2), constant(1<<31)
	e.hi = float(siluMax)
	return func(x reg.VecVirtual) {
		t := YMM()
		VXORPS(sign, x, t)
		p, half, reciprocal := e.factors(t)
		VPADDD(e.bias, half, half)
		VPSUBD(reciprocal, e.bias, reciprocal)
		VPSLLD(U8(23), half, half)
		VPSLLD(U8(23), reciprocal, reciprocal)
		VMULPS(half, p, p)
		VADDPS(reciprocal, p, p)
		VDIVPS(p, x, x)
		VMULPS(reciprocal, x, x)
	}
}

func siluMul() {
	text("sets dst = gate·sigmoid(gate)·up; n is a multiple of 8.", "siluMulAVX2")("(dst *float32, gate *float32, up *float32, n int)")
	silu := newSiLU()
	dst, gate, up, n := arg("dst"), arg("gate"), arg("up"), arg("n")
	Label("loop")
	g := YMM()
	VMOVUPS(Mem{Base: gate}, g)
	silu(g)
	VMULPS(Mem{Base: up}, g, g)
	VMOVUPS(g, Mem{Base: dst})
	ADDQ(U8(32), up)
	avx2.next(gate, dst, n)
	VZEROUPPER()
	RET()
}
