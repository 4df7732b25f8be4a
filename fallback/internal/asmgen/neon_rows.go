package main

import "math"

// neonRows writes what elementwiseFamily, and conversions and sums of kernels, write
// for amd64: loops over rows of float32 numbers, 8 at a time.
func neonRows(a *arm64) {
	f := lanes{arm64: a}
	for _, b := range []struct {
		name string
		emit func(x, y, z vreg)
	}{
		{"add", func(x, y, z vreg) { f.op(fadd, z, x, y) }},
		{"sub", func(x, y, z vreg) { f.op(fsub, z, x, y) }},
		{"mul", func(x, y, z vreg) { f.op(fmul, z, x, y) }},
		{"div", func(x, y, z vreg) { f.op(fdiv, z, x, y) }},
		{"max", func(x, y, z vreg) { f.largerOrNaN(x, y, z, x, y) }},
		{"min", func(x, y, z vreg) { f.largerOrNaN(x, y, z, y, x) }},
	} {
		neonBinary(a, b.name, b.emit)
	}
	for _, c := range []struct {
		name string
		emit func(x, y vreg)
	}{
		{"equal", func(x, y vreg) { f.op(fcmeq, x, x, y) }},
		{"notEqual", func(x, y vreg) { f.op(fcmeq, x, x, y); f.not(x, x) }},
		{"less", func(x, y vreg) { f.op(fcmgt, x, y, x) }},
		{"lessEqual", func(x, y vreg) { f.op(fcmge, x, y, x) }},
	} {
		neonCompare(a, c.name, c.emit)
	}
	neonUnary(a)
	neonWide(a)
	neonConversions(a)
	neonSums(a)
	neonRotateHalves(a)
}

// neonRotateHalves is rotateHalves.
func neonRotateHalves(a *arm64) {
	f := lanes{arm64: a}
	r := a.function("rotateHalvesNEON", "sets dst to the pairs x[i], x[i+half] rotated by angles with these cosines and sines; half is a multiple of 8.",
		"(dst *float32, x *float32, cos *float32, sin *float32, half int)", "dst", "x", "cos", "sin", "half")
	dst, x, cos, sin, half := r[0], r[1], r[2], r[3], r[4]
	const toSecond, second = xreg(10), xreg(11)
	a.line("ADD R%d<<2, R%d, R%d", half, dst, toSecond)
	a.line("ADD R%d<<2, R%d, R%d", half, x, second)
	a.label("loop")
	for i := range 2 {
		a.load(0, x, 16*i)
		a.load(1, second, 16*i)
		a.load(2, cos, 16*i)
		a.load(3, sin, 16*i)
		f.op(fmul, 4, 0, 2)
		f.op(fmul, 0, 0, 3)
		f.op(fmul, 2, 1, 2)
		f.op(fmul, 1, 1, 3)
		f.op(fsub, 4, 4, 1)
		f.op(fadd, 0, 0, 2)
		a.store(4, dst, 16*i)
		a.store(0, toSecond, 16*i)
	}
	a.next(half, map[xreg]int{x: 32, second: 32, cos: 32, sin: 32, dst: 32, toSecond: 32})
	a.line("RET")
}

// largerOrNaN sets z to x where x is a NaN or high is larger than low, else to y.
func (f lanes) largerOrNaN(x, y, z, high, low vreg) {
	const number = vreg(30)
	f.op(fcmgt, z, high, low)
	f.op(fcmeq, number, x, x)
	f.not(number, number)
	f.or(z, z, number)
	f.choose(z, x, y)
}

// next moves pointers on by some bytes each, and loops.
func (a *arm64) next(n xreg, pointers map[xreg]int) {
	for r := xreg(0); r < 32; r++ {
		if bytes := pointers[r]; bytes > 0 {
			a.line("ADD $%d, R%d, R%d", bytes, r, r)
		}
	}
	a.line("SUBS $8, R%d, R%d", n, n)
	a.line("BNE loop")
}

func neonBinary(a *arm64, name string, emit func(x, y, z vreg)) {
	r := a.function(name+"RowNEON", "sets z to a function of x and y; n is a multiple of 8. Where step is 0, y is one number.",
		"(z *float32, x *float32, y *float32, n int, step int)", "z", "x", "y", "n", "step")
	z, x, y, n, step := r[0], r[1], r[2], r[3], r[4]
	a.line("CBNZ R%d, loop", step)
	a.line("FMOVS (R%d), F2", y)
	a.line("VDUP V2.S[0], V2.S4")
	a.line("VORR V2.B16, V2.B16, V3.B16")
	a.label("same")
	a.load(0, x, 0)
	a.load(1, x, 16)
	emit(0, 2, 4)
	emit(1, 3, 5)
	a.store(4, z, 0)
	a.store(5, z, 16)
	a.line("ADD $32, R%d, R%d", x, x)
	a.line("ADD $32, R%d, R%d", z, z)
	a.line("SUBS $8, R%d, R%d", n, n)
	a.line("BNE same")
	a.line("RET")
	a.label("loop")
	a.load(0, x, 0)
	a.load(1, x, 16)
	a.load(2, y, 0)
	a.load(3, y, 16)
	emit(0, 2, 4)
	emit(1, 3, 5)
	a.store(4, z, 0)
	a.store(5, z, 16)
	a.next(n, map[xreg]int{x: 32, y: 32, z: 32})
	a.line("RET")
}

func neonCompare(a *arm64, name string, emit func(x, y vreg)) {
	r := a.function(name+"RowNEON", "sets z to 1 where x and y compare so, else to 0; n is a multiple of 8.",
		"(z *byte, x *float32, y *float32, n int)", "z", "x", "y", "n")
	z, x, y, n := r[0], r[1], r[2], r[3]
	a.constant(6, 9, 0x01010101)
	a.label("loop")
	for i := range 2 {
		a.load(vreg(i), x, 16*i)
		a.load(vreg(2+i), y, 16*i)
		emit(vreg(i), vreg(2+i))
		a.narrowWords(4, vreg(i), i == 1)
	}
	a.narrowHalves(4, 4, false)
	a.and(4, 4, 6)
	a.storeLow(4, z, 0)
	a.next(n, map[xreg]int{x: 32, y: 32, z: 8})
	a.line("RET")
}

// neonRow writes a loop over a row. prepare sets constants, from register 8 on, and
// emit replaces the numbers of a register, of which there are four or, wide, two; it
// may use registers 1 to 7.
func neonRow(a *arm64, name string, wide bool, prepare func(), emit func(x vreg)) {
	r := a.function(name+"RowNEON", "sets z to a function of x; n is a multiple of 8.", "(z *float32, x *float32, n int)", "z", "x", "n")
	z, x, n := r[0], r[1], r[2]
	prepare()
	a.label("loop")
	for i := range 2 {
		if !wide {
			a.load(0, x, 16*i)
			emit(0)
			a.store(0, z, 16*i)
			continue
		}
		const in, out = vreg(30), vreg(31)
		a.load(in, x, 16*i)
		for _, upper := range []bool{false, true} {
			a.widenFloat(0, in, upper)
			emit(0)
			a.narrowDoubles(out, 0, upper)
		}
		a.store(out, z, 16*i)
	}
	a.next(n, map[xreg]int{x: 32, z: 32})
	a.line("RET")
}

func neonUnary(a *arm64) {
	f := lanes{arm64: a}
	e := neonExponential{lanes: f}
	nothing := func() {}
	one := func(o floatOp) func(vreg) { return func(x vreg) { f.op1(o, x, x) } }
	const ones = vreg(8)
	setOnes := func() { f.float(ones, 9, 1) }
	exps := func() { setOnes(); e.prepare() }
	for _, u := range []struct {
		name    string
		prepare func()
		emit    func(x vreg)
	}{
		{"neg", nothing, one(fneg)},
		{"abs", nothing, one(fabs)},
		{"square", nothing, func(x vreg) { f.op(fmul, x, x, x) }},
		{"sqrt", nothing, one(fsqrt)},
		{"rsqrt", setOnes, func(x vreg) {
			f.op1(fsqrt, x, x)
			f.op(fdiv, x, ones, x)
		}},
		{"log", func() { neonLogConstants(f) }, func(x vreg) { neonLog(f, x) }},
		{"exp", exps, e.emit},
		{"sigmoid", exps, func(x vreg) {
			f.op1(fneg, x, x)
			e.emit(x)
			f.op(fadd, x, x, ones)
			f.op(fdiv, x, ones, x)
		}},
		{"silu", e.prepareSiLU, e.silu},
		{"floor", nothing, one(frintm)},
		{"ceil", nothing, one(frintp)},
		{"round", nothing, one(frintn)},
	} {
		neonRow(a, u.name, false, u.prepare, u.emit)
	}
}

func neonConversions(a *arm64) {
	const widen, narrow = "(dst *float32, src *uint16, n int)", "(dst *uint16, src *float32, n int)"
	for _, w := range []struct {
		name, doc string
		emit      func(d, n vreg, upper bool)
	}{{"fromBF16NEON", "widens bfloat16 numbers; n is a multiple of 8.", a.widenBF16}, {"fromF16NEON", "widens binary16 numbers; n is a multiple of 8.", a.widenF16}} {
		r := a.function(w.name, w.doc, widen, "dst", "src", "n")
		a.label("loop")
		a.load(0, r[1], 0)
		for i, upper := range []bool{false, true} {
			w.emit(1, 0, upper)
			a.store(1, r[0], 16*i)
		}
		a.next(r[2], map[xreg]int{r[0]: 32, r[1]: 16})
		a.line("RET")
	}
	r := a.function("toF16NEON", "rounds to binary16 numbers; n is a multiple of 8.", narrow, "dst", "src", "n")
	a.label("loop")
	for i, upper := range []bool{false, true} {
		a.load(1, r[1], 16*i)
		a.narrowToF16(0, 1, upper)
	}
	a.store(0, r[0], 0)
	a.next(r[2], map[xreg]int{r[0]: 16, r[1]: 32})
	a.line("RET")

	r = a.function("toBF16NEON", "rounds to bfloat16 numbers; n is a multiple of 8.", narrow, "dst", "src", "n")
	f := lanes{arm64: a}
	const bits, up, odd, number = vreg(1), vreg(2), vreg(3), vreg(4)
	const one, round, quiet = vreg(8), vreg(9), vreg(10)
	a.constant(one, 9, 1)
	a.constant(round, 9, 0x7fff)
	a.constant(quiet, 9, 0x40)
	a.label("loop")
	for i, upper := range []bool{false, true} {
		a.load(bits, r[1], 16*i)
		f.right(up, bits, 16, false)
		a.and(odd, up, one)
		f.op(iadd, odd, odd, round)
		f.op(iadd, odd, odd, bits)
		f.right(odd, odd, 16, false)
		f.op(fcmeq, number, bits, bits)
		a.or(up, up, quiet)
		a.choose(number, odd, up)
		a.narrowWords(0, number, upper)
	}
	a.store(0, r[0], 0)
	a.next(r[2], map[xreg]int{r[0]: 16, r[1]: 32})
	a.line("RET")
}

// neonSums writes sums and largest numbers of a row, and what changes a row on the way.
func neonSums(a *arm64) {
	f := lanes{arm64: a}
	const total = vreg(6) // and 7
	r := a.function("sumLanesNEON", "sets sums to the sums of every eighth of x; n is a multiple of 8.", "(sums *float32, x *float32, n int)", "sums", "x", "n")
	a.zero(total)
	a.zero(total + 1)
	a.label("loop")
	for i := range vreg(2) {
		a.load(i, r[1], 16*int(i))
		f.op(fadd, total+i, total+i, i)
	}
	a.next(r[2], map[xreg]int{r[1]: 32})
	a.store(total, r[0], 0)
	a.store(total+1, r[0], 16)
	a.line("RET")

	largest := func(name, doc string, first float64, emit func(x vreg)) {
		r := a.function(name, doc, "(x *float32, n int, result *float32)", "x", "n", "result")
		f.float(total, 9, first)
		a.mov(total+1, total)
		a.label("loop")
		for i := range vreg(2) {
			a.load(i, r[0], 16*int(i))
			emit(i)
		}
		a.next(r[1], map[xreg]int{r[0]: 32})
		f.op(fmax, total, total, total+1)
		a.largestLane(total, total)
		a.storeFloat(total, r[2], 0)
		a.line("RET")
	}
	largest("maxNEON", "sets result to the largest of x, or NaN if there is one; n is a multiple of 8.", math.Inf(-1), func(x vreg) {
		f.op(fmax, total+x, total+x, x)
	})
	largest("largestNEON", "sets result to the largest magnitude of x except for NaNs; n is a multiple of 8.", 0, func(x vreg) {
		f.op1(fabs, x, x)
		f.op(fmaxnm, total+x, total+x, x)
	})

	r = a.function("scaleNEON", "multiplies dst by f; n is a multiple of 8.", "(dst *float32, n int, f *float32)", "dst", "n", "f")
	a.loadFloat(2, r[2], 0)
	a.label("loop")
	for i := range vreg(2) {
		a.load(i, r[0], 16*int(i))
		a.fmulFirst(i, i, 2)
		a.store(i, r[0], 16*int(i))
	}
	a.next(r[1], map[xreg]int{r[0]: 32})
	a.line("RET")
	neonExponentials(a)
}
