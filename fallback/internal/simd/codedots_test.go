package simd

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// randomCodeRows returns rows of codes of some bits and their factors.
func randomCodeRows(rng *rand.Rand, order Order, bits, size, groups, rows int) Codes {
	c := Codes{Order: order, GroupSize: size, Groups: groups}
	c.Stride = c.bytes(groups*size) + 4*rng.IntN(2)
	c.Data = make([]byte, (rows-1)*c.Stride+c.bytes(groups*size))
	for i := range c.Data {
		c.Data[i] = byte(rng.Uint32())
		if order == Natural {
			c.Data[i] &= 1<<bits - 1
		}
	}
	c.Scales, c.Biases = make([]float32, rows*groups), make([]float32, rows*groups)
	for i := range c.Scales {
		c.Scales[i], c.Biases[i] = rng.Float32()-0.5, rng.Float32()-0.5
	}
	return c
}

// at returns an element of a row.
func (c *Codes) at(row, i int) float64 {
	code := c.Data[row*c.Stride+c.bytes(i)]
	if c.Order == Halves {
		code = code >> (i % 2 * 4) & 15
	}
	g := row*c.Groups + i/c.GroupSize
	return float64(c.Scales[g])*float64(code) + float64(c.Biases[g])
}

// TestCodeDots compares the plain form with float64, and the bits of every other
// form with those of the plain one.
func TestCodeDots(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 6))
	for range 400 {
		order, bits, size := Order(rng.IntN(2)), 4, 32<<rng.IntN(3)
		if order == Natural {
			bits, size = []int{2, 3, 5, 6, 8}[rng.IntN(5)], 16<<rng.IntN(4)
		}
		rows, groups := 1+rng.IntN(11), 2*(1+rng.IntN(12))
		w := randomCodeRows(rng, order, bits, size, groups, rows)
		x := make([]float32, size*groups)
		for i := range x {
			x[i] = float32(rng.NormFloat64() * math.Exp2(float64(rng.IntN(20)-10)))
			if rng.IntN(20) == 0 {
				x[i] = 0
			}
		}
		name := fmt.Sprintf("order %d, %d bits, groups of %d, %d rows of %d", order, bits, size, rows, len(x))
		var results [][]float32
		for _, level := range Levels() {
			before := Use(level)
			var l Limbs
			l.Prepare(make([]byte, LimbSpace(len(x), order)), x, order)
			out := make([]float32, rows)
			CodeDots(out, &w, &l, rows)
			results = append(results, out)
			Use(before)
		}
		for row, v := range results[0] {
			want, most := 0.0, 0.0
			for i, e := range x {
				want += w.at(row, i) * float64(e)
				most += math.Abs(w.at(row, i) * float64(e))
			}
			require.InDelta(t, want, v, 2e-6*most+1e-30, name)
			for level, other := range results[1:] {
				require.Equal(t, v, other[row], "%s: %v, row %d", name, Levels()[level+1], row)
			}
		}
	}
}

// TestCodeDotsExtremes tests numbers that whole numbers cannot represent, and
// those that they just can.
func TestCodeDotsExtremes(t *testing.T) {
	inf := float32(math.Inf(1))
	rng := rand.New(rand.NewPCG(7, 7))
	forLevels(t, func(t *testing.T) {
		for _, c := range []struct {
			order Order
			size  int
		}{{Natural, 16}, {Natural, 64}, {Halves, 64}} {
			order := c.order
			w := randomCodeRows(rng, order, 4, c.size, 128/c.size, 3)
			dots := func(x []float32) []float32 {
				var l Limbs
				l.Prepare(make([]byte, LimbSpace(len(x), order)), x, order)
				out := make([]float32, 3)
				CodeDots(out, &w, &l, 3)
				return out
			}
			x := make([]float32, 128)
			require.Equal(t, []float32{0, 0, 0}, dots(x))
			x[5] = inf
			for row, v := range dots(x) {
				require.Equal(t, math.Inf(int(math.Copysign(1, w.at(row, 5)))), float64(v))
			}
			x[100] = float32(math.NaN())
			for _, v := range dots(x) {
				require.True(t, v != v)
			}
			for _, v := range []float32{math.MaxFloat32 / 1024, -0x1p-100, math.SmallestNonzeroFloat32} {
				clear(x)
				x[77] = v
				for row, got := range dots(x) {
					require.InDelta(t, w.at(row, 77)*float64(v), got, 1e-6*math.Abs(float64(v))+0x1p-120)
				}
			}
			// Products that float32 has, of elements whose sums it does not have.
			for i := range w.Scales {
				w.Scales[i] *= 0x1p-40
				w.Biases[i] *= 0x1p-40
			}
			for _, large := range [][]float32{{math.MaxFloat32}, {1e38, 1e38, 1e38, 1e38, 1e38, 1e38, 1e38, 1e38}} {
				clear(x)
				copy(x, large)
				for row, got := range dots(x) {
					want, size := 0.0, 0.0
					for i := range large {
						want += w.at(row, i) * float64(x[i])
						size += math.Abs(w.at(row, i) * float64(x[i]))
					}
					require.InDelta(t, want, got, 1e-5*size)
				}
			}
		}
		CodeDots(nil, &Codes{}, &Limbs{}, 0)
		out := []float32{1}
		CodeDots(out, &Codes{GroupSize: 32}, &Limbs{exact: true}, 1)
		require.Equal(t, float32(0), out[0])
	})
}

// BenchmarkCodeDots prints nanoseconds per 1,000 weights of the fastest of many
// short runs, which other work on the machine disturbs least.
func BenchmarkCodeDots(b *testing.B) {
	rng := rand.New(rand.NewPCG(8, 8))
	for _, c := range []struct {
		order Order
		size  int
	}{{Halves, 32}, {Halves, 64}, {Halves, 128}, {Natural, 64}, {Natural, 128}} {
		for _, level := range Levels() {
			b.Run(fmt.Sprintf("order=%d/group=%d/%v", c.order, c.size, level), func(b *testing.B) {
				defer Use(Use(level))
				const rows, k = 64, 1024
				w := randomCodeRows(rng, c.order, 8, c.size, k/c.size, rows)
				x, out := make([]float32, k), make([]float32, rows)
				for i := range x {
					x[i] = rng.Float32()
				}
				fastest(b, rows*k, codeProducts(out, &w, x, rows))
			})
		}
	}
}

// codeProducts returns what multiplies rows with x, by GroupDots where that is taken. There is
// slack after their factors.
func codeProducts(out []float32, w *Codes, x []float32, rows int) func() {
	form := TileCodes{Bits: 8, GroupSize: w.GroupSize}
	if w.Order == Halves {
		form.Bits = 4
	}
	if !form.HasGroupDots() {
		var l Limbs
		l.Prepare(make([]byte, LimbSpace(len(x), w.Order)), x, w.Order)
		return func() { CodeDots(out, w, &l, rows) }
	}
	w.Scales, w.Biases = append(w.Scales, 0, 0, 0), append(w.Biases, 0, 0, 0)
	l := make([]GroupLimbs, 1)
	l[0].Prepare(make([]float32, GroupLimbSpace(len(x), w.Order, w.GroupSize)), x, w.Order, w.GroupSize)
	return func() { GroupDots(out, rows, w, l, rows) }
}

// TestUnpackCodes compares every form with the definition of the bit stream.
func TestUnpackCodes(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 11))
	forLevels(t, func(t *testing.T) {
		for range 200 {
			bits, n := []int{2, 3, 4, 5, 6, 8}[rng.IntN(6)], 32*(1+rng.IntN(9))
			codes, dst := make([]byte, n/8*bits+rng.IntN(2)*rng.IntN(40)), make([]byte, n)
			for i := range codes {
				codes[i] = byte(rng.Uint32())
			}
			var table *Table
			if bits == 4 && rng.IntN(2) == 1 {
				table = &Table{3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 0}
			}
			UnpackCodes(dst, codes, bits, table)
			for i, got := range dst {
				want := byte(0)
				for bit := range bits {
					at := i*bits + bit
					want |= codes[at/8] >> (at % 8) & 1 << bit
				}
				if table != nil {
					want = table[want]
				}
				require.Equal(t, want, got, "%d bits, code %d of %d", bits, i, n)
			}
		}
	})
}

// BenchmarkCodeDotsMemory streams 32 MB of codes.
func BenchmarkCodeDotsMemory(b *testing.B) {
	const rows, k = 1 << 16, 1024
	w := randomCodeRows(rand.New(rand.NewPCG(8, 8)), Halves, 4, 128, k/128, rows)
	out := make([]float32, 64)
	piece := w
	multiply := codeProducts(out, &piece, randomNumbers(rand.New(rand.NewPCG(8, 9)), k), 64)
	w.Scales, w.Biases = piece.Scales, piece.Biases // with slack
	fastest(b, rows*k, func() {
		for row := 0; row < rows; row += 64 {
			piece.Data, piece.Scales, piece.Biases = w.Data[row*w.Stride:], w.Scales[row*8:], w.Biases[row*8:]
			multiply()
		}
	})
}
