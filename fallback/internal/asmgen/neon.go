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
	const (
		limbs, left          = xreg(9), xreg(10) // x, and blocks to go
		scratch              = xreg(19)
		mask, ones, twoFifty = vreg(28), vreg(29), vreg(30)
	)
	row := func(first xreg, i int) xreg { return first + xreg(i) }
	code, scale, bias := xreg(11), xreg(13), xreg(15) // pointers of up to two rows
	total := func(i, part int) vreg { return vreg(4*i + part) }
	a.line("LSL $2, R%d, R%d", groups, groups)
	if halves {
		a.constant(mask, scratch, 0x0f0f0f0f)
	} else {
		a.constant(mask, scratch, 0x80808080)
		a.constant(ones, scratch, 0x01010101)
		a.constant(twoFifty, scratch, 0x43800000) // 256
	}
	a.label("rows")
	for _, p := range [][3]xreg{{code, codes, stride}, {scale, scales, groups}, {bias, biases, groups}} {
		a.line("MOVD R%d, R%d", p[1], p[0])
		if rows == 2 {
			a.line("ADD R%d, R%d, R%d", p[2], p[0], p[0]+1)
		}
	}
	a.line("MOVD R%d, R%d", x, limbs)
	a.line("MOVD R%d, R%d", blocks, left)
	for i := range rows {
		for part := range 4 {
			a.zero(total(i, part))
		}
	}
	a.label("block")
	n := neonBlock{arm64: a, halves: halves, elements: elements, rows: rows, limbs: limbs, mask: mask, ones: ones, scale256: twoFifty}
	times := 1
	if groupLanes == 32 {
		times = 2
	}
	for range times {
		for part := range 4 {
			n.dots(part, func(i int) xreg { return row(code, i) })
			a.load(24, limbs, 3*elements+16*part)    // powers
			a.load(25, limbs, 3*elements+64+16*part) // sums
			group := part * 4 / groupLanes * 4
			for i := range rows {
				a.loadFloat(26, row(scale, i), group)
				a.loadFloat(27, row(bias, i), group)
				a.fmulFirst(26, 24, 26)
				a.fmla(total(i, part), n.result(i), 26)
				a.fmlaFirst(total(i, part), 25, 27)
			}
		}
		bytes := 64
		for i := range rows {
			a.line("ADD $%d, R%d, R%d", bytes, row(code, i), row(code, i))
		}
		a.line("ADD $%d, R%d, R%d", 3*elements+128, limbs, limbs)
	}
	for i := range rows {
		a.line("ADD $%d, R%d, R%d", max(4, 64/groupLanes), row(scale, i), row(scale, i))
		a.line("ADD $%d, R%d, R%d", max(4, 64/groupLanes), row(bias, i), row(bias, i))
	}
	a.line("SUBS $%d, R%d, R%d", times, left, left)
	a.line("BNE block")
	for i := range rows {
		a.fadd(total(i, 0), total(i, 0), total(i, 2))
		a.fadd(total(i, 1), total(i, 1), total(i, 3))
		for _, pair := range [][2]vreg{{total(i, 0), total(i, 1)}, {total(i, 0), total(i, 0)}, {total(i, 0), total(i, 0)}} {
			a.faddp(total(i, 0), pair[0], pair[1])
		}
		a.storeFloat(total(i, 0), out, 4*i)
		for _, p := range [][2]xreg{{codes, stride}, {scales, groups}, {biases, groups}} {
			a.line("ADD R%d, R%d, R%d", p[1], p[0], p[0])
		}
	}
	a.line("ADD $%d, R%d, R%d", 4*rows, out, out)
	a.line("SUBS $1, R%d, R%d", count, count)
	a.line("BNE rows")
	a.line("RET")
}

// neonBlock writes the integer part of neonCodeDots.
type neonBlock struct {
	*arm64
	halves               bool
	elements, rows       int
	limbs                xreg
	mask, ones, scale256 vreg
}

// result is where dots leaves the sums of a row.
func (n *neonBlock) result(row int) vreg { return vreg(8 + row) }

// dots computes Σ code·n of the lanes of a part, as floats.
func (n *neonBlock) dots(part int, code func(row int) xreg) {
	const limb, other = vreg(22), vreg(23)
	first := func(row int) vreg { return vreg(10 + row) }
	second := func(row int) vreg { return vreg(12 + row) }
	low := second
	for i := range n.rows {
		n.load(first(i), code(i), 16*part)
		if n.halves {
			n.shiftHalf(second(i), first(i))
			n.and(first(i), first(i), n.mask)
			n.zero(n.result(i))
			continue
		}
		n.eor(first(i), first(i), n.mask) // less 128, with a sign
	}
	if n.halves {
		for l := range 3 {
			n.load(limb, n.limbs, l*n.elements+16*part)
			n.load(other, n.limbs, l*n.elements+64+16*part)
			for i := range n.rows {
				if l > 0 {
					n.shiftLeft(n.result(i), n.result(i), 8)
				}
				n.sdot(n.result(i), first(i), limb)
				n.sdot(n.result(i), second(i), other)
			}
		}
		for i := range n.rows {
			n.scvtf(n.result(i), n.result(i))
		}
		return
	}
	const more = vreg(14) // 128·Σ limb, which the codes lack
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
			n.sdot(sum, first(i), limb)
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
