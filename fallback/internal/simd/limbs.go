package simd

import (
	"math"
	"unsafe"
)

// Limbs is a float32 row as whole numbers, for products with quantized rows by
// integer instructions. Every 32 neighbours, a unit, share a power of two: an
// element is n·2^e with |n| <= 2^22, so the rounding error is below 2^-23 of the
// unit's largest element, or 2^-127 if that is more. n is kept as three signed bytes ("limbs") of weight
// 65536, 256 and 1, each of which an instruction multiplies with unsigned codes,
// four pairs at a time. Sums of such products are exact, so a product of rows is
// the same to the bit with every instruction set: see CodeDots.
//
// The elements lie in blocks of 16 lanes. A block has, one after the other, the
// limbs of weight 65536, of 256 and of 1, 4 bytes of each element's lane; the
// power 2^e of each lane as float32; and Σ n·2^e of each lane as float32.
// A lane's elements are of one unit. Missing elements of the last block are 0.
type Limbs struct {
	Order Order
	K     int // elements
	data  []byte
	exact bool      // all elements are finite, and small enough that sums of them are, too
	x     []float32 // a copy of the row where they are not
}

// Order says which elements make up a lane of a block.
type Order int

const (
	// Natural: a block has 64 elements, lane i those from 4i to 4i+3. It is the
	// order of codes of one byte each.
	Natural Order = iota
	// Halves: a block has 128 elements, lane i those from 8i to 8i+7. The limbs of
	// the even ones of all lanes come before those of the odd ones, as the codes
	// come where the low and the high halves of bytes are taken apart.
	Halves
)

// blockLanes is how many float32 sums are kept for a row.
const blockLanes = 16

// Elements returns the number of elements of a block.
func (o Order) Elements() int {
	if o == Halves {
		return 128
	}
	return 64
}

// codeBytes returns the bytes of the codes of k elements.
func (o Order) codeBytes(k int) int {
	if o == Halves {
		return k / 2
	}
	return k
}

// blockBytes is the size of a block.
func (o Order) blockBytes() int { return 3*o.Elements() + 8*blockLanes }

// Blocks returns the number of blocks for k elements.
func (o Order) Blocks(k int) int { return (k + o.Elements() - 1) / o.Elements() }

// LimbSpace returns how many bytes Prepare needs for k elements.
func LimbSpace(k int, order Order) int { return order.Blocks(k)*order.blockBytes() + 63 }

// Prepare sets l to x, whose length is a multiple of 16. space, of LimbSpace
// bytes, holds it until the next Prepare.
func (l *Limbs) Prepare(space []byte, x []float32, order Order) {
	// Vectors that cross cache lines cost twice.
	skip := -int(uintptr(unsafe.Pointer(unsafe.SliceData(space)))) & 63
	size := order.Blocks(len(x)) * order.blockBytes()
	*l = Limbs{Order: order, K: len(x), data: space[skip : skip+size], exact: true}
	if len(x) == 0 {
		return
	}
	done, finite := l.prepareVector(x)
	for first := done; finite && first < len(x); first += order.Elements() {
		finite = l.prepareBlock(first/order.Elements(), x[first:min(first+order.Elements(), len(x))])
	}
	if !finite || l.isLarge() {
		l.exact, l.x = false, append([]float32(nil), x...)
	}
}

// mostPower is the largest 2^e with which sums of n, and of codes times n, stay in the range of
// float32, unless scales or biases are huge.
const mostPower = 0x1p60

// isWhole reports whether whole numbers represent a group with that power and sum, so that its products are finite.
func isWhole(power, sum float32) bool { return power <= mostPower && sum-sum == 0 }

// isLarge reports whether a unit's power is larger than that.
func (l *Limbs) isLarge() bool {
	size, elements := l.Order.blockBytes(), l.Order.Elements()
	lanes := unit * blockLanes / elements // of a unit
	for at := 3 * elements; at < len(l.data); at += size {
		powers := unsafe.Slice((*float32)(unsafe.Pointer(&l.data[at])), blockLanes)
		for i := 0; i < blockLanes; i += lanes {
			if powers[i] > mostPower {
				return true
			}
		}
	}
	return false
}

// prepareBlock is the plain form of one block. It returns false for infinities
// and NaNs, which are not whole numbers.
func (l *Limbs) prepareBlock(block int, x []float32) bool {
	size, elements := l.Order.blockBytes(), l.Order.Elements()
	data := l.data[block*size : (block+1)*size]
	clear(data)
	powers := unsafe.Slice((*float32)(unsafe.Pointer(&data[3*elements])), 2*blockLanes)
	sums := powers[blockLanes:]
	perLane := elements / blockLanes
	var laneSums [blockLanes]int32
	for first := 0; first < len(x); first += unit {
		of := x[first:min(first+unit, len(x))]
		up, down, finite := unitPower(of)
		if !finite {
			return false
		}
		for i := first / perLane; i < (first+unit)/perLane; i++ {
			powers[i] = down
		}
		for i, v := range of {
			n := toInteger(v, up)
			at := l.Order.place(first + i)
			for limb := 2; limb >= 0; limb-- {
				digit := int8(n) // the signed last byte
				data[limb*elements+at] = byte(digit)
				n = (n - int32(digit)) >> 8
			}
			laneSums[(first+i)/perLane] += toInteger(v, up)
		}
	}
	for i, n := range laneSums {
		sums[i] = float32(n) * powers[i]
	}
	return true
}

// unit is how many neighbours share a power of two.
const unit = 32

// place returns where in a block the limb of an element is.
func (o Order) place(i int) int {
	if o == Halves {
		return i%2*64 + i/8*4 + i%8/2
	}
	return i
}

// unitPower returns the power of two that brings x to integers, and its inverse,
// 0 for zeros. It returns false if x has infinities or NaNs.
func unitPower(x []float32) (up, down float32, finite bool) {
	var largest uint32
	for _, v := range x {
		largest = max(largest, math.Float32bits(v)&0x7fffffff)
	}
	if largest >= 0x7f800000 {
		return 0, 0, false
	}
	exponent := max(largest>>23, 22)
	up = math.Float32frombits((275 - exponent) << 23)
	if largest > 0 {
		down = math.Float32frombits((exponent - 21) << 23)
	}
	return up, down, true
}

// toInteger rounds v·up, which is within 2^22, to the nearest integer, ties to even.
func toInteger(v, up float32) int32 {
	const magic = 1.5 * (1 << 23) // adding it puts the integer into the lowest bits
	shifted := float32(v*up) + magic
	return int32(math.Float32bits(shifted)) - 0x4b400000
}
