package main

import (
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// exponential holds the constants of exp, the same as those of simd.Exp32.
type exponential struct {
	isa
	lo, hi, log2E, ln2Hi, ln2Lo, bias reg.VecVirtual
	terms                             []Op // in memory, or in registers where there are many
}

var expTable *Mem

// expTerms are the polynomial's coefficients, from x⁷ down, each in 8 lanes.
var expTerms = []float64{1.0 / 5040, 1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 0.5, 1, 1}

func newExponential(v isa) *exponential {
	if expTable == nil {
		table := GLOBL("expterms", 8|16)
		for i, c := range expTerms {
			for lane := range 8 {
				DATA(32*i+4*lane, U32(math.Float32bits(float32(c))))
			}
		}
		expTable = &table
	}
	e := &exponential{
		isa: v, lo: v.float(-104), hi: v.float(89), log2E: v.float(math.Log2E),
		ln2Hi: v.float(0.693359375), ln2Lo: v.float(-2.12194440e-4), bias: v.constant(127),
	}
	for i := range expTerms {
		at := expTable.Offset(32 * i)
		if !v.wide() {
			e.terms = append(e.terms, at)
			continue
		}
		r := ZMM()
		VBROADCASTSS(at, r)
		e.terms = append(e.terms, r)
	}
	return e
}

// float returns a register with a number in every lane.
func (v isa) float(f float64) reg.VecVirtual { return v.constant(math.Float32bits(float32(f))) }

func float(f float64) reg.VecVirtual { return avx2.float(f) }

// emit replaces x by e^x.
func (e *exponential) emit(x reg.VecVirtual) {
	p, half, rest := e.factors(x)
	for _, power := range []reg.VecVirtual{half, rest} {
		VPADDD(e.bias, power, power)
		VPSLLD(U8(23), power, power)
		VMULPS(power, p, p)
	}
	VMOVUPS(p, x)
}

// factors returns e^x as p·2^half·2^rest: 2^(half+rest) may not be a normal number. It
// changes x. A NaN stays: it is the operand that min and max return.
func (e *exponential) factors(x reg.VecVirtual) (p, half, rest reg.VecVirtual) {
	n := e.vec()
	p, half = e.vec(), e.vec()
	VMINPS(x, e.hi, x)
	VMAXPS(x, e.lo, x)
	VMULPS(e.log2E, x, n)
	if e.wide() {
		VRNDSCALEPS(U8(0), n, n)
	} else {
		VROUNDPS(U8(0), n, n)
	}
	VFNMADD231PS(e.ln2Hi, n, x)
	VFNMADD231PS(e.ln2Lo, n, x)
	VMOVUPS(e.terms[0], p)
	for _, c := range e.terms[1:] {
		VFMADD213PS(c, x, p)
	}
	VCVTPS2DQ(n, n)
	VPSRAD(U8(1), n, half)
	VPSUBD(half, n, n)
	return p, half, n
}

// emitLarge is emit with 0 for numbers below e.lo.
func (e *exponential) emitLarge(x reg.VecVirtual) {
	const notLess = 5 // or a NaN
	if e.wide() {
		large := K()
		VCMPPS(U8(notLess), e.lo, x, large)
		e.emit(x)
		VMOVAPS_Z(x, large, x)
		return
	}
	large := YMM()
	VCMPPS(U8(notLess), e.lo, x, large)
	e.emit(x)
	VANDPS(large, x, x)
}

func exponentials() {
	expSum(avx2)
	expSum(avx512)
	siluMul()
	maximum()
	scale()
}

func expSum(v isa) {
	text(fmt.Sprintf("sets dst = e^(src-shift), or 0 below e^-87, and returns the sum; n is a multiple of %d.", v.lanes), "expSum%s", v.name)("(dst *float32, src *float32, n int, shift float32) float32")
	e := newExponential(v)
	e.lo = v.float(-87) // so that no intermediate result is subnormal, which would take six times as long
	shift, sum := v.vec(), v.vec()
	v.zero(sum)
	first := floatArg("shift")
	VBROADCASTSS(first, shift)
	dst, src, n := arg("dst"), arg("src"), arg("n")
	Label("loop")
	x := v.vec()
	VMOVUPS(Mem{Base: src}, x)
	VSUBPS(shift, x, x)
	e.emitLarge(x)
	VADDPS(x, sum, sum)
	VMOVUPS(x, Mem{Base: dst})
	v.next(src, dst, n)
	returnFloat(v.sum(sum))
	VZEROUPPER()
	RET()
}

func maximum() {
	text("returns the largest of src, or NaN if there is one; n is a multiple of 8.", "maxAVX2")("(src *float32, n int) float32")
	src, n := arg("src"), arg("n")
	x, largest, nan := YMM(), float(math.Inf(-1)), YMM()
	avx2.zero(nan)
	Label("loop")
	VMOVUPS(Mem{Base: src}, x)
	VMAXPS(largest, x, largest)
	VCMPPS(U8(3), x, x, x) // unordered
	VORPS(x, nan, nan)
	ADDQ(U8(32), src)
	SUBQ(U8(8), n)
	JNZ(LabelRef("loop"))
	upper := XMM()
	VEXTRACTF128(U8(1), largest, upper)
	low := largest.AsX().(reg.VecVirtual)
	VMAXPS(upper, low, low)
	VPERMILPS(U8(0x4e), low, upper)
	VMAXPS(upper, low, low)
	VPERMILPS(U8(0xb1), low, upper)
	VMAXPS(upper, low, low)
	VMOVMSKPS(nan, n.As32())
	TESTL(n.As32(), n.As32())
	JZ(LabelRef("done"))
	VPCMPEQD(low, low, low) // all bits set are a NaN
	Label("done")
	returnFloat(low)
	VZEROUPPER()
	RET()
}

func scale() {
	text("multiplies dst by f; n is a multiple of 8.", "scaleAVX2")("(dst *float32, n int, f float32)")
	dst, n := arg("dst"), arg("n")
	x, f := YMM(), YMM()
	first := floatArg("f")
	VBROADCASTSS(first, f)
	Label("loop")
	VMULPS(Mem{Base: dst}, f, x)
	VMOVUPS(x, Mem{Base: dst})
	ADDQ(U8(32), dst)
	SUBQ(U8(8), n)
	JNZ(LabelRef("loop"))
	VZEROUPPER()
	RET()
}

// next moves on by a vector and loops.
func (v isa) next(src, dst, n reg.GPVirtual) {
	ADDQ(U8(v.bytes()), src)
	ADDQ(U8(v.bytes()), dst)
	SUBQ(U8(v.lanes), n)
	JNZ(LabelRef("loop"))
}
