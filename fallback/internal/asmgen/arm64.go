package main

import (
	"fmt"
	"math"
)

// arm64 writes assembly for arm64, which avo does not know. Go's assembler lacks
// many vector instructions, so these are words, with a comment that names them.
type arm64 struct{ source }

// xreg and vreg number general and vector registers.
type (
	xreg int
	vreg int
)

// function begins a function whose parameters are loaded into registers from R0
// on, in order. All are 8 bytes long.
func (a *arm64) function(name, doc, signature string, params ...string) []xreg {
	a.begin(name, doc, signature, len(params))
	regs := make([]xreg, len(params))
	for i, p := range params {
		regs[i] = xreg(i)
		a.line("MOVD %s+%d(FP), R%d", p, 8*i, i)
	}
	return regs
}

func (a *arm64) word(code uint32, format string, args ...any) {
	a.line("WORD $0x%08x // %s", code, fmt.Sprintf(format, args...))
}

func (a *arm64) three(code uint32, name, shape string, d, n, m vreg) {
	a.word(code|uint32(m)<<16|uint32(n)<<5|uint32(d), "%s v%d.%s, v%d.%s, v%d.%s", name, d, shape, n, shape, m, shape)
}

func (a *arm64) two(code uint32, name string, d, n vreg) {
	a.word(code|uint32(n)<<5|uint32(d), "%s v%d, v%d", name, d, n)
}

func (a *arm64) zero(d vreg)        { a.three(0x6e201c00, "eor", "16b", d, d, d) }
func (a *arm64) and(d, n, m vreg)   { a.three(0x4e201c00, "and", "16b", d, n, m) }
func (a *arm64) eor(d, n, m vreg)   { a.three(0x6e201c00, "eor", "16b", d, n, m) }
func (a *arm64) add(d, n, m vreg)   { a.three(0x4ea08400, "add", "4s", d, n, m) }
func (a *arm64) fadd(d, n, m vreg)  { a.three(0x4e20d400, "fadd", "4s", d, n, m) }
func (a *arm64) faddp(d, n, m vreg) { a.three(0x6e20d400, "faddp", "4s", d, n, m) }
func (a *arm64) fmla(d, n, m vreg)  { a.three(0x4e20cc00, "fmla", "4s", d, n, m) }
func (a *arm64) scvtf(d, n vreg)    { a.two(0x4e21d800, "scvtf.4s", d, n) }
func (a *arm64) mov(d, n vreg)      { a.three(0x4ea01c00, "orr", "16b", d, n, n) }
func (a *arm64) or(d, n, m vreg)    { a.three(0x4ea01c00, "orr", "16b", d, n, m) }
func (a *arm64) not(d, n vreg)      { a.two(0x6e205800, "mvn.16b", d, n) }

// choose sets d, whose bits are a mask, to those of n where they are set, else to
// those of m.
func (a *arm64) choose(d, n, m vreg) { a.three(0x6e601c00, "bsl", "16b", d, n, m) }

// floatOp is an instruction for float32 numbers; the same with another bit is for
// float64 numbers.
type floatOp struct {
	code uint32
	name string
}

var (
	fsub   = floatOp{0x4ea0d400, "fsub"}
	fadd   = floatOp{0x4e20d400, "fadd"}
	fmul   = floatOp{0x6e20dc00, "fmul"}
	fdiv   = floatOp{0x6e20fc00, "fdiv"}
	fmla   = floatOp{0x4e20cc00, "fmla"}
	fmls   = floatOp{0x4ea0cc00, "fmls"}
	fmax   = floatOp{0x4e20f400, "fmax"} // a NaN, if there is one
	fmin   = floatOp{0x4ea0f400, "fmin"}
	fmaxnm = floatOp{0x4e20c400, "fmaxnm"} // the other, if one is a NaN
	fcmeq  = floatOp{0x4e20e400, "fcmeq"}
	fcmge  = floatOp{0x6e20e400, "fcmge"}
	fcmgt  = floatOp{0x6ea0e400, "fcmgt"}
	iadd   = floatOp{0x4ea08400, "add"}
	isub   = floatOp{0x6ea08400, "sub"}
	addp   = floatOp{0x4ea0bc00, "addp"}
	umax   = floatOp{0x6ea06400, "umax"} // not of 64 bits

	fneg   = floatOp{0x6ea0f800, "fneg"}
	fabs   = floatOp{0x4ea0f800, "fabs"}
	fsqrt  = floatOp{0x6ea1f800, "fsqrt"}
	frintn = floatOp{0x4e218800, "frintn"} // to even
	frintm = floatOp{0x4e219800, "frintm"} // down
	frintp = floatOp{0x4ea18800, "frintp"} // up
	fcvtns = floatOp{0x4e21a800, "fcvtns"} // to integers
	scvtf  = floatOp{0x4e21d800, "scvtf"}  // from integers
)

// lanes are those of float32 or of float64 numbers.
type lanes struct {
	*arm64
	wide bool
}

func (l lanes) shape() string {
	if l.wide {
		return "2d"
	}
	return "4s"
}

func (l lanes) code(o floatOp) uint32 {
	switch {
	case !l.wide:
		return o.code
	case o == iadd || o == isub:
		return o.code | 0xe00000
	}
	return o.code | 0x400000
}

// op is d = n o m, op1 is d = o n.
func (l lanes) op(o floatOp, d, n, m vreg) { l.three(l.code(o), o.name, l.shape(), d, n, m) }
func (l lanes) op1(o floatOp, d, n vreg)   { l.two(l.code(o), o.name+"."+l.shape(), d, n) }

// left and right shift, right with the sign if it is an arithmetic shift.
func (l lanes) left(d, n vreg, bits int) { l.shift(0x4f005400, "shl", d, n, l.size()+bits) }
func (l lanes) right(d, n vreg, bits int, arithmetic bool) {
	if arithmetic {
		l.shift(0x4f000400, "sshr", d, n, 2*l.size()-bits)
		return
	}
	l.shift(0x6f000400, "ushr", d, n, 2*l.size()-bits)
}

func (l lanes) size() int {
	if l.wide {
		return 64
	}
	return 32
}

func (l lanes) shift(code uint32, name string, d, n vreg, immediate int) {
	l.word(code|uint32(immediate)<<16|uint32(n)<<5|uint32(d), "%s v%d.%s, v%d.%s, immh:immb %d", name, d, l.shape(), n, l.shape(), immediate)
}

// float sets every lane to a number, and bits to a word.
func (l lanes) float(d vreg, scratch xreg, f float64) {
	if l.wide {
		l.bits(d, scratch, math.Float64bits(f))
		return
	}
	l.bits(d, scratch, uint64(math.Float32bits(float32(f))))
}

func (l lanes) bits(d vreg, scratch xreg, bits uint64) {
	if !l.wide {
		l.constant(d, scratch, uint32(bits))
		return
	}
	l.line("MOVD $%#x, R%d", bits, scratch)
	l.line("VDUP R%d, V%d.D2", scratch, d)
}

// Conversions of the four or two numbers of a half of a vector; upper is of the
// second half.
func (a *arm64) half(code uint32, name string, d, n vreg, upper bool) {
	if upper {
		code, name = code|1<<30, name+"2"
	}
	a.two(code, name, d, n)
}

func (a *arm64) narrowWords(d, n vreg, upper bool)   { a.half(0x0e612800, "xtn.4h", d, n, upper) }
func (a *arm64) narrowHalves(d, n vreg, upper bool)  { a.half(0x0e212800, "xtn.8b", d, n, upper) }
func (a *arm64) widenBF16(d, n vreg, upper bool)     { a.half(0x2e613800, "shll.4s", d, n, upper) }
func (a *arm64) widenF16(d, n vreg, upper bool)      { a.half(0x0e217800, "fcvtl.4s", d, n, upper) }
func (a *arm64) narrowToF16(d, n vreg, upper bool)   { a.half(0x0e216800, "fcvtn.4h", d, n, upper) }
func (a *arm64) widenFloat(d, n vreg, upper bool)    { a.half(0x0e617800, "fcvtl.2d", d, n, upper) }
func (a *arm64) narrowDoubles(d, n vreg, upper bool) { a.half(0x0e616800, "fcvtn.2s", d, n, upper) }

// largestLane sets the first lane of d to the largest number of n, or a NaN.
func (a *arm64) largestLane(d, n vreg) { a.two(0x6e30f800, "fmaxv", d, n) }

// largestWord sets the first lane of d to the largest unsigned number of n, and spread
// all lanes to the first of n. isZero sets the lanes that are 0 to -1, and clear those
// of m's bits that are set to 0.
func (a *arm64) largestWord(d, n vreg) { a.two(0x6eb0a800, "umaxv.4s", d, n) }
func (a *arm64) spread(d, n vreg)      { a.two(0x4e040400, "dup.4s lane 0", d, n) }
func (a *arm64) isZero(d, n vreg)      { a.two(0x4ea09800, "cmeq.4s #0", d, n) }
func (a *arm64) clear(d, n, m vreg)    { a.three(0x4e601c00, "bic", "16b", d, n, m) }

// Every second of the 16-bit numbers, or of the bytes, of n and then m.
func (a *arm64) evenHalves(d, n, m vreg) { a.three(0x4e401800, "uzp1", "8h", d, n, m) }
func (a *arm64) oddHalves(d, n, m vreg)  { a.three(0x4e405800, "uzp2", "8h", d, n, m) }
func (a *arm64) evenBytes(d, n, m vreg)  { a.three(0x4e001800, "uzp1", "16b", d, n, m) }
func (a *arm64) oddBytes(d, n, m vreg)   { a.three(0x4e005800, "uzp2", "16b", d, n, m) }

// look sets byte i of d to byte m[i] of n, and shiftHalves shifts 16-bit numbers to
// the left by the numbers of bits in m, which are negative for shifts to the right.
func (a *arm64) look(d, n, m vreg)        { a.three(0x4e000000, "tbl", "16b", d, n, m) }
func (a *arm64) shiftHalves(d, n, m vreg) { a.three(0x6e604400, "ushl", "8h", d, n, m) }

// storeLow stores 8 bytes.
func (a *arm64) storeLow(d vreg, base xreg, disp int) {
	a.memory(0xfd000000, "str d", d, base, disp, 8)
}

// sdot adds, to each lane of d, four products of signed bytes.
func (a *arm64) sdot(d, n, m vreg) { a.three(0x4e809400, "sdot", "16b", d, n, m) }

// fmulFirst and fmlaFirst multiply by the first lane of m.
func (a *arm64) fmulFirst(d, n, m vreg) { a.three(0x4f809000, "fmul by lane 0", "4s", d, n, m) }
func (a *arm64) fmlaFirst(d, n, m vreg) { a.three(0x4f801000, "fmla by lane 0", "4s", d, n, m) }

// shiftLeft shifts dwords, shiftHalf bytes by four bits to the right.
func (a *arm64) shiftLeft(d, n vreg, bits int) {
	a.word(0x4f005400|uint32(32+bits)<<16|uint32(n)<<5|uint32(d), "shl v%d.4s, v%d.4s, #%d", d, n, bits)
}
func (a *arm64) shiftHalf(d, n vreg) {
	a.word(0x6f0c0400|uint32(n)<<5|uint32(d), "ushr v%d.16b, v%d.16b, #4", d, n)
}

// load and store move 16 bytes, loadFloat and storeFloat 4.
func (a *arm64) load(d vreg, base xreg, disp int)  { a.memory(0x3dc00000, "ldr q", d, base, disp, 16) }
func (a *arm64) store(d vreg, base xreg, disp int) { a.memory(0x3d800000, "str q", d, base, disp, 16) }
func (a *arm64) loadFloat(d vreg, base xreg, disp int) {
	a.memory(0xbd400000, "ldr s", d, base, disp, 4)
}
func (a *arm64) storeFloat(d vreg, base xreg, disp int) {
	a.memory(0xbd000000, "str s", d, base, disp, 4)
}

func (a *arm64) memory(code uint32, name string, d vreg, base xreg, disp, size int) {
	a.word(code|uint32(disp/size)<<10|uint32(base)<<5|uint32(d), "%s%d, [x%d, #%d]", name, d, base, disp)
}

// constant sets every dword.
func (a *arm64) constant(d vreg, scratch xreg, bits uint32) {
	a.line("MOVD $%#x, R%d", bits, scratch)
	a.line("VDUP R%d, V%d.S4", scratch, d)
}
