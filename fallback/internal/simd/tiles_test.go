package simd

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTiles compares products on tiles with float64, and their bits with plain Go.
func TestTiles(t *testing.T) { forTileLevels(t, testTiles) }

// forTileLevels runs a test with every level that has tiles.
func forTileLevels(t *testing.T, test func(t *testing.T)) {
	for _, level := range Levels() {
		t.Run(level.String(), func(t *testing.T) {
			defer Use(Use(level))
			if !HasTiles() {
				t.Skip("this level has no tiles of integers")
			}
			test(t)
		})
	}
}

func testTiles(t *testing.T) {
	rng := rand.New(rand.NewPCG(12, 12))
	var x Tiles
	for _, f := range tileForms() {
		for _, rows := range []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 31, 32, 33, 40, 41, 48, 49, 65, 70} {
			checkTiles(t, rng, &x, f, rows)
		}
	}
	codes := TileCodes{Bits: 8, GroupSize: 32}
	x.Reset(1, 32, codes, make([]float32, TilesSpace(1, 32, codes)))
	row := make([]float32, 32)
	row[3] = float32(math.Inf(1))
	require.False(t, x.Set(0, row))
}

// tileForm is a form in which tiles are multiplied with codes.
type tileForm struct {
	codes TileCodes
	words bool
}

// tileForms lists those of the level in use.
func tileForms() (all []tileForm) {
	table := &Table{0, 12, 24, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 2}
	for _, codes := range []TileCodes{{4, 32, nil}, {4, 64, nil}, {4, 128, nil}, {8, 32, nil}, {8, 64, nil}, {8, 128, nil}, {4, 32, table}, {4, 16, table}} {
		all = append(all, tileForm{codes, true})
		if active == AMX && codes.fillsTiles() {
			all = append(all, tileForm{codes, false})
		}
	}
	return all
}

func checkTiles(t *testing.T, rng *rand.Rand, x *Tiles, f tileForm, rows int) {
	t.Helper()
	groups, size := 1+rng.IntN(5), f.codes.GroupSize
	k := groups * size
	x.reset(rows, k, f.codes, f.words, randomNumbers(rng, TilesSpace(rows, k, f.codes))) // what is multiplied without being set must be cleared
	numbers := make([]float32, rows*k)
	for i := range numbers {
		numbers[i] = float32(rng.NormFloat64() * math.Exp2(float64(rng.IntN(20)-10)))
	}
	for i := range rows {
		require.True(t, x.Set(i, numbers[i*k:(i+1)*k]))
	}
	requireCleared(t, x)
	largest := make([]float64, rows*groups) // elements of groups, which determine how they are rounded
	for g := range largest {
		group := numbers[g*size : (g+1)*size]
		largest[g] = float64(max(slices.Max(group), -slices.Min(group)))
	}
	w, panels := randomPanels(rng, x)
	const ldc = 65
	columns := 33 + rng.IntN(32) // the second panel is used in part
	c, same := make([]float32, rows*ldc), make([]float32, rows*ldc)
	space := Aligned(make([]float32, SumSpace(2)+15))
	x.Multiply(c, ldc, 0, min(32, rows), columns, &panels, space)
	if rows > 32 {
		x.Multiply(c[32*ldc:], ldc, 32, rows, columns, &panels, space)
	}
	multiplyTiles(same, ldc, x, w.Data, w.Stride, panels.Scales, panels.Biases)
	for i := range c {
		row, j := i/ldc, i%ldc
		switch {
		case j >= columns:
			require.Zero(t, c[i])
		case j >= 32:
			require.Equal(t, c[i-32], c[i])
		default:
			require.Equal(t, same[i], c[i], "%+v, row %d of %d, %d, k %d", f, row, rows, j, k)
			want, most := 0.0, 0.0
			for l, v := range numbers[row*k : (row+1)*k] {
				want += w.at(j, l) * float64(v)
				g := l / size
				scale, bias := float64(w.Scales[j*groups+g]), float64(w.Biases[j*groups+g])
				most += (math.Abs(scale*float64(w.Data[j*w.Stride+l])) + math.Abs(bias)) * largest[row*groups+g]
			}
			require.InDelta(t, want, c[i], 1e-6*most+1e-30, "%+v, row %d of %d, %d, k %d", f, row, rows, j, k)
		}
	}
}

// randomPanels returns a matrix of 32 rows, with what a table makes of its codes, and two panels with the same numbers.
func randomPanels(rng *rand.Rand, x *Tiles) (w Codes, panels TilePanels) {
	k, bits, size := x.k, x.codes.Bits, x.codes.GroupSize
	groups := k / size
	w = randomCodeRows(rng, Natural, bits, size, groups, 32)
	words := make([]float32, k*bits)
	for j := range 32 {
		for l := range k {
			at := l*bits/32*32 + j
			word := math.Float32bits(words[at]) | uint32(w.Data[j*w.Stride+l])<<(l*bits%32)
			words[at] = math.Float32frombits(word)
		}
	}
	codes := Aligned(make([]float32, 2*x.PanelNumbers()+15))
	if x.TakesWords() {
		copy(codes[copy(codes, words):], words)
	} else {
		x.codes.Expand(codes, words, k)
		x.codes.Expand(codes[TileNumbers(k):], words, k)
	}
	for i, code := range w.Data {
		if x.codes.Table != nil {
			w.Data[i] = x.codes.Table[code]
		}
	}
	scales, biases := make([]float32, 32*groups), make([]float32, 32*groups)
	for j := range 32 {
		for g := range groups {
			scales[g*32+j], biases[g*32+j] = w.Scales[j*groups+g], w.Biases[j*groups+g]
		}
	}
	return w, TilePanels{2, codes, append(scales, scales...), append(biases, biases...), make([]byte, 5000)}
}

// requireCleared checks the rows that are multiplied although they do not exist.
func requireCleared(t *testing.T, x *Tiles) {
	last := x.rows / tileRows * tileRows
	for row := x.rows; row < last+x.multipliedRows(x.rows-last); row++ {
		limbs, factors := x.place(row)
		for i := range 3 * x.k / x.step {
			require.Zero(t, slices.Max(x.limbs[limbs+2*i*x.tileBytes():][:x.step]))
		}
		for g := range x.k / x.codes.GroupSize {
			require.Zero(t, x.factors[factors+2*tileRows*g])
			require.Zero(t, x.factors[factors+2*tileRows*g+tileRows])
		}
	}
}

// multiplyTiles does what the kernels do, in their order.
func multiplyTiles(c []float32, ldc int, x *Tiles, codes []byte, stride int, scales, biases []float32) {
	groups := x.k / x.codes.GroupSize
	for i := range x.rows {
		limbs, factors := x.place(i)
		for j := range 32 {
			var sum float32
			for g := range groups {
				var sums [3]int32
				for l := g * x.codes.GroupSize; l < (g+1)*x.codes.GroupSize; l++ {
					step, at := l/x.step, l%x.step
					code := codes[j*stride+l]
					if x.codes.EvenFirst() { // the even ones of eight first
						at = at/8*8 + at%2*4 + at%8/2
					}
					for limb := range sums {
						sums[limb] += int32(code) * int32(int8(x.limbs[limbs+(step*3+limb)*2*x.tileBytes()+at]))
					}
				}
				power, total := x.factors[factors+2*tileRows*g], x.factors[factors+2*tileRows*g+tileRows]
				n := fma32(float32(sums[0]), 65536, float32(sums[1]<<8+sums[2]))
				sum = fma32(n, scales[g*32+j]*power, fma32(biases[g*32+j], total, sum))
			}
			c[i*ldc+j] = sum
		}
	}
}

func BenchmarkTiles(b *testing.B) {
	for _, level := range Levels() {
		b.Run(level.String(), func(b *testing.B) {
			defer Use(Use(level))
			if !HasTiles() {
				b.Skip("multiplies floats")
			}
			benchmarkTiles(b)
		})
	}
}

func benchmarkTiles(b *testing.B) {
	const rows, k, size = 256, 1024, 128
	rng := rand.New(rand.NewPCG(13, 13))
	var x Tiles
	codes := TileCodes{Bits: 8, GroupSize: size}
	x.Reset(rows, k, codes, make([]float32, TilesSpace(rows, k, codes)))
	for i := range rows {
		x.Set(i, randomNumbers(rng, k))
	}
	const panels, width = 4, 4 * 32
	words, factors, c := randomNumbers(rng, 32*k/4), randomNumbers(rng, width*k/size), make([]float32, rows*width)
	tiles, space := Aligned(make([]float32, panels*TileNumbers(k)+15)), Aligned(make([]float32, SumSpace(panels)+15))
	fastest(b, rows*width*k, func() {
		for i := range panels {
			if x.TakesWords() {
				copy(tiles[i*TileNumbers(k):], words)
				continue
			}
			x.codes.Expand(tiles[i*TileNumbers(k):], words, k)
		}
		x.Multiply(c, width, 0, rows, width, &TilePanels{Count: panels, Codes: tiles, Scales: factors, Biases: factors}, space)
	})
}
