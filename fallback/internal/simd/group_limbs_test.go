package simd

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// TestGroupDots compares products with the codes themselves to the bit with plain Go, and except for groups of 16 with
// those of tiles.
func TestGroupDots(t *testing.T) {
	forLevels(t, func(t *testing.T) {
		if !(TileCodes{Bits: 4, GroupSize: 32}).HasGroupDots() {
			t.Skip("this level has no such products")
		}
		rng := rand.New(rand.NewPCG(14, 14))
		for range 200 {
			checkGroupDots(t, rng)
			if HasTiles() {
				checkGroupDots16(t, rng)
			}
		}
	})
}

func checkGroupDots(t *testing.T, rng *rand.Rand) {
	t.Helper()
	order, bits, size, groups := Halves, 4, 32<<rng.IntN(3), 1+rng.IntN(12)
	if HasTiles() && rng.IntN(2) == 0 {
		order, bits = Natural, 8
	}
	rows, k := 1+rng.IntN(32), groups*size
	name := fmt.Sprintf("%d bits, groups of %d, %d rows of %d", bits, size, rows, k)
	numbers := randomNumbers(rng, k)
	for i := range numbers {
		numbers[i] *= float32(math.Exp2(float64(rng.IntN(30) - 15)))
	}
	if rng.IntN(4) == 0 {
		clear(numbers[:size])
	}
	w := randomCodeRows(rng, order, bits, size, groups, rows)
	count := 1 + rng.IntN(3)
	bytes := make([]float32, rows*k/4)
	codesOf := unsafe.Slice((*byte)(unsafe.Pointer(&bytes[0])), rows*k)
	for i := range rows {
		copy(codesOf[i*k:], w.asBytes(i, k))
	}
	switch {
	case order == Halves && size == 32 && rng.IntN(2) == 0:
		w.Table = &Table{0, 12, 24, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 2}
		for i, code := range codesOf {
			codesOf[i] = w.Table[code]
		}
	case order == Natural && TakesPacked() && rng.IntN(2) == 0:
		count, bits = 1, []int{2, 3, 5, 6}[rng.IntN(4)]
		w.pack(rng, codesOf, bits, rows, k)
	}
	w.Scales[rng.IntN(len(w.Scales))], w.Biases[rng.IntN(len(w.Biases))] = 0x1p-20, -0x1p-20 // subnormal as float16
	if w.Table == nil {
		w.narrow(FactorType(rng.IntN(3)))
	}
	name = fmt.Sprintf("%s: %d bits, table %v, factors of type %d", name, bits, w.Table != nil, w.Factors)
	factors := [2][]float32{slices.Clone(w.Scales), slices.Clone(w.Biases)}

	space := make([]float32, 3*GroupLimbSpace(k, order, size))
	for i := range space {
		space[i] = float32(math.NaN()) // what does not exist must be cleared
	}
	if w.Factors == Float32Factors {
		w.Scales, w.Biases = append(w.Scales, space[:FactorsPast(groups)]...), append(w.Biases, space[:FactorsPast(groups)]...)
	} else {
		w.Scales, w.Biases = nil, nil
	}
	x := make([]GroupLimbs, count)
	const ld = 33
	want, got := make([]float32, count*ld), make([]float32, count*ld)
	var all []float32 // rows of x
	for i := range x {
		numbers[rng.IntN(k)] = float32(rng.NormFloat64())
		all = append(all, numbers...)
		require.True(t, x[i].Prepare(space[i*len(space)/3:(i+1)*len(space)/3], numbers, order, size), name)
		for j := range rows {
			want[i*ld+j] = plainGroupDot(numbers, codesOf[j*k:], factors[0][j*groups:], factors[1][j*groups:], size)
		}
	}
	GroupDots(got, ld, &w, x, rows)
	for i, v := range want {
		require.Equal(t, math.Float32bits(v), math.Float32bits(got[i]), name)
	}
	if HasTiles() {
		for i, v := range tileProducts(t, all, bytes, factors, count, rows, size, ld) {
			require.Equal(t, math.Float32bits(v), math.Float32bits(got[i]), name)
		}
	}
	// Numbers that the limbs of a group cannot hold: two of MaxFloat32 make its sum overflow.
	for _, v := range []float32{math.MaxFloat32, float32(math.Inf(-1)), float32(math.NaN())} {
		with := slices.Clone(numbers)
		with[k-1], with[k-2] = v, v
		require.False(t, x[0].Prepare(make([]float32, GroupLimbSpace(k, order, size)), with, order, size), name)
	}
}

// plainGroupDot returns the product of a row of x with a row of codes, in the order of the kernels.
func plainGroupDot(x []float32, codes []byte, scales, biases []float32, size int) (sum float32) {
	for g := range len(x) / size {
		up, power, _ := unitPower(x[g*size : (g+1)*size])
		var sums [3]int32
		var total int32
		for i := g * size; i < (g+1)*size; i++ {
			n := toInteger(x[i], up)
			total += n
			for limb := 2; limb >= 0; limb-- {
				digit := int32(int8(n))
				sums[limb] += int32(codes[i]) * digit
				n = (n - digit) >> 8
			}
		}
		n := fma32(float32(sums[0]), 65536, float32(sums[1]<<8+sums[2]))
		sum = fma32(n, scales[g]*power, fma32(biases[g], float32(total)*power, sum))
	}
	return sum
}

// tileProducts returns the products of rows of x, one after the other, with codes of one byte each, by tiles.
func tileProducts(t *testing.T, x, codes []float32, factors [2][]float32, count, rows, size, ld int) []float32 {
	t.Helper()
	k := len(x) / count
	groups := k / size
	var tiles Tiles
	form := TileCodes{Bits: 8, GroupSize: size}
	tiles.reset(count, k, form, active != AMX, make([]float32, TilesSpace(count, k, form)))
	for i := range count {
		row := x[i*k : (i+1)*k]
		if i == 0 {
			for _, v := range []float32{math.MaxFloat32, float32(math.Inf(-1)), float32(math.NaN())} {
				with := slices.Clone(row)
				with[k-1], with[k-2] = v, v
				require.False(t, tiles.Set(0, with))
			}
		}
		require.True(t, tiles.Set(i, row))
	}
	w := TilePanels{Count: 1, Codes: make([]float32, 8*k), Scales: make([]float32, groups*32), Biases: make([]float32, groups*32)}
	TransposePanel(w.Codes, codes, k/4, rows, k/4)
	TransposePanel(w.Scales, factors[0], groups, rows, groups)
	TransposePanel(w.Biases, factors[1], groups, rows, groups)
	if !tiles.TakesWords() {
		words := w.Codes
		w.Codes = Aligned(make([]float32, TileNumbers(k)+15))
		tiles.codes.Expand(w.Codes, words, k)
	}
	out := make([]float32, count*ld)
	tiles.Multiply(out, ld, 0, count, rows, &w, Aligned(make([]float32, SumSpace(1)+15)))
	return out
}

// narrow rounds the scales and biases to a type, and also keeps the bits of that type, with NaNs after the last ones and
// nothing after these.
func (c *Codes) narrow(to FactorType) {
	rounded := func(index int, f []float32) []uint16 {
		bits := slices.Repeat([]uint16{0x7fff}, len(f)+FactorsPast(c.Groups))
		switch to {
		case BFloat16Factors:
			ToBF16(bits[:len(f)], f)
			FromBF16(f, bits[:len(f)])
		case Float16Factors:
			ToF16(bits[:len(f)], f)
			FromF16(f, bits[:len(f)])
		}
		return atTheEnd(index, bits)
	}
	c.Factors, c.NarrowScales, c.NarrowBiases = to, rounded(0, c.Scales), rounded(1, c.Biases)
}

// pack replaces codes by those of some bits, of which the bytes keep as many, packed, with rows
// further apart than they are long.
func (c *Codes) pack(rng *rand.Rand, bytes []byte, bits, rows, k int) {
	c.Packed = bits
	c.Stride = c.bytes(k) + 4*rng.IntN(2)
	c.Data = make([]byte, rows*c.Stride)
	for i := range bytes {
		bytes[i] &= 1<<bits - 1
		for bit := range bits {
			at := i/k*c.Stride*8 + i%k*bits + bit
			c.Data[at/8] |= bytes[i] >> bit & 1 << (at % 8)
		}
	}
}

// asBytes returns the codes of a row.
func (c *Codes) asBytes(row, k int) []byte {
	out := make([]byte, k)
	for i := range out {
		if out[i] = c.Data[row*c.Stride+c.bytes(i)]; c.Order == Halves {
			out[i] = out[i] >> (i % 2 * 4) & 15
		}
	}
	return out
}

// checkGroupDots16 compares products of 4-bit floats in groups of 16 to the bit with what the kernel's comment says,
// with one and two rows of x.
func checkGroupDots16(t *testing.T, rng *rand.Rand) {
	t.Helper()
	const size = 16
	rows, k := 1+rng.IntN(20), 32*(1+rng.IntN(20))
	groups, count := k/size, 1+rng.IntN(3)
	w := Codes{Order: Halves, Stride: k / 2, Groups: groups, GroupSize: size, Data: make([]byte, rows*k/2)}
	w.Table = &Table{12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0}
	for i := range w.Data {
		w.Data[i] = byte(rng.IntN(256))
	}
	w.Scales, w.Biases = randomNumbers(rng, rows*groups+GroupSlack), make([]float32, rows*groups+GroupSlack)
	x, numbers := make([]GroupLimbs, count), make([][]float32, count)
	for i := range x {
		numbers[i] = randomNumbers(rng, k)
		for j := range numbers[i] {
			numbers[i][j] *= float32(math.Exp2(float64(rng.IntN(20) - 10)))
		}
		require.True(t, x[i].Prepare(make([]float32, GroupLimbSpace(k, Halves, 2*size)), numbers[i], Halves, 2*size))
	}
	got := make([]float32, count*rows)
	GroupDots(got, rows, &w, x, rows)
	for i := range x {
		for j := range rows {
			want, exact, most := w.dot16(j, &x[i], numbers[i])
			require.Equal(t, want, got[i*rows+j], "row %d of %d, x %d, k %d", j, rows, i, k)
			require.InDelta(t, exact, want, 1e-6*most)
		}
	}
}

// dot16 returns the product of a row, in the kernel's order and in float64, and the sum of its terms' magnitudes if
// all elements were as large as the largest of their group.
func (c *Codes) dot16(row int, x *GroupLimbs, numbers []float32) (sum float32, exact, most float64) {
	var lanes [4][2]float32
	for g := range c.Groups {
		var limbs [3]int32
		for i := range c.GroupSize {
			at := g*c.GroupSize + i
			code := c.Data[row*c.Stride+at/2] >> (at % 2 * 4) & 15
			value := int32(c.Table[code]) - 12
			part := at/128*2 + at%2
			for which := range limbs {
				limbs[which] += value * int32(int8(x.limbs[3*64*part+64*which+at%128/2]))
			}
			term := float64(value) * float64(c.Scales[row*c.Groups+g]) * float64(numbers[at])
			largest := max(slices.Max(numbers[at/32*32:][:32]), -slices.Min(numbers[at/32*32:][:32]))
			exact, most = exact+term, most+math.Abs(float64(value)*float64(c.Scales[row*c.Groups+g])*float64(largest))
		}
		n := fma32(float32(limbs[0]), 65536, float32(limbs[1]<<8+limbs[2]))
		lane := &lanes[g%8/2][g%2]
		*lane = fma32(n, c.Scales[row*c.Groups+g]*x.factors[g/2*2], *lane)
	}
	half := func(h int) float32 { return (lanes[0][h] + lanes[2][h]) + (lanes[1][h] + lanes[3][h]) }
	return half(0) + half(1), exact, most
}
