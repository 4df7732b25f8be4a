package simd

import (
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/array"
)

// forLevels runs a test with every instruction set of this processor.
func forLevels(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	for _, level := range Levels() {
		t.Run(level.String(), func(t *testing.T) {
			defer Use(Use(level))
			require.Equal(t, level, Active())
			f(t)
		})
	}
}

func sameFloat(a, b float32) bool {
	return math.Float32bits(a) == math.Float32bits(b) || a != a && b != b
}

func TestWidenEveryHalf(t *testing.T) {
	forLevels(t, func(t *testing.T) {
		all, out := make([]uint16, 1<<16), make([]float32, 1<<16)
		for i := range all {
			all[i] = uint16(i)
		}
		FromF16(out, all)
		for i, v := range out {
			require.True(t, sameFloat(array.F16(i).Float32(), v), "%#x: %v", i, v)
		}
		FromBF16(out, all)
		for i, v := range out {
			require.True(t, sameFloat(array.BF16(i).Float32(), v), "%#x: %v", i, v)
		}
		for n := range 80 { // in pieces, and what is left of them
			some := make([]float32, n+1)
			FromBF16(some[:n], all[0x4000:0x4000+n])
			require.Equal(t, out[0x4000:0x4000+n], some[:n])
			require.Zero(t, some[n])
		}
		before := make([]float32, len(out)+3) // an odd number in all
		for i := range before {
			before[i] = float32(i%7) - 3
		}
		sums := slices.Clone(before)
		AddF16(sums, append(all, 1, 2, 3))
		for i, v := range sums {
			require.True(t, sameFloat(before[i]+array.F16(uint16(i%len(all)+i/len(all))).Float32(), v), "%#x: %v", i, v)
		}
		sums = slices.Clone(before)
		AddBF16(sums, append(all, 1, 2, 3))
		for i, v := range sums {
			require.True(t, sameFloat(before[i]+array.BF16(uint16(i%len(all)+i/len(all))).Float32(), v), "%#x: %v", i, v)
		}
	})
}

func TestNarrow(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	in := make([]float32, 1<<18+5)
	for i := range in {
		in[i] = math.Float32frombits(rng.Uint32())
		if i%2 == 0 { // near the numbers, and the ties, of 16 bits
			in[i] = array.F16(rng.Uint32()).Float32() * (1 + float32(rng.IntN(5)-2)*0x1p-12)
		}
	}
	forLevels(t, func(t *testing.T) {
		out := make([]uint16, len(in))
		ToF16(out, in)
		for i, v := range in {
			want, got := array.F16FromFloat32(v), array.F16(out[i])
			if !sameFloat(want.Float32(), got.Float32()) {
				require.Failf(t, "binary16", "%v: want %#x, got %#x", v, want, got)
			}
		}
		ToBF16(out, in)
		for i, v := range in {
			want, got := array.BF16FromFloat32(v), array.BF16(out[i])
			if want != got {
				require.Failf(t, "bfloat16", "%v: want %#x, got %#x", v, want, got)
			}
		}
	})
}

func TestExp(t *testing.T) {
	special := []float32{0, float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()), -103.9, -104.1, 88.8, 88.7, -87.4, 1e30, -1e30, math.SmallestNonzeroFloat32}
	in := make([]float32, 0, 40000)
	in = append(in, special...)
	for x := float32(-105); x < 90; x += 0.005 {
		in = append(in, x)
	}
	forLevels(t, func(t *testing.T) {
		out := make([]float32, len(in))
		sum := ExpSum(out, in, 0)
		require.True(t, sum != sum)
		for i, v := range in {
			want := math.Exp(float64(v))
			if v < -87 {
				want = 0
			}
			w := float32(want)
			if w != w || math.IsInf(float64(w), 0) {
				require.True(t, sameFloat(w, out[i]), "e^%v: %v", v, out[i])
				continue
			}
			require.LessOrEqual(t, math.Abs(float64(out[i])-want), 3e-7*want+2*math.SmallestNonzeroFloat32, "e^%v: %v", v, out[i])
		}
		require.InDelta(t, math.E+1, ExpSum(out[:2], []float32{3, 2}, 2), 1e-6)
	})
}

func TestMaxAndScale(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	forLevels(t, func(t *testing.T) {
		require.Equal(t, float32(math.Inf(-1)), Max(nil))
		for n := 1; n < 70; n++ {
			x, want := make([]float32, n), float32(math.Inf(-1))
			for i := range x {
				x[i] = rng.Float32() - 2
				want = max(want, x[i])
			}
			require.Equal(t, want, Max(x))
			y := append([]float32{}, x...)
			Scale(y, -3)
			for i := range x {
				require.Equal(t, x[i]*-3, y[i])
			}
			x[rng.IntN(n)] = float32(math.NaN())
			m := Max(x)
			require.True(t, m != m)
		}
	})
}

// TestMatrices compares every instruction set with float64, around the sizes
// where one kernel hands over to another.
func TestMatrices(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	random := func(n int) []float32 {
		out := make([]float32, n)
		for i := range out {
			out[i] = rng.Float32() - 0.5
		}
		return out
	}
	forLevels(t, func(t *testing.T) {
		for range 150 {
			m, n, k := 1+rng.IntN(9), 1+rng.IntN(150), 1+rng.IntN(60)
			lda, ldb, ldt, ldc := k+rng.IntN(3), n+rng.IntN(3), k+rng.IntN(3), n+rng.IntN(3)
			a, b, bt, c := random(m*lda), random(k*ldb), random(n*ldt), random(m*ldc)
			for i := range n {
				for l := range k {
					bt[i*ldt+l] = b[l*ldb+i]
				}
			}
			add := rng.IntN(2) == 1
			want := append([]float32{}, c...)
			for i := range m {
				for j := range n {
					sum := 0.0
					if add {
						sum = float64(c[i*ldc+j])
					}
					for l := range k {
						sum += float64(a[i*lda+l]) * float64(b[l*ldb+j])
					}
					want[i*ldc+j] = float32(sum)
				}
			}
			d := append([]float32{}, c...)
			MulAdd(c, ldc, a, lda, m, b, ldb, n, k, add)
			Dots(d, ldc, a, lda, m, bt, ldt, n, k, add)
			require.InDeltaSlice(t, want, c, 1e-5)
			require.InDeltaSlice(t, want, d, 1e-5)
		}
		require.Equal(t, float32(0), Dot(nil, nil))
		c := []float32{7}
		Dots(c, 1, nil, 0, 1, nil, 0, 1, 0, true)
		MulAdd(c, 1, nil, 0, 1, nil, 0, 1, 0, true)
		require.Equal(t, float32(7), c[0])
		MulAdd(c, 1, nil, 0, 1, nil, 0, 1, 0, false)
		require.Equal(t, float32(0), c[0])
	})
}

// Products with rows of 16-bit numbers have the bits of those with the same rows in float32.
func TestNarrowDots(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 6))
	forLevels(t, func(t *testing.T) {
		for range 100 {
			m, n, k := 1+rng.IntN(5), 1+rng.IntN(20), 16*rng.IntN(20)+max(0, rng.IntN(8)-6)
			ldb, add := k+rng.IntN(20), rng.IntN(2) == 1
			a, c, wide := randomNumbers(rng, m*k), randomNumbers(rng, m*n), randomNumbers(rng, n*ldb)
			for _, of := range []struct {
				dots   func(c []float32, ldc int, a []float32, lda, m int, b []uint16, ldb, n, k int, add bool) int
				narrow func([]uint16, []float32)
				widen  func([]float32, []uint16)
			}{{DotsBF16, ToBF16, FromBF16}, {DotsF16, ToF16, FromF16}} {
				words := make([]uint16, len(wide))
				of.narrow(words, wide)
				of.widen(wide, words)
				want, got := slices.Clone(c), slices.Clone(c)
				Dots(want, n, a, k, m, wide, ldb, n, k, add)
				done := of.dots(got, n, a, k, m, words, ldb, n, k, add)
				require.True(t, done == 0 || done == n&^3 && k%16 == 0, "%d of %d rows", done, n)
				require.Equal(t, done > 0, runtime.GOARCH == "amd64" && k > 0 && k%16 == 0 && n >= 4 && eights(8) > 0)
				for i := range m {
					require.Equal(t, want[i*n:i*n+done], got[i*n:i*n+done])
					require.Equal(t, c[i*n+done:(i+1)*n], got[i*n+done:(i+1)*n])
				}
			}
		}
	})
}

// TestDequantize compares every instruction set with the plain form, with rows
// that end where the storage does.
func TestDequantize(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	for range 150 {
		bits := []int{2, 3, 4, 5, 6, 8}[rng.IntN(6)]
		size := 32 << rng.IntN(3)
		rows, groups := 1+rng.IntN(11), 1+rng.IntN(4)
		w := Weights{Groups: groups, Stride: groups + rng.IntN(2), GroupSize: size, Bits: bits}
		w.RowBytes = w.Groups*size/8*bits + 4*rng.IntN(2)
		w.Codes = make([]byte, (rows-1)*w.RowBytes+groups*size/8*bits)
		for i := range w.Codes {
			w.Codes[i] = byte(rng.Uint32())
		}
		w.Scales, w.Biases = randomNumbers(rng, rows*w.Stride), randomNumbers(rng, rows*w.Stride)
		var elements [][]float32
		for _, level := range Levels() {
			before := Use(level)
			all := make([]float32, rows*groups*size)
			Dequantize(all, groups*size, &w, rows)
			elements = append(elements, all)
			Use(before)
		}
		for i := range elements {
			require.InDeltaSlice(t, elements[0], elements[i], 1e-4)
		}
	}
}

// TestRowPairs compares products of two rows, which are multiplied together, with the
// bits of those of each alone.
func TestRowPairs(t *testing.T) {
	rng := rand.New(rand.NewPCG(15, 15))
	forLevels(t, func(t *testing.T) {
		for i := range 100 {
			n, k := 1+rng.IntN(150), 1+rng.IntN(150)
			if i%4 == 0 {
				k = 128 // a kernel of its own
			}
			lda, ldc, add := max(n, k)+rng.IntN(3), n+rng.IntN(3), rng.IntN(2) == 1
			a, b := randomNumbers(rng, 2*lda), randomNumbers(rng, k*n)
			for name, multiply := range map[string]func(c, a []float32, m int){
				"dots":    func(c, a []float32, m int) { Dots(c, ldc, a, lda, m, b, k, n, k, add) },
				"mul add": func(c, a []float32, m int) { MulAdd(c, ldc, a, lda, m, b, n, n, k, add) },
			} {
				both := randomNumbers(rng, 2*ldc)
				each := append([]float32{}, both...)
				multiply(both, a, 2)
				multiply(each, a, 1)
				multiply(each[ldc:], a[lda:], 1)
				require.Equal(t, each, both, "%s of %d numbers, %d results", name, k, n)
			}
		}
	})
}

// Prefetching changes no memory and ends no process, and touches nothing past the end.
func TestPrefetch(t *testing.T) {
	Prefetch(nil)
	PrefetchNear(nil)
	PrefetchToWrite(nil)
	for n := 1; n < 70; n++ {
		numbers := make([]uint16, n)
		for i := range numbers {
			numbers[i] = uint16(i + 1)
		}
		guarded := atTheEnd(0, numbers)
		data := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(guarded))), 2*n)
		Prefetch(data)
		PrefetchNear(data)
		PrefetchToWrite(data)
		require.Equal(t, numbers, guarded)
	}
}
