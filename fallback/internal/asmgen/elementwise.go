package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// elementwiseFamily writes loops over rows of float32 numbers, 8 at a time.
func elementwiseFamily() {
	for _, b := range []struct {
		name string
		emit func(x, y, z reg.VecVirtual)
	}{
		{"add", func(x, y, z reg.VecVirtual) { VADDPS(y, x, z) }},
		{"sub", func(x, y, z reg.VecVirtual) { VSUBPS(y, x, z) }},
		{"mul", func(x, y, z reg.VecVirtual) { VMULPS(y, x, z) }},
		{"div", func(x, y, z reg.VecVirtual) { VDIVPS(y, x, z) }},
		{"max", func(x, y, z reg.VecVirtual) { largerOrNaN(x, y, z, func(a, b, c Op) { VMAXPS(a, b, c) }) }},
		{"min", func(x, y, z reg.VecVirtual) { largerOrNaN(x, y, z, func(a, b, c Op) { VMINPS(a, b, c) }) }},
	} {
		binaryLoop(b.name, b.emit)
	}
	// Predicates of VCMPPS: ordered, except for the unequal one.
	for _, c := range []struct {
		name      string
		predicate uint8
	}{{"equal", 0}, {"notEqual", 4}, {"less", 1}, {"lessEqual", 2}} {
		compareLoop(c.name, c.predicate)
	}
	unaryLoops()
	wideLoops()
	sumLanes()
	rotateHalves()
}

// rotateHalves rounds each product, as separate multiplications would.
func rotateHalves() {
	text("sets dst to the pairs x[i], x[i+half] rotated by angles with these cosines and sines; half is a multiple of 8.", "rotateHalvesAVX2")(
		"(dst *float32, x *float32, cos *float32, sin *float32, half int)")
	dst, x, cos, sin, n := arg("dst"), arg("x"), arg("cos"), arg("sin"), arg("half")
	bytes := GP64() // from the first of a pair to the second
	MOVQ(n, bytes)
	SHLQ(U8(2), bytes)
	a, b, c, d, product := YMM(), YMM(), YMM(), YMM(), YMM()
	Label("loop")
	VMOVUPS(Mem{Base: x}, a)
	VMOVUPS(Mem{Base: x, Index: bytes, Scale: 1}, b)
	VMOVUPS(Mem{Base: cos}, c)
	VMOVUPS(Mem{Base: sin}, d)
	VMULPS(c, a, product)
	VMULPS(d, a, a)
	VMULPS(c, b, c)
	VMULPS(d, b, b)
	VSUBPS(b, product, product)
	VADDPS(c, a, a)
	VMOVUPS(product, Mem{Base: dst})
	VMOVUPS(a, Mem{Base: dst, Index: bytes, Scale: 1})
	ADDQ(U8(32), cos)
	ADDQ(U8(32), sin)
	avx2.next(x, dst, n)
	VZEROUPPER()
	RET()
}

// sumLanes adds up every eighth number.
func sumLanes() {
	text("sets sums to the sums of every eighth of x; n is a multiple of 8.", "sumLanesAVX2")("(sums *float32, x *float32, n int)")
	sums, x, n := arg("sums"), arg("x"), arg("n")
	total := YMM()
	avx2.zero(total)
	Label("loop")
	VADDPS(Mem{Base: x}, total, total)
	ADDQ(U8(32), x)
	SUBQ(U8(8), n)
	JNZ(LabelRef("loop"))
	VMOVUPS(total, Mem{Base: sums})
	VZEROUPPER()
	RET()
}

// largerOrNaN gives x where it is a NaN: VMAXPS and VMINPS give the second operand
// then, and where both are equal.
func largerOrNaN(x, y, z reg.VecVirtual, most func(a, b, c Op)) {
	nan := YMM()
	VCMPPS(U8(3), x, x, nan)
	most(y, x, z)
	VBLENDVPS(nan, x, z, z)
}

func binaryLoop(name string, emit func(x, y, z reg.VecVirtual)) {
	text("sets z to a function of x and y; n is a multiple of 8. Where step is 0, y is one number.", "%sRowAVX2", name)(
		"(z *float32, x *float32, y *float32, n int, step int)")
	z, x, y, n, step := arg("z"), arg("x"), arg("y"), arg("n"), arg("step")
	a, b, c := YMM(), YMM(), YMM()
	TESTQ(step, step)
	JZ(LabelRef("one"))
	Label("loop")
	VMOVUPS(Mem{Base: x}, a)
	VMOVUPS(Mem{Base: y}, b)
	emit(a, b, c)
	VMOVUPS(c, Mem{Base: z})
	ADDQ(U8(32), y)
	avx2.next(x, z, n)
	VZEROUPPER()
	RET()
	Label("one")
	VBROADCASTSS(Mem{Base: y}, b)
	Label("same")
	VMOVUPS(Mem{Base: x}, a)
	emit(a, b, c)
	VMOVUPS(c, Mem{Base: z})
	ADDQ(U8(32), x)
	ADDQ(U8(32), z)
	SUBQ(U8(8), n)
	JNZ(LabelRef("same"))
	VZEROUPPER()
	RET()
}

func compareLoop(name string, predicate uint8) {
	text("sets z to 1 where x and y compare so, else to 0; n is a multiple of 8.", "%sRowAVX2", name)(
		"(z *byte, x *float32, y *float32, n int)")
	z, x, y, n := arg("z"), arg("x"), arg("y"), arg("n")
	a, b, one := YMM(), XMM(), constant(0x01010101)
	Label("loop")
	VMOVUPS(Mem{Base: x}, a)
	VCMPPS(U8(predicate), Mem{Base: y}, a, a)
	VEXTRACTI128(U8(1), a, b)
	low := a.AsX()
	VPACKSSDW(b, low, low)
	VPACKSSWB(low, low, low)
	VPAND(one.AsX(), low, low)
	VMOVQ(low, Mem{Base: z})
	ADDQ(U8(32), x)
	ADDQ(U8(32), y)
	ADDQ(U8(8), z)
	SUBQ(U8(8), n)
	JNZ(LabelRef("loop"))
	VZEROUPPER()
	RET()
}

func unaryLoops() {
	var sign, one reg.VecVirtual
	var e *exponential
	var ln, silu func(x reg.VecVirtual)
	signs := func() { sign = constant(1 << 31) }
	exps := func() { e, sign, one = newExponential(avx2), constant(1<<31), float(1) }
	for _, u := range []struct {
		name    string
		prepare func()
		emit    func(x reg.VecVirtual)
	}{
		{"neg", signs, func(x reg.VecVirtual) { VXORPS(sign, x, x) }},
		{"abs", signs, func(x reg.VecVirtual) { VANDNPS(x, sign, x) }},
		{"square", func() {}, func(x reg.VecVirtual) { VMULPS(x, x, x) }},
		{"sqrt", func() {}, func(x reg.VecVirtual) { VSQRTPS(x, x) }},
		{"rsqrt", func() { one = float(1) }, func(x reg.VecVirtual) {
			VSQRTPS(x, x)
			VDIVPS(x, one, x)
		}},
		{"log", func() { ln = logarithm() }, func(x reg.VecVirtual) { ln(x) }},
		{"exp", exps, func(x reg.VecVirtual) { e.emit(x) }},
		{"sigmoid", exps, func(x reg.VecVirtual) {
			VXORPS(sign, x, x)
			e.emit(x)
			VADDPS(one, x, x)
			VDIVPS(x, one, x)
		}},
		{"silu", func() { silu = newSiLU() }, func(x reg.VecVirtual) { silu(x) }},
		{"floor", func() {}, func(x reg.VecVirtual) { VROUNDPS(U8(9), x, x) }},
		{"ceil", func() {}, func(x reg.VecVirtual) { VROUNDPS(U8(10), x, x) }},
		{"round", func() {}, func(x reg.VecVirtual) { VROUNDPS(U8(8), x, x) }},
	} {
		text("sets z to a function of x; n is a multiple of 8.", "%sRowAVX2", u.name)("(z *float32, x *float32, n int)")
		u.prepare()
		z, from, n := arg("z"), arg("x"), arg("n")
		Label("loop")
		x := YMM()
		VMOVUPS(Mem{Base: from}, x)
		u.emit(x)
		VMOVUPS(x, Mem{Base: z})
		avx2.next(from, z, n)
		VZEROUPPER()
		RET()
	}
}
