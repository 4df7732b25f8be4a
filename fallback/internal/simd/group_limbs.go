package simd

import "unsafe"

// GroupLimbs is a row of x as Tiles has it, with one power of two for each group, but in the
// order of codes: for products with the codes themselves, which GroupDots makes the same to
// the bit as Tiles.Multiply, except for groups of 16. Not every processor has these: see TileCodes.HasGroupDots.
//
// The limbs lie in parts of 64 elements: those of weight 65536, of 256 and of 1. In the order
// Halves, a part has the even elements of 128 and the next one the odd ones.
type GroupLimbs struct {
	order        Order
	k, groupSize int
	limbs        []byte
	factors      []float32 // of each group, its power of two and its sum
}

// HasGroupDots reports whether GroupDots multiplies such codes. Without AVX-512 VNNI, it takes codes of 4 bits in groups
// of 32 or more, in the order Halves: with AVX2 alone, sums of two products of larger codes do not fit 16 bits.
func (c TileCodes) HasGroupDots() bool {
	return HasTiles() || active >= AVX2 && active <= AVX512 && c.Bits == 4 && c.GroupSize >= 32
}

// partElements is how many elements a part has.
const partElements = 64

// groupBlock returns how many elements at least are multiplied at a time: whole parts and
// whole groups.
func groupBlock(order Order, groupSize int) int {
	if order == Halves {
		return 2 * partElements
	}
	return max(partElements, groupSize)
}

// GroupLimbSpace returns how many float32 numbers Prepare needs for k elements.
func GroupLimbSpace(k int, order Order, groupSize int) int {
	whole := roundUp(k, groupBlock(order, groupSize))
	return 15 + 3*whole/4 + 2*whole/groupSize
}

func roundUp(n, multiple int) int { return (n + multiple - 1) / multiple * multiple }

// Prepare sets l to x, whole groups of groupSize: 32, 64 or 128. space, of GroupLimbSpace
// numbers, holds it until the next Prepare. It returns false for rows that Tiles.Set does not
// represent either.
func (l *GroupLimbs) Prepare(space []float32, x []float32, order Order, groupSize int) bool {
	whole := roundUp(len(x), groupBlock(order, groupSize))
	groups := len(x) / groupSize
	*l = GroupLimbs{order: order, k: len(x), groupSize: groupSize}
	if len(x) == 0 {
		return true
	}
	space = Aligned(space)
	l.limbs = unsafe.Slice((*byte)(unsafe.Pointer(&space[0])), 3*whole)
	l.factors = space[3*whole/4:][:2*whole/groupSize]
	if whole > len(x) {
		clear(l.limbs[3*(whole-groupBlock(order, groupSize)):])
		clear(l.factors[2*groups:])
	}
	if l.split(x) >= 0x7f800000 {
		return false
	}
	for g := range groups {
		if !isWhole(l.factors[2*g], l.factors[2*g+1]) {
			return false
		}
	}
	return true
}

// GroupDots sets out[i·ld+j] to the product of row j of w with x[i], for j < rows. Each x has
// w.Groups groups of w.GroupSize, or half as many groups of 32 if that is 16, and the orders are
// the same. After the scales and the biases of the last row there must be room for
// FactorsPast(w.Groups) numbers, whatever they are.
func GroupDots(out []float32, ld int, w *Codes, x []GroupLimbs, rows int) {
	most := 1 + toInt(HasTiles()) // rows of x at a time
	for i := 0; i < len(x); i += most {
		w.groupDots(out[i*ld:], ld, x[i:min(i+most, len(x))], rows)
	}
}

// TakesPacked reports whether GroupDots takes packed codes for one row of x.
func TakesPacked() bool { return active >= VBMI && active <= AMX }

// GroupSlack is the most that FactorsPast returns.
const GroupSlack = 3

// FactorsPast returns how many scales and biases GroupDots may read past those of the last row, of that many
// groups: it reads them by fours.
func FactorsPast(groups int) int { return -groups & 3 }

// groupDots is GroupDots of one or two rows of x.
func (c *Codes) groupDots(out []float32, ld int, x []GroupLimbs, rows int) {
	const some = 4 // at a time
	whole, k := 0, roundUp(x[0].k, groupBlock(c.Order, c.GroupSize))
	if k == x[0].k {
		whole = rows - rows%some
		groupDotsVector(out, ld, c, x, whole/some)
	}
	if whole == rows {
		return
	}
	wide := c.wider(k, some)
	var sums [2 * some]float32
	for ; whole < rows; whole += some {
		count := min(some, rows-whole)
		c.copyTo(&wide, whole, count)
		groupDotsVector(sums[:], some, &wide, x, 1)
		for i := range x {
			copy(out[i*ld+whole:i*ld+whole+count], sums[i*some:])
		}
	}
}
