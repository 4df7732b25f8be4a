package main

import "fmt"

// neonLimbs writes the functions that make limbs from floats, and codes from a stream
// of bits, as limbsFamily and unpackFamily do for amd64.
func neonLimbs(a *arm64) {
	for _, halves := range []bool{false, true} {
		neonPrepareLimbs(a, halves)
	}
	neonUnpack(a, false)
	neonUnpack(a, true)
}

// Registers of neonPrepareLimbs. The numbers of a unit are in V0 to V7.
const (
	limbSpare    vreg = 8 // and 7 more
	limbMost     vreg = 16
	limbUp       vreg = 17
	limbDown     vreg = 18
	limbNone     vreg = 19
	limbLargest  vreg = 20
	limbSmallest vreg = 21 // 22
	limbUpFrom   vreg = 22 // 275
	limbDownFrom vreg = 23 // 21
	limbDigits   vreg = 24 // 0x808080
)

// neonPrepareLimbs makes units of 32 numbers, of which a block has two or four.
func neonPrepareLimbs(a *arm64, halves bool) {
	order, elements := "Natural", 64
	if halves {
		order, elements = "Halves", 128
	}
	r := a.function(fmt.Sprintf("prepareLimbs%sNEON", order), "makes the limbs of blocks of x, and sets largest to the largest of their absolute values' bits.",
		"(out *byte, x *float32, blocks int, largest *uint32)", "out", "x", "blocks", "largest")
	out, x, blocks, largest := r[0], r[1], r[2], r[3]
	const scratch = xreg(9)
	a.zero(limbLargest)
	for _, c := range []struct {
		d    vreg
		bits uint32
	}{{limbSmallest, 22}, {limbUpFrom, 275}, {limbDownFrom, 21}, {limbDigits, 0x00808080}} {
		a.constant(c.d, scratch, c.bits)
	}
	n := neonUnit{lanes: lanes{arm64: a}, halves: halves, elements: elements, out: out}
	a.label("block")
	for unit := range elements / 32 {
		for i := range vreg(8) {
			a.load(i, x, 4*32*unit+16*int(i))
		}
		n.toIntegers()
		n.laneSums(unit)
		n.planes(unit)
	}
	a.line("ADD $%d, R%d, R%d", 4*elements, x, x)
	a.line("ADD $%d, R%d, R%d", 3*elements+128, out, out)
	a.line("SUBS $1, R%d, R%d", blocks, blocks)
	a.line("BNE block")
	a.largestWord(limbLargest, limbLargest)
	a.storeFloat(limbLargest, largest, 0)
	a.line("RET")
}

// neonUnit writes what neonPrepareLimbs does with a unit.
type neonUnit struct {
	lanes
	halves   bool
	elements int
	out      xreg
}

// toIntegers replaces the numbers by integers; limbDown is then the power of two that
// they share. See simd.unitPower.
func (n *neonUnit) toIntegers() {
	for i := range vreg(8) {
		if i == 0 {
			n.op1(fabs, limbMost, i)
			continue
		}
		n.op1(fabs, limbSpare, i)
		n.op(umax, limbMost, limbMost, limbSpare)
	}
	n.op(umax, limbLargest, limbLargest, limbMost)
	n.largestWord(limbMost, limbMost)
	n.spread(limbMost, limbMost)
	n.isZero(limbNone, limbMost)
	n.right(limbMost, limbMost, 23, false)
	n.op(umax, limbMost, limbMost, limbSmallest)
	n.op(isub, limbUp, limbUpFrom, limbMost)
	n.left(limbUp, limbUp, 23)
	n.op(isub, limbDown, limbMost, limbDownFrom)
	n.left(limbDown, limbDown, 23)
	n.clear(limbDown, limbDown, limbNone)
	for i := range vreg(8) {
		n.op(fmul, i, i, limbUp)
		n.op1(fcvtns, i, i)
	}
}

// laneSums writes the power and the sum of each lane of a unit.
func (n *neonUnit) laneSums(unit int) {
	at := 3 * n.elements
	var sums [2]vreg
	for half := range vreg(2) {
		first := limbSpare + 2*half
		n.op(addp, first, 4*half, 4*half+1)
		n.op(addp, first+1, 4*half+2, 4*half+3)
		n.op(addp, first, first, first+1)
		sums[half] = first
	}
	count := 2
	if n.halves {
		n.op(addp, sums[0], sums[0], sums[1])
		count = 1
	}
	for i := range count {
		n.op1(scvtf, sums[i], sums[i])
		n.op(fmul, sums[i], sums[i], limbDown)
		to := at + 16*(count*unit+i)
		n.store(limbDown, n.out, to)
		n.store(sums[i], n.out, to+64)
	}
}

// planes writes the limbs of a unit.
func (n *neonUnit) planes(unit int) {
	for i := range vreg(8) {
		// Digits from -128 to 127: those of n + 0x808080, each less 0x80.
		n.op(iadd, i, i, limbDigits)
		n.eor(i, i, limbDigits)
	}
	const low, high = limbSpare, limbSpare + 4 // two registers each
	var planes [3][2]vreg
	for half := range vreg(2) {
		first := 4 * half
		for i := range vreg(2) {
			n.evenHalves(low+i, first+2*i, first+2*i+1)
			n.oddHalves(high+i, first+2*i, first+2*i+1)
		}
		n.evenBytes(first, high, high+1)
		n.oddBytes(first+1, low, low+1)
		n.evenBytes(first+2, low, low+1)
		for limb := range planes {
			planes[limb][half] = first + vreg(limb)
		}
	}
	for limb, p := range planes {
		at := limb * n.elements
		if n.halves {
			n.evenBytes(low, p[0], p[1])
			n.oddBytes(low+1, p[0], p[1])
			n.store(low, n.out, at+16*unit)
			n.store(low+1, n.out, at+64+16*unit)
			continue
		}
		for half := range p {
			n.store(p[half], n.out, at+32*unit+16*half)
		}
	}
}

// neonUnpack moves the two bytes that hold a code to 16 bits, and shifts it from there.
func neonUnpack(a *arm64, table bool) {
	name, doc := "unpackCodesNEON", "writes codes as bytes, 16 times count of them. It may read 16 bytes further than the codes."
	if table {
		name, doc = "unpackTableNEON", "writes numbers of a table in place of codes, as bytes, 16 times count of them. It may read 16 bytes further than the codes."
	}
	r := a.function(name, doc, "(dst *byte, codes *byte, count int, step int, control *byte)", "dst", "codes", "count", "step", "control")
	dst, codes, count, step, control := r[0], r[1], r[2], r[3], r[4]
	const x, bytes, shifts, mask, numbers = vreg(0), vreg(4), vreg(6), vreg(8), vreg(9)
	for half := range vreg(2) {
		a.load(bytes+half, control, 16*int(half))
		a.load(shifts+half, control, 32+16*int(half))
	}
	a.load(mask, control, 64)
	if table {
		a.load(numbers, control, 80)
	}
	a.label("loop")
	a.load(x, codes, 0)
	for half := range vreg(2) {
		a.look(x+1+half, x, bytes+half)
		a.shiftHalves(x+1+half, x+1+half, shifts+half)
	}
	a.evenBytes(x, x+1, x+2)
	a.and(x, x, mask)
	if table {
		a.look(x, numbers, x)
	}
	a.store(x, dst, 0)
	a.line("ADD R%d, R%d, R%d", step, codes, codes)
	a.line("ADD $16, R%d, R%d", dst, dst)
	a.line("SUBS $1, R%d, R%d", count, count)
	a.line("BNE loop")
	a.line("RET")
}
