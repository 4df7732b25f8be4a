// Command asmgen writes the assembly of package simd. Run it with go generate
// in that package.
package main

import (
	"flag"
	"fmt"
	"log"
	"os"
	"regexp"
	"strconv"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// isa is an instruction set with vectors of lanes float32 numbers.
type isa struct {
	name  string
	lanes int
}

var (
	avx2   = isa{"AVX2", 8}
	avx512 = isa{"AVX512", 16}
)

func (v isa) wide() bool { return v.lanes == 16 }

// vec allocates a vector register.
func (v isa) vec() reg.VecVirtual {
	if v.wide() {
		return ZMM()
	}
	return YMM()
}

// vecs allocates n vector registers.
func (v isa) vecs(n int) []reg.VecVirtual {
	out := make([]reg.VecVirtual, n)
	for i := range out {
		out[i] = v.vec()
	}
	return out
}

// zero clears a register.
func (v isa) zero(r reg.VecVirtual) {
	if v.wide() {
		VPXORD(r, r, r)
		return
	}
	VXORPS(r, r, r)
}

// bytes is the size of a vector.
func (v isa) bytes() int { return 4 * v.lanes }

// halve adds the upper half of a wide vector to its lower and returns that.
func (v isa) halve(r reg.VecVirtual) reg.VecVirtual {
	if !v.wide() {
		return r
	}
	upper := YMM()
	VEXTRACTF64X4(U8(1), r, upper)
	low := r.AsY().(reg.VecVirtual)
	VADDPS(upper, low, low)
	return low
}

// sum adds all lanes of r into the first lane of the result. sum, sum2 and sum4
// add in the same order, so that a result does not depend on how many are
// computed together: views and their copies give the same bits.
func (v isa) sum(r reg.VecVirtual) reg.VecVirtual {
	y := v.halve(r)
	VHADDPS(y, y, y)
	VHADDPS(y, y, y)
	return v.addUpper(y)
}

// sum2 adds the lanes of each of two registers into the first two of the result.
func (v isa) sum2(a, b reg.VecVirtual) reg.VecVirtual {
	a, b = v.halve(a), v.halve(b)
	VHADDPS(b, a, a)
	VHADDPS(a, a, a)
	return v.addUpper(a)
}

// addUpper adds the upper four lanes to the lower.
func (v isa) addUpper(y reg.VecVirtual) reg.VecVirtual {
	upper := XMM()
	if v.wide() {
		VEXTRACTF32X4(U8(1), y, upper) // reaches all registers
	} else {
		VEXTRACTF128(U8(1), y, upper)
	}
	x := y.AsX().(reg.VecVirtual)
	VADDPS(upper, x, x)
	return x
}

// sum4 adds the lanes of each of four registers into the lanes of the result.
func (v isa) sum4(r []reg.VecVirtual) reg.VecVirtual {
	a, b, c, d := v.halve(r[0]), v.halve(r[1]), v.halve(r[2]), v.halve(r[3])
	VHADDPS(b, a, a)
	VHADDPS(d, c, c)
	VHADDPS(c, a, a)
	return v.addUpper(a)
}

// mask makes loads and stores of the first n lanes only, n < lanes.
type mask struct {
	isa isa
	k   reg.OpmaskVirtual
	y   reg.VecVirtual
}

// tailMask loads the mask of n lanes.
func (v isa) tailMask(n reg.GPVirtual) mask {
	m := mask{isa: v}
	if v.wide() {
		m.k = K()
		bits := GP64()
		Comment("Mask of the lanes of the tail")
		MOVQ(I64(-1), bits)
		bzhi := GP64()
		BZHIQ(n, bits, bzhi)
		KMOVW(bzhi.As32(), m.k)
		return m
	}
	m.y = YMM()
	table, at := GP64(), GP64()
	Comment("Mask of the lanes of the tail")
	LEAQ(laneMasks(), table)
	MOVQ(n, at)
	NEGQ(at)
	VMOVUPS(Mem{Base: table, Index: at, Scale: 4, Disp: 32}, m.y)
	return m
}

func (m mask) load(from Mem, to reg.VecVirtual) {
	if m.isa.wide() {
		VMOVUPS_Z(from, m.k, to)
		return
	}
	VMASKMOVPS(from, m.y, to)
}

func (m mask) store(from reg.VecVirtual, to Mem) {
	if m.isa.wide() {
		VMOVUPS(from, m.k, to)
		return
	}
	VMASKMOVPS(from, m.y, to)
}

var laneMaskTable *Mem

// laneMasks is 8 dwords of ones, then 8 of zeros.
func laneMasks() Mem {
	if laneMaskTable == nil {
		table := GLOBL("lanemasks", 8|16) // RODATA|NOPTR
		for i := range 16 {
			ones := U32(0)
			if i < 8 {
				ones = 0xffffffff
			}
			DATA(4*i, ones)
		}
		laneMaskTable = &table
	}
	return *laneMaskTable
}

// arg loads a pointer or an int parameter.
func arg(name string) reg.GPVirtual { return Load(Param(name), GP64()).(reg.GPVirtual) }

// slot is where a parameter lies: registers are few, and what is used once per
// block of rows can stay in memory.
func slot(name string) Mem {
	basic, err := Param(name).Resolve()
	if err != nil {
		panic(err)
	}
	return basic.Addr
}

// scaled loads an int parameter and multiplies it by 4: floats to bytes.
func scaled(name string) reg.GPVirtual {
	r := arg(name)
	SHLQ(U8(2), r)
	return r
}

// rowAt gives the operand that lies disp bytes behind the beginning of a row.
type rowAt func(row, disp int) Mem

// rowPointers makes operands for rows 0 to n-1 that lie stride bytes apart.
func rowPointers(base, stride reg.GPVirtual, n int) rowAt {
	var triple reg.GPVirtual
	if n > 3 {
		triple = tripled(stride)
	}
	return rowsAt(base, stride, triple)
}

func tripled(stride reg.GPVirtual) reg.GPVirtual {
	triple := GP64()
	LEAQ(Mem{Base: stride, Index: stride, Scale: 2}, triple)
	return triple
}

// rowsAt is rowPointers with three times the stride at hand.
func rowsAt(base, stride, triple reg.GPVirtual) rowAt {
	return func(row, disp int) Mem {
		switch row {
		case 0:
			return Mem{Base: base, Disp: disp}
		case 3:
			return Mem{Base: base, Index: triple, Scale: 1, Disp: disp}
		}
		return Mem{Base: base, Index: stride, Scale: uint8(row), Disp: disp}
	}
}

// families are the files that are generated, each from a file of its own here.
var families = map[string]func(){
	"codedots":    codeDotsFamily,
	"elementwise": elementwiseFamily,
	"gemm":        gemmFamily,
	"kernels":     kernels,
	"limbs":       limbsFamily,
	"unpack":      unpackFamily,
}

func main() {
	family := flag.String("family", "", "which functions to write")
	flag.Parse()
	out := flag.Lookup("out").Value.String()
	stubs := flag.Lookup("stubs").Value.String()
	switch *family {
	case "neon":
		var a arm64
		neonFamily(&a)
		check(a.write(out, stubs))
		return
	case "amx":
		var a amx
		amxFamily(&a)
		check(a.write(out, stubs))
		return
	}
	ConstraintExpr("amd64")
	families[*family]()
	Generate()
	check(encodeVEX(out))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

var dot256 = regexp.MustCompile(`VPDPBUSD +Y(\d+), Y(\d+), Y(\d+)`)

// encodeVEX writes VPDPBUSD of 256 bits as bytes: AVX-VNNI encodes it otherwise
// than AVX-512, and Go's assembler knows only the latter.
func encodeVEX(path string) error {
	source, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	source = dot256.ReplaceAllFunc(source, func(line []byte) []byte {
		var r [3]byte
		for i, digits := range dot256.FindSubmatch(line)[1:] {
			n, _ := strconv.Atoi(string(digits))
			r[i] = byte(n)
		}
		signed, unsigned, sum := r[0], r[1], r[2]
		second := byte(0x02) | 0x40 | (^sum>>3&1)<<7 | (^signed>>3&1)<<5
		third := (^unsigned&15)<<3 | 0x04 | 0x01
		modRM := 0xc0 | (sum&7)<<3 | signed&7
		return fmt.Appendf(nil, "BYTE $0xc4; BYTE $%#02x; BYTE $%#02x; BYTE $0x50; BYTE $%#02x // {vex} %s", second, third, modRM, line)
	})
	return os.WriteFile(path, source, 0o644)
}

func kernels() {
	for _, v := range []isa{avx2, avx512} {
		dots(v, 4, v.lanes/4) // as large a tile as the registers hold
		dots(v, 1, 4)
		for _, rows := range []int{4, 1} {
			dots(v, rows, 1)
			mulAdd(v, rows, 8/rows, false)
			mulAdd(v, rows, 1, true)
		}
		dequantize(v)
	}
	conversions()
	exponentials()
}

func text(doc, format string, args ...any) func(signature string) {
	name := fmt.Sprintf(format, args...)
	return func(signature string) {
		TEXT(name, 4, "func"+signature) // NOSPLIT
		Doc(name + " " + doc)
		Pragma("noescape")
	}
}
