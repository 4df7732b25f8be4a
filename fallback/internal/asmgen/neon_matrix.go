package main

import "fmt"

// neonMatrices writes products of one row of A, for arm64, which has no cheaper form
// for several: see dots and mulAdd.
func neonMatrices(a *arm64) {
	neonDots(a, 4)
	neonDots(a, 1)
	for _, width := range []int{32, 4, 1} {
		neonMulAdd(a, width)
	}
}

// neonDots writes the products of a row with rows of B, along k. The lanes are added
// in the same order for any number of rows.
func neonDots(a *arm64, cols int) {
	r := a.function(fmt.Sprintf("dots1x%dNEON", cols), "sets C, or if add is not 0 increases it, by a row of A times rows of B; the stride is in floats.",
		"(c *float32, a *float32, b *float32, ldb int, k int, add int)", "c", "a", "b", "ldb", "k", "add")
	c, as, b, ldb, k, add := r[0], r[1], r[2], r[3], r[4], r[5]
	const rest, rows = xreg(6), xreg(9) // rows of B
	const x, y = vreg(16), vreg(17)
	a.line("LSL $2, R%d, R%d", ldb, ldb)
	a.line("MOVD R%d, R%d", b, rows)
	for j := 1; j < cols; j++ {
		a.line("ADD R%d, R%d, R%d", ldb, rows+xreg(j-1), rows+xreg(j))
	}
	for j := range cols {
		a.zero(vreg(j))
	}
	a.line("AND $3, R%d, R%d", k, rest)
	a.line("LSR $2, R%d, R%d", k, k)
	step := func(load func(d vreg, base xreg, disp int), bytes int) {
		load(x, as, 0)
		a.line("ADD $%d, R%d, R%d", bytes, as, as)
		for j := range cols {
			load(y, rows+xreg(j), 0)
			a.line("ADD $%d, R%d, R%d", bytes, rows+xreg(j), rows+xreg(j))
			a.fmla(vreg(j), x, y)
		}
	}
	a.line("CBZ R%d, tail", k)
	a.label("loop")
	step(a.load, 16)
	a.line("SUBS $1, R%d, R%d", k, k)
	a.line("BNE loop")
	a.label("tail")
	a.line("CBZ R%d, sum", rest)
	a.label("single")
	step(a.loadFloat, 4) // which clears the other lanes
	a.line("SUBS $1, R%d, R%d", rest, rest)
	a.line("BNE single")
	a.label("sum")
	for j := range cols {
		a.faddp(vreg(j), vreg(j), vreg(j))
		a.faddp(vreg(j), vreg(j), vreg(j))
	}
	a.line("CBZ R%d, store", add)
	for j := range cols {
		a.loadFloat(x, c, 4*j)
		a.fadd(vreg(j), vreg(j), x)
	}
	a.label("store")
	for j := range cols {
		a.storeFloat(vreg(j), c, 4*j)
	}
	a.line("RET")
}

// neonMulAdd writes the product of a row with a strip of columns of B.
func neonMulAdd(a *arm64, width int) {
	r := a.function(fmt.Sprintf("mulAdd1x%dNEON", width), "sets a strip of C, or if add is not 0 increases it, by a row of A times B; the stride is in floats.",
		"(c *float32, a *float32, b *float32, ldb int, k int, add int)", "c", "a", "b", "ldb", "k", "add")
	c, as, b, ldb, k, add := r[0], r[1], r[2], r[3], r[4], r[5]
	load, store, vectors := a.load, a.store, width/4
	if width == 1 {
		load, store, vectors = a.loadFloat, a.storeFloat, 1
	}
	const f, bs = vreg(16), vreg(17)
	a.line("LSL $2, R%d, R%d", ldb, ldb)
	for j := range vectors {
		a.zero(vreg(j))
	}
	a.line("CBZ R%d, loop", add)
	for j := range vectors {
		load(vreg(j), c, 16*j)
	}
	a.label("loop")
	a.loadFloat(f, as, 0)
	for j := range vectors {
		load(bs+vreg(j), b, 16*j)
		a.fmlaFirst(vreg(j), bs+vreg(j), f)
	}
	a.line("ADD $4, R%d, R%d", as, as)
	a.line("ADD R%d, R%d, R%d", ldb, b, b)
	a.line("SUBS $1, R%d, R%d", k, k)
	a.line("BNE loop")
	for j := range vectors {
		store(vreg(j), c, 16*j)
	}
	a.line("RET")
}
