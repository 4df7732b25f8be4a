package main

import "fmt"

// neonFamily writes the forms for arm64.
func neonFamily(a *arm64) {
	for _, rows := range []int{2, 1} {
		for _, lanes := range []int{4, 8, 16} {
			neonCodeDots(a, true, lanes, rows)
		}
		for _, lanes := range []int{4, 8, 16, 32} {
			neonCodeDots(a, false, lanes, rows)
		}
	}
	for _, rows := range []int{6, 4, 2, 1} {
		neonPanelProduct(a, rows)
	}
	neonRows(a)
	neonMatrices(a)
	neonLimbs(a)
}

// neonCodeDots writes what codeDots writes for amd64. A block has four parts of
// four lanes.
func neonCodeDots(a *arm64, halves bool, groupLanes, rows int) {
	order, elements := "Natural", 64
	if halves {
		order, elements = "Halves", 128
	}
	r := a.function(fmt.Sprintf("codeDots%s%dx%dNEON", order, groupLanes, rows), "sets out to the products of x with count blocks of quantized rows.",
		"(out *float32, codes *byte, stride int, scales *float32, biases *float32, groups int, x *byte, count int, blocks int)",
		"out", "codes", "stride", "scales", "biases", "groups", "x", "count", "blocks")
	out, codes, stride, scales, biases, groups, x, count, blocks := r[0], r[1], r[2], r[3], r[4], r[5], r[6], r[7], r[8]
	const left = xreg(10) // blocks to go
	n := neonBlock{
		arm64: a, halves: halves, elements: elements, rows: rows, groupLanes: groupLanes,
		limbs: 9, code: 11, scale: 13, bias: 15, mask: 28, ones: 29, scale256: 30,
	}
	a.line("LSL $2, R%d, R%d", groups, groups)
	n.constants()
	a.label("rows")
	for _, p := range [][3]xreg{{n.code, codes, stride}, {n.scale, scales, groups}, {n.bias, biases, groups}} {
		a.line("MOVD R%d, R%d", p[1], p[0])
		if rows == 2 {
			a.line("ADD R%d, R%d, R%d", p[2], p[0], p[0]+1)
		}
	}
	a.line("MOVD R%d, R%d", x, n.limbs)
	a.line("MOVD R%d, R%d", blocks, left)
	for i := range rows {
		for part := range 4 {
			a.zero(n.total(i, part))
		}
	}
	a.label("block")
	added := n.group()
	a.line("SUBS $%d, R%d, R%d", added, left, left)
	a.line("BNE block")
	for i := range rows {
		n.store(i, out)
		for _, p := range [][2]xreg{{codes, stride}, {scales, groups}, {biases, groups}} {
			a.line("ADD R%d, R%d, R%d", p[1], p[0], p[0])
		}
	}
	a.line("ADD $%d, R%d, R%d", 4*rows, out, out)
	a.line("SUBS $1, R%d, R%d", count, count)
	a.line("BNE rows")
	a.line("RET")
}

// neonBlock writes what neonCodeDots does with a block.
type neonBlock struct {
	*arm64
	halves                     bool
	elements, rows, groupLanes int
	limbs                      xreg // of x
	code, scale, bias          xreg // pointers of the first row; the second's follow them
	mask, ones, scale256       vreg
}

// total is where the sums of a part of a row are.
func (n *neonBlock) total(row, part int) vreg { return vreg(4*row + part) }

// result is where dots leaves the sums of a row.
func (n *neonBlock) result(row int) vreg { return vreg(8 + row) }

func (n *neonBlock) constants() {
	const scratch = xreg(19)
	if n.halves {
		n.constant(n.mask, scratch, 0x0f0f0f0f)
		return
	}
	n.constant(n.mask, scratch, 0x80808080)
	n.constant(n.ones, scratch, 0x01010101)
	n.constant(n.scale256, scratch, 0x43800000) // 256
}

// group adds the blocks that share a scale and a bias, or one block, and returns how many.
func (n *neonBlock) group() (blocks int) {
	blocks = max(1, n.groupLanes/16)
	for range blocks {
		for part := range 4 {
			n.part(part)
		}
		for i := range n.rows {
			n.line("ADD $64, R%d, R%d", n.code+xreg(i), n.code+xreg(i))
		}
		n.line("ADD $%d, R%d, R%d", 3*n.elements+128, n.limbs, n.limbs)
	}
	for i := range n.rows {
		for _, first := range []xreg{n.scale, n.bias} {
			n.line("ADD $%d, R%d, R%d", max(4, 64/n.groupLanes), first+xreg(i), first+xreg(i))
		}
	}
	return blocks
}

// part adds a part of each row to its sums.
func (n *neonBlock) part(part int) {
	const powers, sums, scale, bias = vreg(24), vreg(25), vreg(26), vreg(27)
	n.dots(part)
	n.load(powers, n.limbs, 3*n.elements+16*part)
	n.load(sums, n.limbs, 3*n.elements+64+16*part)
	group := part * 4 / n.groupLanes * 4
	for i := range n.rows {
		n.loadFloat(scale, n.scale+xreg(i), group)
		n.loadFloat(bias, n.bias+xreg(i), group)
		n.fmulFirst(scale, powers, scale)
		n.fmla(n.total(i, part), n.result(i), scale)
		n.fmlaFirst(n.total(i, part), sums, bias)
	}
}

// store adds up the lanes of a row and writes the result.
func (n *neonBlock) store(row int, out xreg) {
	sum, other := n.total(row, 0), n.total(row, 1)
	n.fadd(sum, sum, n.total(row, 2))
	n.fadd(other, other, n.total(row, 3))
	n.faddp(sum, sum, other)
	n.faddp(sum, sum, sum)
	n.faddp(sum, sum, sum)
	n.storeFloat(sum, out, 4*row)
}

// first and second are where dots has the codes of a row: in halves the lower and the upper
// ones, else all of them in first, and other sums in second.
func (n *neonBlock) first(row int) vreg  { return vreg(10 + row) }
func (n *neonBlock) second(row int) vreg { return vreg(12 + row) }

// dots computes Σ code·n of the lanes of a part, as floats.
func (n *neonBlock) dots(part int) {
	for i := range n.rows {
		n.load(n.first(i), n.code+xreg(i), 16*part)
		if n.halves {
			n.shiftHalf(n.second(i), n.first(i))
			n.and(n.first(i), n.first(i), n.mask)
			n.zero(n.result(i))
			continue
		}
		n.eor(n.first(i), n.first(i), n.mask) // less 128, with a sign
	}
	if n.halves {
		n.dotsOfHalves(part)
	} else {
		n.dotsOfBytes(part)
	}
}

func (n *neonBlock) dotsOfHalves(part int) {
	const limb, other = vreg(22), vreg(23)
	for l := range 3 {
		n.load(limb, n.limbs, l*n.elements+16*part)
		n.load(other, n.limbs, l*n.elements+64+16*part)
		for i := range n.rows {
			if l > 0 {
				n.shiftLeft(n.result(i), n.result(i), 8)
			}
			n.sdot(n.result(i), n.first(i), limb)
			n.sdot(n.result(i), n.second(i), other)
		}
	}
	for i := range n.rows {
		n.scvtf(n.result(i), n.result(i))
	}
}

func (n *neonBlock) dotsOfBytes(part int) {
	const limb, more = vreg(22), vreg(14) // more: 128·Σ limb, which the codes lack
	low := n.second
	for l := range 3 {
		n.load(limb, n.limbs, l*n.elements+16*part)
		n.zero(more)
		n.sdot(more, limb, n.ones)
		n.shiftLeft(more, more, 7)
		for i := range n.rows {
			sum := n.result(i)
			switch l {
			case 0:
				n.mov(sum, more)
			case 1:
				n.shiftLeft(sum, sum, 8)
				n.add(sum, sum, more)
			case 2:
				sum = low(i)
				n.mov(sum, more)
			}
			n.sdot(sum, n.first(i), limb)
		}
	}
	for i := range n.rows {
		n.scvtf(n.result(i), n.result(i))
		n.scvtf(low(i), low(i))
		n.fmla(low(i), n.result(i), n.scale256)
		n.mov(n.result(i), low(i))
	}
}

// neonPanelProduct writes what panelProduct writes for amd64, for panels of 16
// columns.
func neonPanelProduct(a *arm64, rows int) {
	r := a.function(fmt.Sprintf("panelProduct%dNEON", rows), "sets rows of C, or if add is not 0 increases them, by rows of A times a panel of B of k rows; strides are in floats.",
		"(c *float32, ldc int, a *float32, lda int, b *float32, k int, add int)", "c", "ldc", "a", "lda", "b", "k", "add")
	c, ldc, as, lda, b, k, add := r[0], r[1], r[2], r[3], r[4], r[5], r[6]
	at := func(first xreg, i int) xreg { return first + xreg(i) }
	const cRow, aRow = xreg(7), xreg(19) // one register for each row but the first
	acc := func(i, j int) vreg { return vreg(4*i + j) }
	const bs, f = vreg(24), vreg(28)
	rowOf := func(base, others xreg, i int) xreg {
		if i == 0 {
			return base
		}
		return at(others, i-1)
	}
	for i := 1; i < rows; i++ {
		if i == 1 {
			a.line("LSL $2, R%d, R%d", ldc, ldc)
			a.line("LSL $2, R%d, R%d", lda, lda)
		}
		a.line("ADD R%d, R%d, R%d", ldc, rowOf(c, cRow, i-1), rowOf(c, cRow, i))
		a.line("ADD R%d, R%d, R%d", lda, rowOf(as, aRow, i-1), rowOf(as, aRow, i))
	}
	for i := range rows {
		for j := range 4 {
			a.zero(acc(i, j))
		}
	}
	a.line("CBZ R%d, start", add)
	for i := range rows {
		for j := range 4 {
			a.load(acc(i, j), rowOf(c, cRow, i), 16*j)
		}
	}
	a.label("start")
	a.label("loop")
	for j := range vreg(4) {
		a.load(bs+j, b, 16*int(j))
	}
	a.line("ADD $64, R%d, R%d", b, b)
	for i := range rows {
		a.loadFloat(f+vreg(i%4), rowOf(as, aRow, i), 0)
		a.line("ADD $4, R%d, R%d", rowOf(as, aRow, i), rowOf(as, aRow, i))
		for j := range 4 {
			a.fmlaFirst(acc(i, j), bs+vreg(j), f+vreg(i%4))
		}
	}
	a.line("SUBS $1, R%d, R%d", k, k)
	a.line("BNE loop")
	for i := range rows {
		for j := range 4 {
			a.store(acc(i, j), rowOf(c, cRow, i), 16*j)
		}
	}
	a.line("RET")
}
