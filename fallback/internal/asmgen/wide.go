package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// wideLoops writes functions that are computed in float64, four numbers to a
// vector, and rounded once: their reductions and divisions would take more than
// that in float32.
func wideLoops() {
	for _, f := range []struct {
		name    string
		prepare func() (emit func(x reg.VecVirtual))
	}{
		{"sin", func() func(reg.VecVirtual) { return sine("sinconstants", 0) }},
		{"cos", func() func(reg.VecVirtual) { return sine("cosconstants", 1) }},
		{"tanh", hyperbolicTangent},
		{"erf", errorFunction},
	} {
		text("sets z to a function of x; n is a multiple of 8.", "%sRowAVX2", f.name)("(z *float32, x *float32, n int)")
		emit := f.prepare()
		z, from, n := arg("z"), arg("x"), arg("n")
		Label("loop")
		x, y := YMM(), YMM()
		VCVTPS2PD(Mem{Base: from}, x)
		VCVTPS2PD(Mem{Base: from, Disp: 16}, y)
		for i, v := range []reg.VecVirtual{x, y} {
			emit(v)
			narrow := XMM()
			VCVTPD2PSY(v, narrow)
			VMOVUPS(narrow, Mem{Base: z, Disp: 16 * i})
		}
		avx2.next(from, z, n)
		VZEROUPPER()
		RET()
	}
	largest()
}

// largest finds the largest magnitude. NaNs do not count.
func largest() {
	text("returns the largest magnitude of x except for NaNs; n is a multiple of 8.", "largestAVX2")("(x *float32, n int) float32")
	x, n := arg("x"), arg("n")
	v, most, magnitude := YMM(), YMM(), constant(0x7fffffff)
	avx2.zero(most)
	Label("loop")
	VANDPS(Mem{Base: x}, magnitude, v)
	VMAXPS(most, v, most)
	ADDQ(U8(32), x)
	SUBQ(U8(8), n)
	JNZ(LabelRef("loop"))
	upper := XMM()
	VEXTRACTF128(U8(1), most, upper)
	low := most.AsX().(reg.VecVirtual)
	VMAXPS(upper, low, low)
	VPERMILPS(U8(0x4e), low, upper)
	VMAXPS(upper, low, low)
	VPERMILPS(U8(0xb1), low, upper)
	VMAXPS(upper, low, low)
	returnFloat(low)
	VZEROUPPER()
	RET()
}

// Constants of the functions below, in the order in which they use them.
var (
	sineConstants = []float64{
		2 / math.Pi, 1.5707963267948966, 6.123233995736766e-17, // π/2 in two parts
		-1.0 / 39916800, 1.0 / 362880, -1.0 / 5040, 1.0 / 120, -1.0 / 6,
		-1.0 / 3628800, 1.0 / 40320, -1.0 / 720, 1.0 / 24, -1.0 / 2, 1,
	}
	tanhConstants = []float64{
		20, -20, 0x1p-12, math.Log2E, 6.93147180369123816490e-01, 1.90821492927058770002e-10,
		1.0 / 362880, 1.0 / 40320, 1.0 / 5040, 1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 1.0 / 2, 1, 1,
	}
	erfConstants = []float64{
		4, -4,
		-1.3202622986512289e-08, 4.684838383608308e-06, 0.0003796129609527855, 0.0038496877076473796,
		0.05431719039911434, 0.18520483064057108, 1.1283791693742529,
		6.311120669110448e-05, 0.001307591215183796, 0.01546225440196192, 0.11395913930919076, 0.4974669213623595, 1,
	}
)

// doubles is a table of float64 constants, each in four lanes.
func doubles(name string, values []float64) func(i int) Mem {
	bits := make([]uint64, len(values))
	for i, v := range values {
		bits[i] = math.Float64bits(v)
	}
	return quads(name, bits)
}

func quads(name string, values []uint64) func(i int) Mem {
	table := GLOBL(name, 8|16)
	for i, v := range values {
		for lane := range 4 {
			DATA(32*i+8*lane, U64(v))
		}
	}
	return func(i int) Mem { return table.Offset(32 * i) }
}

// polynomial returns a register with the value at x of the polynomial that has the
// constants from..to, the highest power first.
func polynomial(x reg.VecVirtual, at func(i int) Mem, from, to int) reg.VecVirtual {
	p := YMM()
	VMOVUPD(at(from), p)
	for i := from + 1; i <= to; i++ {
		VFMADD213PD(at(i), x, p)
	}
	return p
}

// sine returns a function that replaces x, up to 2^30, by its sine, or by its
// cosine where quarters is 1: x is brought to r + n·π/2 with |r| <= π/4, and the
// Taylor polynomials of r leave out less than 1e-10.
func sine(name string, quarters uint64) func(x reg.VecVirtual) {
	at := doubles(name, sineConstants)
	words := quads(name+"words", []uint64{quarters, 1 << 63})
	return func(x reg.VecVirtual) {
		n, narrow, quarter, zero := YMM(), XMM(), YMM(), YMM()
		if quarters == 0 { // keeps the zeros of x, the negative one too
			avx2.zero(zero)
			VCMPPD(U8(0), zero, x, zero)
			VANDPD(x, zero, zero)
		}
		VMULPD(at(0), x, n)
		VROUNDPD(U8(8), n, n)
		VFNMADD231PD(at(1), n, x)
		VFNMADD231PD(at(2), n, x)
		VCVTPD2DQY(n, narrow)
		VPMOVSXDQ(narrow, quarter)
		VPADDQ(words(0), quarter, quarter)
		square, cube := YMM(), YMM()
		VMULPD(x, x, square)
		VMULPD(x, square, cube)
		s := polynomial(square, at, 3, 7)
		VFMADD213PD(x, cube, s)
		c := polynomial(square, at, 8, 13)
		odd := YMM()
		VPSLLQ(U8(63), quarter, odd)
		VBLENDVPD(odd, c, s, s)
		VPSLLQ(U8(62), quarter, quarter) // the second bit of n is the sign
		VANDPD(words(1), quarter, quarter)
		VXORPD(quarter, s, x)
		if quarters == 0 {
			VORPD(zero, x, x)
		}
	}
}

// hyperbolicTangent returns a function that replaces x by (e^2x - 1) / (e^2x + 1),
// or, where that is x itself in float32, leaves it.
func hyperbolicTangent() func(x reg.VecVirtual) {
	at := doubles("tanhconstants", tanhConstants)
	words := quads("tanhwords", []uint64{1<<63 - 1, 1023})
	return func(x reg.VecVirtual) {
		bound, small, n := YMM(), YMM(), YMM()
		VANDPD(words(0), x, small)
		VCMPPD(U8(1), at(2), small, small) // its magnitude is less
		in := YMM()
		VMOVAPD(x, in)
		VMOVUPD(at(0), bound) // a NaN stays: it is the operand that min and max return
		VMINPD(x, bound, x)
		VMOVUPD(at(1), bound)
		VMAXPD(x, bound, x)
		VADDPD(x, x, x)
		VMULPD(at(3), x, n)
		VROUNDPD(U8(8), n, n)
		VFNMADD231PD(at(4), n, x)
		VFNMADD231PD(at(5), n, x)
		p := polynomial(x, at, 6, 15)
		narrow, power := XMM(), YMM()
		VCVTPD2DQY(n, narrow)
		VPMOVSXDQ(narrow, power)
		VPADDQ(words(1), power, power)
		VPSLLQ(U8(52), power, power)
		VMULPD(power, p, p)
		above := YMM()
		VADDPD(at(15), p, above)
		VSUBPD(at(15), p, p)
		VDIVPD(above, p, p)
		VBLENDVPD(small, in, p, x)
	}
}

// errorFunction returns a function that replaces x by erf x: x·P(x²)/Q(x²), fitted
// for |x| <= 4 to 2e-9 of erf x. Beyond that it is 1 in float32.
func errorFunction() func(x reg.VecVirtual) {
	at := doubles("erfconstants", erfConstants)
	return func(x reg.VecVirtual) {
		bound, square := YMM(), YMM()
		VMOVUPD(at(0), bound)
		VMINPD(x, bound, x)
		VMOVUPD(at(1), bound)
		VMAXPD(x, bound, x)
		VMULPD(x, x, square)
		p, q := polynomial(square, at, 2, 8), polynomial(square, at, 9, 14)
		VMULPD(x, p, p)
		VDIVPD(q, p, x)
	}
}
