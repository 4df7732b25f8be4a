package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// logTerms are the coefficients, from x⁸ down, of (ln(1+x) - x + x²/2)/x³ for x
// from √½-1 to √2-1 (Cephes' logf).
var logTerms = []float64{
	7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1,
	-1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1,
}

// logConstants are used from memory: there are more than registers.
var logConstants = append([]float64{0x1p-126, 0x1p23, math.Sqrt2 / 2, 1, 0.5, 0.693359375, -2.12194440e-4, 23, 127}, logTerms...)

// logarithm returns a function that replaces x by ln x: numbers are brought to
// m·2^e with m from √½ to √2.
func logarithm() func(x reg.VecVirtual) {
	table := GLOBL("logconstants", 8|16)
	for i, c := range logConstants {
		for lane := range 8 {
			DATA(32*i+4*lane, U32(math.Float32bits(float32(c))))
		}
	}
	at := func(i int) Mem { return table.Offset(32 * i) }
	smallest, scale, half, one, two, ln2Hi, ln2Lo, shift, bias := at(0), at(1), at(2), at(3), at(4), at(5), at(6), at(7), at(8)
	mantissa, infinity := constant(0x007fffff), constant(0x7f800000)
	return func(x reg.VecVirtual) {
		in, tiny, t, e := YMM(), YMM(), YMM(), YMM()
		VMOVAPS(x, in)
		VCMPPS(U8(1), smallest, x, tiny) // subnormal, or no argument at all
		VMULPS(scale, x, t)
		VBLENDVPS(tiny, t, x, x)
		VPSRLD(U8(23), x, e)
		VCVTDQ2PS(e, e)
		VSUBPS(bias, e, e)
		VANDPS(shift, tiny, t)
		VSUBPS(t, e, e)
		VANDPS(mantissa, x, x)
		VORPS(one, x, x) // 1 to 2
		large := YMM()
		VMULPS(two, x, t) // half of it, where it exceeds √2
		VCMPPS(U8(14), half, t, large)
		VBLENDVPS(large, t, x, x)
		VANDPS(one, large, t)
		VADDPS(t, e, e)
		VSUBPS(one, x, x)
		z, p := YMM(), YMM()
		VMULPS(x, x, z)
		VMOVUPS(at(9), p)
		for i := range logTerms[1:] {
			VFMADD213PS(at(10+i), x, p)
		}
		VMULPS(x, p, p)
		VMULPS(z, p, p)
		VFMADD231PS(ln2Lo, e, p)
		VFNMADD231PS(two, z, p)
		VADDPS(p, x, x)
		VFMADD231PS(ln2Hi, e, x)
		// ln 0 is -∞, of negative numbers NaN; ∞ and NaN stay.
		zero := YMM()
		avx2.zero(zero)
		VCMPPS(U8(0), zero, in, t)
		VANDPS(infinity, t, p)
		VBLENDVPS(t, p, x, x)
		sign := YMM()
		VPSLLD(U8(31), t, sign)
		VORPS(sign, x, x)
		VCMPPS(U8(1), zero, in, t)
		VORPS(t, x, x)
		VCMPPS(U8(5), infinity, in, t) // not less than ∞
		VBLENDVPS(t, in, x, x)
	}
}
