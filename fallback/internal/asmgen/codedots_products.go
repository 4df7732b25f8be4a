package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// dots returns, for each row, Σ code·n of each lane as floats. The rows take turns,
// because each one's instructions wait for one another.
func (d *codeDots) dots(codes []Mem) []reg.VecVirtual {
	v := d.isa
	if d.dot == dotAVX2 {
		products := make([]reg.VecVirtual, d.rows)
		d.eachRow(func(row int) { products[row] = d.dotAVX2(codes[row]) })
		return products
	}
	first := v.vecs(d.rows)
	d.eachRow(func(row int) { v.loadInts(codes[row], first[row]) })
	high := v.vecs(d.rows)
	d.eachRow(func(row int) { v.zero(high[row]) })
	if d.halves {
		second := d.split(first)
		// 15·8·2²² fits 32 bits.
		for limb := range 3 {
			if limb > 0 {
				d.eachRow(func(row int) { VPSLLD(U8(8), high[row], high[row]) })
			}
			d.multiply(limb, 0, first, high)
			d.multiply(limb, 1, second, high)
		}
		d.eachRow(func(row int) { VCVTDQ2PS(high[row], high[row]) })
		return high
	}
	low := v.vecs(d.rows)
	d.eachRow(func(row int) { v.zero(low[row]) })
	d.multiply(0, 0, first, high)
	d.multiply(2, 0, first, low)
	d.eachRow(func(row int) { VPSLLD(U8(8), high[row], high[row]) })
	d.multiply(1, 0, first, high)
	d.eachRow(func(row int) { d.combine(high[row], low[row]) })
	return low
}

func (d *codeDots) eachRow(f func(row int)) {
	for row := range d.rows {
		f(row)
	}
}

// split takes the high halves of bytes from the low ones.
func (d *codeDots) split(codes []reg.VecVirtual) []reg.VecVirtual {
	second := make([]reg.VecVirtual, d.rows)
	d.eachRow(func(row int) { second[row] = d.splitRow(codes[row]) })
	return second
}

func (d *codeDots) splitRow(codes reg.VecVirtual) reg.VecVirtual {
	second := d.isa.vec()
	VPSRLW(U8(4), codes, second)
	d.isa.and(d.mask, codes, codes)
	d.isa.and(d.mask, second, second)
	return second
}

// multiply adds products with limbs to sums.
func (d *codeDots) multiply(limb, half int, codes, sums []reg.VecVirtual) {
	r := d.limb(limb, half)
	d.eachRow(func(row int) { VPDPBUSD(r, codes[row], sums[row]) })
}

// combine sets low to 256·high + low. 255·4·2²² does not fit 32 bits: these are two
// sums below 2²⁴, added with one rounding.
func (d *codeDots) combine(high, low reg.VecVirtual) {
	VCVTDQ2PS(high, high)
	VCVTDQ2PS(low, low)
	VFMADD231PS(d.scale256, high, low)
}

// dotAVX2 is dots of one row, where sums of two products have 16 bits: 2·2·15·128
// fits, so bytes are multiplied in halves. Two rows by turns would need more than
// the 16 registers of AVX2.
func (d *codeDots) dotAVX2(codes Mem) reg.VecVirtual {
	v := d.isa
	first := v.vec()
	v.loadInts(codes, first)
	second := d.splitRow(first)
	sums := [3]reg.VecVirtual{v.vec(), v.vec(), v.vec()}
	for limb, sum := range sums {
		t := v.vec()
		VPMADDUBSW(d.limbAt(limb, 0), first, sum)
		if d.halves {
			VPMADDUBSW(d.limbAt(limb, 1), second, t)
			VPADDW(t, sum, sum)
			VPMADDWD(d.ones, sum, sum)
			continue
		}
		VPMADDUBSW(d.limbAt(limb, 0), second, t)
		VPMADDWD(d.ones, sum, sum)
		VPMADDWD(d.sixteens, t, t)
		VPADDD(t, sum, sum)
	}
	high, low := sums[0], sums[2]
	VPSLLD(U8(8), high, high)
	VPADDD(sums[1], high, high)
	if d.halves {
		VPSLLD(U8(8), high, high)
		VPADDD(low, high, high)
		VCVTDQ2PS(high, high)
		return high
	}
	d.combine(high, low)
	return low
}

// limbAt is where the limbs of this part's lanes are. Limbs go from 65536 down.
func (d *codeDots) limbAt(limb, half int) Mem {
	size := 64
	if d.halves {
		size = 128
	}
	return Mem{Base: d.x, Disp: limb*size + half*64 + d.part0}
}

// limb returns limbs in a register.
func (d *codeDots) limb(limb, half int) reg.VecVirtual {
	if d.isa.wide() {
		return d.limbs[limb][half]
	}
	r := d.isa.vec()
	d.isa.loadInts(d.limbAt(limb, half), r)
	return r
}
