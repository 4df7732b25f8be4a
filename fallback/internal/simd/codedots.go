package simd

import (
	"math"
	"unsafe"
)

// Codes are rows of affine-quantized numbers in the form that CodeDots and GroupDots take:
// scale·code + bias, with the codes as they are in memory.
type Codes struct {
	// Data holds the rows, Stride bytes apart: for Halves two codes to a byte, the
	// first in the low half; for Natural one to a byte.
	Data   []byte
	Stride int
	Order  Order
	// Scales and Biases hold a number per group, rows Groups apart. GroupDots also takes numbers of 16
	// bits without a table, in NarrowScales and NarrowBiases, if Factors says so.
	Scales, Biases             []float32
	NarrowScales, NarrowBiases []uint16
	Factors                    FactorType
	Groups                     int
	GroupSize                  int // 16, 32, 64 or 128; 16 in the natural order, or with a table
	// Table, if not nil, has the numbers of codes in the order Halves.
	// GroupDots takes it for groups of 32, with biases, and for groups of 16, without: its numbers must
	// then be 12 too large, which GroupDots subtracts, and at most 63. CodeDots takes no table.
	Table *Table
	// Packed, if not 0, is the number of bits of codes that are packed, in the order Natural.
	// GroupDots takes them for one row of x where TakesPacked, and CodeDots does not.
	Packed int
}

// FactorType is the type of scales and biases.
type FactorType int

const (
	Float32Factors FactorType = iota
	BFloat16Factors
	Float16Factors
)

func (c *Codes) bytes(k int) int {
	if c.Packed > 0 {
		return k * c.Packed / 8
	}
	return c.Order.codeBytes(k)
}

// CodeDots sets out[i] to the product of row i of w with x, for i < rows. x.K is
// w.Groups·w.GroupSize, and the orders are the same.
//
// There are 16 sums per row, one for each lane of a block. Block by block, a
// lane's sum grows by (Σ code·n)·(scale·2^e) and then by bias·(Σ n·2^e), each by
// one fused multiply-add; Σ code·n is exact and rounded once. At the end, lane i+8
// is added to lane i, and those eight as ((0+1)+(2+3)) + ((4+5)+(6+7)). All forms
// do exactly that, so they give the same bits.
func CodeDots(out []float32, w *Codes, x *Limbs, rows int) {
	if rows <= 0 {
		return
	}
	if w.Groups == 0 {
		clear(out[:rows])
		return
	}
	if !x.exact {
		for i := range rows {
			out[i] = w.floatDot(i, x.x)
		}
		return
	}
	if x.K%x.Order.Elements() == 0 {
		if !codeDotsVector(out, w, x, rows) {
			codeDotsGo(out, w, x, rows)
		}
		return
	}
	w.padded(out, x, rows)
}

// padded multiplies copies of a few rows, padded to whole blocks.
func (c *Codes) padded(out []float32, x *Limbs, rows int) {
	const some = 4
	wide := c.wider(x.Order.Blocks(x.K)*x.Order.Elements(), some)
	full := *x
	full.K = wide.Groups * wide.GroupSize
	for first := 0; first < rows; first += some {
		count := min(some, rows-first)
		c.copyTo(&wide, first, count)
		if !codeDotsVector(out[first:], &wide, &full, count) {
			codeDotsGo(out[first:], &wide, &full, count)
		}
	}
}

// wider returns Codes for copies of that many rows, padded to k elements.
func (c *Codes) wider(k, rows int) Codes {
	w := Codes{Order: c.Order, GroupSize: c.GroupSize, Groups: k / c.GroupSize, Stride: c.bytes(k), Table: c.Table, Packed: c.Packed}
	w.Data = make([]byte, rows*w.Stride)
	w.Scales, w.Biases = make([]float32, rows*w.Groups+GroupSlack), make([]float32, rows*w.Groups+GroupSlack)
	minusZero := float32(math.Copysign(0, -1)) // a sum of -0 stays -0 only if what is added is -0, too
	for i := range w.Scales {
		w.Scales[i], w.Biases[i] = minusZero, minusZero
	}
	return w
}

// copyTo copies rows to wider ones.
func (c *Codes) copyTo(wide *Codes, first, rows int) {
	for i := range rows {
		copy(wide.Data[i*wide.Stride:], c.Data[(first+i)*c.Stride:][:c.bytes(c.Groups*c.GroupSize)])
		scales, biases := wide.Scales[i*wide.Groups:][:c.Groups], wide.Biases[i*wide.Groups:][:c.Groups]
		switch at := (first + i) * c.Groups; c.Factors {
		case Float32Factors:
			copy(scales, c.Scales[at:])
			copy(biases, c.Biases[at:])
		case BFloat16Factors:
			FromBF16(scales, c.NarrowScales[at:at+c.Groups])
			FromBF16(biases, c.NarrowBiases[at:at+c.Groups])
		case Float16Factors:
			FromF16(scales, c.NarrowScales[at:at+c.Groups])
			FromF16(biases, c.NarrowBiases[at:at+c.Groups])
		}
	}
}

// codeDotsGo is the plain form, for whole blocks.
func codeDotsGo(out []float32, w *Codes, x *Limbs, rows int) {
	elements, size := x.Order.Elements(), x.Order.blockBytes()
	perLane := elements / blockLanes
	n := x.integers()
	for row := range rows {
		codes := w.Data[row*w.Stride:]
		scales, biases := w.Scales[row*w.Groups:][:w.Groups], w.Biases[row*w.Groups:][:w.Groups]
		var sums [blockLanes]float32
		for b := range x.Order.Blocks(x.K) {
			powers := unsafe.Slice((*float32)(unsafe.Pointer(&x.data[b*size+3*elements])), 2*blockLanes)
			for lane := range sums {
				first := b*elements + lane*perLane
				g := first / w.GroupSize
				dot := laneDot(codes[w.bytes(first):], n[first:first+perLane], x.Order)
				sums[lane] = fma32(float32(dot), powers[lane]*scales[g], sums[lane])
				sums[lane] = fma32(powers[blockLanes+lane], biases[g], sums[lane])
			}
		}
		out[row] = addLanes(&sums)
	}
}

// integers returns the numbers that the limbs stand for.
func (l *Limbs) integers() []int64 {
	elements, size := l.Order.Elements(), l.Order.blockBytes()
	n := make([]int64, l.Order.Blocks(l.K)*elements)
	for i := range n {
		block, at := l.data[i/elements*size:], l.Order.place(i%elements)
		n[i] = int64(int8(block[at]))<<16 + int64(int8(block[elements+at]))<<8 + int64(int8(block[2*elements+at]))
	}
	return n
}

// laneDot returns Σ code·n of a lane.
func laneDot(codes []byte, n []int64, order Order) (dot int64) {
	if order == Halves {
		for i, c := range codes[:len(n)/2] {
			dot += int64(c&15)*n[2*i] + int64(c>>4)*n[2*i+1]
		}
		return dot
	}
	for i, c := range codes[:len(n)] {
		dot += int64(c) * n[i]
	}
	return dot
}

func addLanes(sums *[blockLanes]float32) float32 {
	var t [8]float32
	for i := range t {
		t[i] = sums[i] + sums[i+8]
	}
	return ((t[0] + t[1]) + (t[2] + t[3])) + ((t[4] + t[5]) + (t[6] + t[7]))
}

// fma32 returns a·b + c, rounded once.
func fma32(a, b, c float32) float32 {
	product := float64(a) * float64(b) // exact
	sum := product + float64(c)
	// The sum in float64 is rounded to odd where it is not exact: rounding that to
	// float32 is then right (Boldo and Melquiond, 2008).
	back := sum - product
	rest := (product - (sum - back)) + (float64(c) - back)
	if rest != 0 && rest == rest {
		if bits := math.Float64bits(sum); bits&1 == 0 && !math.IsInf(sum, 0) {
			if rest > 0 == (sum > 0) {
				bits++
			} else {
				bits--
			}
			sum = math.Float64frombits(bits)
		}
	}
	return float32(sum)
}

// floatDot multiplies a row with numbers that are not all finite.
func (c *Codes) floatDot(row int, x []float32) float32 {
	codes := c.Data[row*c.Stride:]
	var sum float32
	for i, v := range x {
		code := codes[c.bytes(i)]
		if c.Order == Halves {
			code = code >> (i % 2 * 4) & 15
		}
		at := row*c.Groups + i/c.GroupSize
		sum += (c.Scales[at]*float32(code) + c.Biases[at]) * v
	}
	return sum
}
