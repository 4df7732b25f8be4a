package main

import "fmt"

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
