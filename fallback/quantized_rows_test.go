package fallback

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/fallback/internal/simd"
	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/opdef"
)

// quantizedForms lists all formats of weights.
var quantizedForms = func() (all []Quantization) {
	for _, bits := range []int{2, 3, 4, 5, 6, 8} {
		for _, group := range []int{32, 64, 128} {
			all = append(all, Quantization{GroupSize: group, Bits: bits})
		}
	}
	for _, mode := range []opdef.Mode{opdef.ModeMXFP4, opdef.ModeNVFP4, opdef.ModeMXFP8} {
		all = append(all, small[mode])
	}
	return all
}()

// randomQuantized returns a random matrix [n, k], sometimes with words, scales and biases that do not follow one another.
func randomQuantized(t *testing.T, rng *rand.Rand, q Quantization, n, k int) (w, scales, biases array.Array) {
	t.Helper()
	words := k * q.Bits / 32
	wordsApart := 1 + rng.IntN(4)/3
	w, err := array.New(array.Uint32, n, words*wordsApart)
	require.NoError(t, err)
	w.Shape, w.Strides = []int{n, words}, []int{w.Strides[0], wordsApart}
	for i := range w.Data {
		w.Data[i] = byte(rng.Uint32())
	}
	groups := k / q.GroupSize
	factors := func(dtype array.DType, apart int) array.Array { // with others before and after
		before := rng.IntN(4)
		a, err := array.New(dtype, before+n*groups*apart+rng.IntN(4))
		require.NoError(t, err)
		a.Layout = array.Layout{Shape: []int{n, groups}, Strides: []int{groups * apart, apart}, Offset: before}
		return a
	}
	apart := 1 + rng.IntN(2)
	if q.Mode != opdef.ModeAffine {
		scales = factors(array.Uint8, apart)
		for i := range scales.Data {
			scales.Data[i] = byte(100 + rng.IntN(20))
		}
		if q.Bits == 8 {
			for i := range w.Data {
				w.Data[i] &= 0x3f
			}
		}
		return w, scales, array.Array{}
	}
	scales = factors(floatTypes[rng.IntN(len(floatTypes))], apart)
	if biases = factors(scales.DType, apart); rng.IntN(4) == 0 {
		biases = factors(floatTypes[rng.IntN(len(floatTypes))], 3-apart)
	}
	for _, a := range []array.Array{scales, biases} {
		for i := range len(a.Data) / a.DType.Size() {
			setAt(a, i, rng.Float64()-0.5)
		}
	}
	return w, scales, biases
}

// The vector form of scales gives what the tables say.
func TestHalfScales(t *testing.T) {
	codes := make([]uint8, 256)
	for i := range codes {
		codes[i] = uint8(i)
	}
	for _, level := range simd.Levels() {
		defer simd.Use(simd.Use(level))
		for form, values := range map[simd.ScaleForm]*[256]float32{simd.E8M0: &e8m0Values, simd.E4M3: &e4m3Values} {
			for _, n := range []int{255, 256} {
				scales, biases := make([]float32, 257), make([]float32, 257)
				done, largest := simd.HalfScales(scales, biases, codes[:n], form)
				if level >= simd.AVX512 && level <= simd.AMX {
					require.Equal(t, n-n%16, done)
					require.EqualValues(t, done-1, largest)
				}
				require.Zero(t, scales[done])
				require.Zero(t, biases[done])
				for i := range done {
					half, six := values[i]/2, -6*values[i]
					require.True(t, scales[i] == half || half != half && scales[i] != scales[i], "%v: %d: %v, %v", level, i, scales[i], half)
					require.True(t, biases[i] == six || six != six && biases[i] != biases[i], "%v: %d: %v, %v", level, i, biases[i], six)
				}
			}
		}
	}
}

// Every number of 8 bits is decoded as the tables say, with every scale.
func TestDecodeE4M3(t *testing.T) {
	codes := make([]uint8, 256)
	for i := range codes {
		codes[i] = uint8(i)
	}
	for _, level := range simd.Levels() {
		defer simd.Use(simd.Use(level))
		for scale, power := range e8m0Values {
			got := make([]float32, 256)
			if !simd.DecodeE4M3(got, codes, slices.Repeat([]uint8{uint8(scale)}, 8)) {
				require.True(t, level == simd.Generic || level == simd.NEON)
				continue
			}
			for i, v := range got {
				want := power * e4m3Values[i]
				require.True(t, v == want && math.Signbit(float64(v)) == math.Signbit(float64(want)) || v != v && want != want, "%v: %d·2^%d: %v, %v", level, i, scale-127, v, want)
			}
		}
	}
}

// Scales and biases of 16 bits that lie as usual are not copied.
func TestFactorsInPlace(t *testing.T) {
	for _, level := range simd.Levels() {
		defer simd.Use(simd.Use(level))
		w, scales, biases := array.Array{}, array.Array{}, array.Array{}
		for a, shape := range map[*array.Array]struct {
			dtype array.DType
			cols  int
		}{&w: {array.Uint32, 64}, &scales: {array.BFloat16, 4}, &biases: {array.BFloat16, 4}} {
			var err error
			*a, err = array.New(shape.dtype, 8, shape.cols)
			require.NoError(t, err)
		}
		m, err := newQuantizedRows(w, scales, biases, Quantization{GroupSize: 128, Bits: 4})
		require.NoError(t, err)
		var p preparedRows
		m.Reset(&p, 1)
		require.Equal(t, m.hasGroupDots(), m.factorsInPlace(&p, 8), "%v", level)
	}
}

// TestQuantizedRows compares products, computed in ranges by every instruction
// set, with those of dequantized rows.
func TestQuantizedRows(t *testing.T) {
	rng := rand.New(rand.NewPCG(21, 21))
	for _, level := range simd.Levels() {
		defer simd.Use(simd.Use(level))
		for i, q := range quantizedForms {
			k, n := 128*(1+rng.IntN(6)), 1+rng.IntN(70)
			k -= 16 * rng.IntN(8)
			k = max(k-k%q.GroupSize, q.GroupSize)
			k -= k * q.Bits % 32 / q.Bits // whole words
			w, scales, biases := randomQuantized(t, rng, q, n, k)
			if q.Mode == opdef.ModeMXFP4 && level%2 == 0 {
				scales.Data[rng.IntN(len(scales.Data))] = 253 // 2^126, of which 6 exceed float32
			}
			m, err := newQuantizedRows(w, scales, biases, q)
			require.NoError(t, err)
			require.Equal(t, []int{n, k}, []int{m.N(), m.K()})
			plain, err := array.New(array.Float32, n, k)
			require.NoError(t, err)
			require.NoError(t, Dequantize(w, scales, biases, plain, q))
			few := []int{1 + rng.IntN(maxFewRows)}
			if q.Mode == opdef.ModeMXFP4 || q.Mode == opdef.ModeNVFP4 { // which take several forms
				few = []int{1, 2, 3, 4, 5, 6, 7, 8, 9}
			}
			for _, rows := range append(few, []int{20, 70}[i%2]) {
				checkRows(t, rng, m, storage[float32](&plain), rows, fmt.Sprintf("%v: %+v, %d rows, %d×%d", level, q, rows, n, k))
			}
		}
	}
}

func checkRows(t *testing.T, rng *rand.Rand, m *quantizedRows, plain []float32, rows int, name string) {
	t.Helper()
	n, k := m.N(), m.K()
	x := make([]float32, rows*k)
	for i := range x {
		x[i] = float32(rng.NormFloat64()) * 0x1p-3
	}
	var p preparedRows
	m.Reset(&p, rows)
	for i := range rows {
		p.Set(i, x[i*k:(i+1)*k])
	}
	whole, pieces := make([]float32, rows*n), make([]float32, rows*n)
	m.multiplyRows(whole, n, &p, 0, p.rows, 0, n)
	for lo := 0; lo < n; {
		hi := min(n, lo+1+rng.IntN(40))
		cut := grain * rng.IntN((rows+grain-1)/grain)
		m.multiplyRows(pieces[lo:], n, &p, 0, cut, lo, hi)
		m.multiplyRows(pieces[cut*n+lo:], n, &p, cut, rows, lo, hi)
		lo = hi
	}
	for i := range rows {
		for j := range n {
			want, most := 0.0, 0.0
			for l := range k {
				term := float64(x[i*k+l]) * float64(plain[j*k+l])
				want += term
				most += math.Abs(term)
			}
			require.InDelta(t, want, whole[i*n+j], 2e-5*most+1e-30, name)
			require.Equal(t, math.Float32bits(whole[i*n+j]), math.Float32bits(pieces[i*n+j]), name)
		}
	}
}

// Up to InvariantRows, a row's products do not depend on how many rows there are, nor on others that
// are not finite.
func TestInvariantRows(t *testing.T) {
	rng := rand.New(rand.NewPCG(23, 23))
	for _, level := range simd.Levels() {
		defer simd.Use(simd.Use(level))
		most := min(40, InvariantRows())
		require.Equal(t, simd.HasTiles(), most == 40)
		for _, q := range quantizedForms {
			if q.Mode != opdef.ModeAffine && q.Mode != opdef.ModeMXFP4 {
				continue
			}
			k, n := q.GroupSize*(1+rng.IntN(9)), 1+rng.IntN(70)
			w, scales, biases := randomQuantized(t, rng, q, n, k)
			if q.Mode == opdef.ModeMXFP4 {
				scales.Data[rng.IntN(len(scales.Data))] = 253 // 2^126, of which 6 exceed float32
			} else if q.Mode == opdef.ModeAffine && rng.IntN(2) == 0 { // some products are -0
				for _, a := range []array.Array{scales, biases} {
					for i := range len(a.Data) / a.DType.Size() {
						setAt(a, i, rng.NormFloat64()*0x1p-140)
					}
				}
			}
			m, err := newQuantizedRows(w, scales, biases, q)
			require.NoError(t, err)
			x := make([]float32, 40*k)
			for i := range x {
				x[i] = float32(rng.NormFloat64() * math.Exp2(float64(rng.IntN(20)-10)))
			}
			for i := range 5 * k {
				x[20*k+i] *= 0x1p-20
			}
			for range 5 {
				x[rng.IntN(len(x))] = float32(math.Inf(1))
			}
			x[35*k], x[35*k+1] = math.MaxFloat32, math.MaxFloat32 // their sum is not finite
			products := func(first, rows int) []float32 {
				var p preparedRows
				m.Reset(&p, rows)
				for i := range rows {
					p.Set(i, x[(first+i)*k:(first+i+1)*k])
				}
				out := make([]float32, rows*n)
				cut := min(rows, grain) // as two workers do
				m.multiplyRows(out, n, &p, 0, cut, 0, n)
				m.multiplyRows(out[cut*n:], n, &p, cut, rows, 0, n)
				return out
			}
			all := make([]float32, 0, 40*n)
			for first := 0; first < 40; first += most {
				all = append(all, products(first, most)...)
			}
			for first, rows := 0, 1; first < 40; first, rows = first+rows, min(1+rng.IntN(min(9, most)), 40-first-rows) {
				for i, v := range products(first, rows) {
					require.Equal(t, math.Float32bits(all[first*n+i]), math.Float32bits(v), "%v: %+v, %d and %d rows, %d×%d", level, q, rows, most, n, k)
				}
			}
		}
	}
}

// Numbers that only a part of a product makes too large for float32 have finite products with any number of rows.
func TestHugeNumbers(t *testing.T) {
	const n, k, huge = 4, 128, 3e38
	w := must(t, slices.Repeat([]uint32{0x99999999}, n*k/8), n, k/8) // 9 in every place
	scales, biases := must(t, slices.Repeat([]float32{0.25}, n), n, 1), must(t, slices.Repeat([]float32{-2}, n), n, 1)
	m, err := newQuantizedRows(w, scales, biases, Quantization{GroupSize: k, Bits: 4})
	require.NoError(t, err)
	for _, level := range simd.Levels() {
		defer simd.Use(simd.Use(level))
		for _, rows := range []int{1, 2, 4, 9, 16, 40} {
			var p preparedRows
			m.Reset(&p, rows)
			for i := range rows {
				x := make([]float32, k)
				x[i] = huge
				p.Set(i, x)
			}
			out := make([]float32, rows*n)
			m.multiplyRows(out, n, &p, 0, p.rows, 0, n)
			for _, v := range out {
				require.InEpsilon(t, huge*(0.25*9-2), v, 1e-5, "%v, %d rows", level, rows)
			}
		}
	}
}

// A row with an infinity is computed without whole numbers, and changes nothing for the others; nor does a scale that is
// NaN for other rows of the matrix.
func TestRowsThatAreNotFinite(t *testing.T) {
	rng := rand.New(rand.NewPCG(22, 22))
	for _, level := range simd.Levels() {
		defer simd.Use(simd.Use(level))
		for _, q := range []Quantization{{GroupSize: 64, Bits: 4}, small[opdef.ModeMXFP4], small[opdef.ModeNVFP4]} {
			for _, rows := range []int{2, 4, 5, 40} {
				checkNotFinite(t, rng, q, rows)
			}
		}
	}
}

func checkNotFinite(t *testing.T, rng *rand.Rand, q Quantization, rows int) {
	t.Helper()
	const n, k, undefined = 33, 128, 3 // a row of w
	infinite := rng.IntN(rows)
	w, scales, biases := randomQuantized(t, rng, q, n, k)
	if q.Mode == opdef.ModeNVFP4 {
		scales.Data[scales.Offset+undefined*scales.Strides[0]+scales.Strides[1]] = 0x7f
	}
	x, one, out, alone := must(t, make([]float32, rows*k), rows, k), must(t, make([]float32, k), 1, k), must(t, make([]float32, rows*n), rows, n), must(t, make([]float32, n), 1, n)
	for i := range storage[float32](&x) {
		storage[float32](&x)[i] = float32(rng.NormFloat64())
	}
	storage[float32](&x)[infinite*k+7] = float32(math.Inf(1))
	require.NoError(t, QuantizedMatMulTransposed(x, w, scales, biases, out, q))
	for i := range rows {
		copy(storage[float32](&one), storage[float32](&x)[i*k:])
		require.NoError(t, QuantizedMatMulTransposed(one, w, scales, biases, alone, q))
		products, largest := storage[float32](&alone), 0.0
		for _, v := range products {
			if v-v == 0 {
				largest = max(largest, math.Abs(float64(v)))
			}
		}
		for j, want := range products {
			got := storage[float32](&out)[i*n+j]
			switch {
			case q.Mode == opdef.ModeNVFP4 && j == undefined:
				require.True(t, got != got && want != want, "%+v, %d rows: %v, %v", q, rows, got, want)
			case i == infinite:
				require.False(t, got-got == 0, "%+v, %d rows: %v", q, rows, got)
			default:
				require.InDelta(t, want, got, 1e-5*largest, "%+v, %d rows", q, rows)
			}
		}
	}
}
