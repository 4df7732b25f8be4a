package main

import "math"

// neonExponential replaces numbers by e^x, with the constants of simd.Exp32, in
// registers from 9 on.
type neonExponential struct{ lanes }

const (
	expLo vreg = iota + 9
	expHi
	expLog2E
	expLn2Hi
	expLn2Lo
	expBias
	expTerm // eight of them
)

func (e *neonExponential) prepare() {
	for i, c := range []float64{-104, 89, math.Log2E, 0.693359375, -2.12194440e-4} {
		e.float(expLo+vreg(i), 9, c)
	}
	e.constant(expBias, 9, 127)
	for i, c := range expTerms {
		e.float(expTerm+vreg(i), 9, c)
	}
}

// emit uses registers 1 to 4.
func (e *neonExponential) emit(x vreg) {
	p, half, rest := e.factors(x)
	for _, power := range []vreg{half, rest} {
		e.op(iadd, power, power, expBias)
		e.left(power, power, 23)
		e.op(fmul, p, p, power)
	}
	e.mov(x, p)
}

// factors is that of exponential. It uses registers 1 to 4.
func (e *neonExponential) factors(x vreg) (p, half, rest vreg) {
	const n = vreg(1)
	half = vreg(2)
	e.op(fmin, x, x, expHi)
	e.op(fmax, x, x, expLo)
	e.op(fmul, n, x, expLog2E)
	e.op1(frintn, n, n)
	e.op(fmls, x, n, expLn2Hi)
	e.op(fmls, x, n, expLn2Lo)
	p = e.polynomial(x, expTerm, len(expTerms), 3, 4)
	e.op1(fcvtns, n, n)
	e.right(half, n, 1, true)
	e.op(isub, n, n, half)
	return p, half, n
}

// silu is the function that newSiLU returns, after prepareSiLU. It uses registers 1 to 5.
func (e *neonExponential) silu(x vreg) {
	e.op1(fneg, 5, x)
	p, half, reciprocal := e.factors(5)
	e.op(iadd, half, half, expBias)
	e.op(isub, reciprocal, expBias, reciprocal)
	e.left(half, half, 23)
	e.left(reciprocal, reciprocal, 23)
	e.op(fmul, p, p, half)
	e.op(fadd, p, p, reciprocal)
	e.op(fdiv, x, x, p)
	e.op(fmul, x, x, reciprocal)
}

func (e *neonExponential) prepareSiLU() {
	e.prepare()
	e.float(expHi, 9, siluMax)
}

// polynomial returns the register, one of the two given, with the value at x of the
// polynomial with these constants, the highest power first.
func (l lanes) polynomial(x, first vreg, count int, p, other vreg) vreg {
	l.mov(p, first)
	for i := 1; i < count; i++ {
		l.mov(other, first+vreg(i))
		l.op(fmla, other, p, x)
		p, other = other, p
	}
	return p
}

// neonExponentials writes the functions of kernels that use exponentials.
func neonExponentials(a *arm64) {
	e := neonExponential{lanes{arm64: a}}
	const total, large, shift = vreg(6), vreg(7), vreg(30)
	r := a.function("expSumNEON", "sets dst = e^(src-shift), or 0 below e^-87, and sums to the sums of every fourth; n is a multiple of 8.",
		"(dst *float32, src *float32, n int, shift *float32, sums *float32)", "dst", "src", "n", "shift", "sums")
	dst, src, n, from, sums := r[0], r[1], r[2], r[3], r[4]
	e.prepare()
	e.float(expLo, 9, -87)
	a.line("FMOVS (R%d), F%d", from, shift)
	a.line("VDUP V%d.S[0], V%d.S4", shift, shift)
	a.zero(total)
	a.label("loop")
	for i := range 2 {
		a.load(0, src, 16*i)
		e.op(fsub, 0, 0, shift)
		e.op(fcmgt, large, expLo, 0) // smaller ones, and no NaN
		e.emit(0)
		a.clear(0, 0, large)
		a.store(0, dst, 16*i)
		e.op(fadd, total, total, 0)
	}
	a.next(n, map[xreg]int{src: 32, dst: 32})
	a.store(total, sums, 0)
	a.line("RET")

	r = a.function("siluMulNEON", "sets dst = gate·sigmoid(gate)·up; n is a multiple of 8.",
		"(dst *float32, gate *float32, up *float32, n int)", "dst", "gate", "up", "n")
	e.prepareSiLU()
	a.label("loop")
	for i := range 2 {
		a.load(0, r[1], 16*i)
		e.silu(0)
		a.load(5, r[2], 16*i)
		e.op(fmul, 0, 0, 5)
		a.store(0, r[0], 16*i)
	}
	a.next(r[3], map[xreg]int{r[0]: 32, r[1]: 32, r[2]: 32})
	a.line("RET")
}

// Registers of neonLog's constants: logConstants from 8 on, then these.
const (
	logMantissa = vreg(30)
	logInfinity = vreg(31)
)

func neonLogConstants(f lanes) {
	for i, c := range logConstants {
		f.float(8+vreg(i), 9, c)
	}
	f.constant(logMantissa, 9, 0x007fffff)
	f.constant(logInfinity, 9, 0x7f800000)
}

// neonLog is the function that logarithm returns.
func neonLog(f lanes, x vreg) {
	const smallest, scale, half, one, two, ln2Hi, ln2Lo, shift, bias, terms = vreg(8), vreg(9), vreg(10), vreg(11), vreg(12), vreg(13), vreg(14), vreg(15), vreg(16), vreg(17)
	const in, tiny, t, e, p, z, mask = vreg(1), vreg(2), vreg(3), vreg(4), vreg(5), vreg(6), vreg(7)
	f.mov(in, x)
	f.op(fcmgt, tiny, smallest, x) // subnormal, or no argument at all
	f.op(fmul, t, x, scale)
	f.mov(mask, tiny)
	f.choose(mask, t, x)
	f.mov(x, mask)
	f.right(e, x, 23, false)
	f.op1(scvtf, e, e)
	f.op(fsub, e, e, bias)
	f.and(t, tiny, shift)
	f.op(fsub, e, e, t)
	f.and(x, x, logMantissa)
	f.or(x, x, one)       // 1 to 2
	f.op(fmul, t, x, two) // half of it, where it exceeds √2
	f.op(fcmgt, mask, t, half)
	f.and(z, mask, one)
	f.op(fadd, e, e, z)
	f.choose(mask, t, x)
	f.op(fsub, x, mask, one)
	f.op(fmul, z, x, x)
	q := f.polynomial(x, terms, len(logTerms), p, t)
	f.op(fmul, q, q, x)
	f.op(fmul, q, q, z)
	f.op(fmla, q, e, ln2Lo)
	f.op(fmls, q, z, two)
	f.op(fadd, x, x, q)
	f.op(fmla, x, e, ln2Hi)
	// ln 0 is -∞, of negative numbers NaN; ∞ and NaN stay.
	f.zero(z)
	f.op(fcmeq, mask, in, z)
	f.op1(fneg, t, logInfinity)
	f.choose(mask, t, x)
	f.op(fcmgt, t, z, in)
	f.or(x, mask, t)
	f.op(fcmgt, t, logInfinity, in) // less than ∞
	f.choose(t, x, in)
	f.mov(x, t)
}

// neonWide writes what wideLoops writes for amd64, two float64 numbers to a vector.
func neonWide(a *arm64) {
	d := lanes{arm64: a, wide: true}
	constants := func(words []uint64, values ...float64) func() {
		return func() {
			for i, w := range words {
				d.bits(8+vreg(i), 9, w)
			}
			for i, v := range values {
				d.float(8+vreg(len(words)+i), 9, v)
			}
		}
	}
	for name, quarters := range []string{"sin", "cos"} {
		neonRow(a, quarters, true, constants([]uint64{uint64(name), 1 << 63}, sineConstants...), func(x vreg) { neonSine(d, x, quarters == "sin") })
	}
	neonRow(a, "tanh", true, constants([]uint64{1023}, tanhConstants...), func(x vreg) { neonTanh(d, x) })
	neonRow(a, "erf", true, constants(nil, erfConstants...), func(x vreg) {
		const square = vreg(1)
		d.op(fmin, x, x, 8)
		d.op(fmax, x, x, 9)
		d.op(fmul, square, x, x)
		p := d.polynomial(square, 10, 7, 2, 3)
		q := d.polynomial(square, 17, 6, 4, 5)
		d.op(fmul, p, p, x)
		d.op(fdiv, x, p, q)
	})
}

// neonSine is the function that sine returns.
func neonSine(d lanes, x vreg, sine bool) {
	const quarters, sign, constants = vreg(8), vreg(9), vreg(10)
	const n, square, cube, zero = vreg(1), vreg(2), vreg(7), vreg(29)
	if sine { // keeps the zeros of x, the negative one too
		d.zero(zero)
		d.op(fcmeq, zero, x, zero)
		d.and(zero, zero, x)
	}
	d.op(fmul, n, x, constants)
	d.op1(frintn, n, n)
	d.op(fmls, x, n, constants+1)
	d.op(fmls, x, n, constants+2)
	d.op1(fcvtns, n, n)
	d.op(iadd, n, n, quarters)
	d.op(fmul, square, x, x)
	d.op(fmul, cube, square, x)
	s := d.polynomial(square, constants+3, 5, 3, 4)
	d.op(fmla, x, cube, s)
	c := d.polynomial(square, constants+8, 6, 5, 6)
	odd := s
	d.left(odd, n, 63)
	d.right(odd, odd, 63, true)
	d.choose(odd, c, x)
	d.left(n, n, 62) // the second bit of n is the sign
	d.and(n, n, sign)
	d.eor(x, odd, n)
	if sine {
		d.or(x, x, zero)
	}
}

// neonTanh is the function that hyperbolicTangent returns.
func neonTanh(d lanes, x vreg) {
	const bias, constants = vreg(8), vreg(9)
	const small, in, n = vreg(1), vreg(2), vreg(3)
	d.op1(fabs, small, x)
	d.op(fcmgt, small, constants+2, small)
	d.mov(in, x)
	d.op(fmin, x, x, constants)
	d.op(fmax, x, x, constants+1)
	d.op(fadd, x, x, x)
	d.op(fmul, n, x, constants+3)
	d.op1(frintn, n, n)
	d.op(fmls, x, n, constants+4)
	d.op(fmls, x, n, constants+5)
	p := d.polynomial(x, constants+6, 10, 4, 5)
	d.op1(fcvtns, n, n)
	d.op(iadd, n, n, bias)
	d.left(n, n, 52)
	d.op(fmul, p, p, n)
	d.op(fadd, x, p, constants+15)
	d.op(fsub, p, p, constants+15)
	d.op(fdiv, p, p, x)
	d.choose(small, in, p)
	d.mov(x, small)
}
