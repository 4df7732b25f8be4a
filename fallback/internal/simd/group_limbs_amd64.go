package simd

import "unsafe"

// split makes the limbs and factors of x, and returns the largest of the bits of its absolute
// values.
func (l *GroupLimbs) split(x []float32) uint32 {
	groups := l.k / l.groupSize
	_, _ = l.factors[2*groups-1], x[l.k-1]
	switch {
	case active < VNNI512 && l.order == Natural:
		panic("simd: groups of limbs in the natural order without AVX-512 VNNI")
	case active < AVX512:
		return groupLimbsHalvesAVX2(&l.limbs[0], &x[0], &l.factors[0], groups, l.groupSize/32)
	case l.order == Halves:
		return groupLimbsHalvesAVX512(&l.limbs[0], &x[0], &l.factors[0], groups, l.groupSize/32)
	}
	return groupLimbsNaturalAVX512(&l.limbs[0], &x[0], &l.factors[0], groups, l.groupSize/32)
}

type groupDotsFunc func(out, out2 *float32, codes *byte, stride int, scales, biases *byte, pitch, factors int, x, x2 *byte, powers, powers2 *float32, blocks, fours int, control *byte, step int)

// groupDotsForms has the kernels for one and two rows of x, by the order and by groups of 32, 64
// and 128.
var groupDotsForms = [2][2][3]groupDotsFunc{{
	Natural: {groupDotsNatural32x1VNNI512, groupDotsNatural64x1VNNI512, groupDotsNatural128x1VNNI512},
	Halves:  {groupDotsHalves32x1VNNI512, groupDotsHalves64x1VNNI512, groupDotsHalves128x1VNNI512},
}, {
	Natural: {groupDotsNatural32x2VNNI512, groupDotsNatural64x2VNNI512, groupDotsNatural128x2VNNI512},
	Halves:  {groupDotsHalves32x2VNNI512, groupDotsHalves64x2VNNI512, groupDotsHalves128x2VNNI512},
}}

// tableDotsForms has those of codes that stand for numbers of a table, in groups of 16 and of 32.
var tableDotsForms = [2][2]groupDotsFunc{
	{groupDotsTable16x1VNNI512, groupDotsTable32x1VNNI512},
	{groupDotsTable16x2VNNI512, groupDotsTable32x2VNNI512},
}

// narrowDotsForms has those for one row of x without AVX-512, in the order Halves, without and with AVX-VNNI.
var narrowDotsForms = [2][3]groupDotsFunc{
	{groupDotsHalves32AVX2, groupDotsHalves64AVX2, groupDotsHalves128AVX2},
	{groupDotsHalves32AVXVNNI, groupDotsHalves64AVXVNNI, groupDotsHalves128AVXVNNI},
}

// narrowTableForms has those of codes that stand for numbers of a table, in groups of 32.
var narrowTableForms = [2]groupDotsFunc{groupDotsTable32AVX2, groupDotsTable32AVXVNNI}

// groupDotsVector multiplies four times fours rows of whole blocks with one or two rows of x.
func groupDotsVector(out []float32, ld int, w *Codes, x []GroupLimbs, fours int) {
	if fours == 0 {
		return
	}
	one, two := &x[0], &x[len(x)-1]
	rows, k := 4*fours, len(one.limbs)/3 // with what is padded
	_ = w.Data[(rows-1)*w.Stride+w.bytes(k)-1]
	scales, biases, pitch := w.factors(rows)
	out2 := out[(len(x)-1)*ld:]
	_, _ = out[rows-1], out2[rows-1]
	kernel, control := w.groupKernel(len(x))
	kernel(&out[0], &out2[0], &w.Data[0], w.Stride, scales, biases, pitch, int(w.Factors),
		&one.limbs[0], &two.limbs[0], &one.factors[0], &two.factors[0], k/groupBlock(w.Order, w.GroupSize), fours, control, 8*w.Packed)
}

// factors returns the scales and biases of rows, and the bytes from one row's to the next one's.
func (c *Codes) factors(rows int) (scales, biases *byte, pitch int) {
	all := rows*c.Groups + FactorsPast(c.Groups)
	if c.Factors == Float32Factors {
		return (*byte)(unsafe.Pointer(&c.Scales[:all][0])), (*byte)(unsafe.Pointer(&c.Biases[:all][0])), 4 * c.Groups
	}
	return (*byte)(unsafe.Pointer(&c.NarrowScales[:all][0])), (*byte)(unsafe.Pointer(&c.NarrowBiases[:all][0])), 2 * c.Groups
}

// groupKernel returns the kernel for that many rows of x, and its control.
func (c *Codes) groupKernel(xs int) (groupDotsFunc, *byte) {
	size := c.GroupSize / 64
	if active < VNNI512 {
		return c.narrowKernel(xs)
	}
	switch {
	case c.Packed > 0:
		if c.Order != Natural || xs > 1 || !TakesPacked() {
			panic("simd: packed codes in halves, for several rows or without AVX-512 VBMI")
		}
		kernels := [3]groupDotsFunc{groupDotsPacked32x1VBMI, groupDotsPacked64x1VBMI, groupDotsPacked128x1VBMI}
		return kernels[size], &unpackControls[c.Packed].wide[0]
	case c.Table != nil:
		if c.Order != Halves || c.GroupSize > 32 || c.Factors != Float32Factors {
			panic("simd: a table without groups of 16 or 32 in halves, or without factors of 32 bits")
		}
		return tableDotsForms[xs-1][c.GroupSize/32], &c.Table[0]
	}
	return groupDotsForms[xs-1][c.Order][size], nil
}

// narrowKernel is groupKernel without AVX-512 VNNI.
func (c *Codes) narrowKernel(xs int) (groupDotsFunc, *byte) {
	vnni := toInt(active == AVXVNNI)
	switch {
	case c.Order != Halves || c.GroupSize < 32 || xs > 1:
		panic("simd: groups of codes in the natural order, of 16, or for several rows, without AVX-512 VNNI")
	case c.Table == nil:
		return narrowDotsForms[vnni][c.GroupSize/64], nil
	case c.GroupSize > 32 || c.Factors != Float32Factors:
		panic("simd: a table without groups of 32, or without factors of 32 bits")
	}
	return narrowTableForms[vnni], &c.Table[0]
}
