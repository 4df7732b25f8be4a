package simd

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// Products with heads of every form have the bits of those with the same heads in float32.
func TestHeads(t *testing.T) {
	rng := rand.New(rand.NewPCG(21, 21))
	forLevels(t, func(t *testing.T) {
		require.False(t, TakesHeads(1, 128))
		require.False(t, TakesHeads(2, 96))
		require.Equal(t, runtime.GOARCH == "amd64" && active >= AVX512, TakesHeads(2, 64))
		if !TakesHeads(2, 64) {
			return
		}
		for form := range headForms {
			for range 60 {
				checkHeads(t, rng, form)
			}
		}
	})
}

func checkHeads(t *testing.T, rng *rand.Rand, form HeadForm) {
	t.Helper()
	m, n, d := 2+2*rng.IntN(3), 1+rng.IntN(40), 64+64*rng.IntN(2)
	stride := form.headBytes(d) + 4*rng.IntN(9)
	heads, floats := randomHeads(rng, form, n, d, stride)
	a, ldc := randomNumbers(rng, m*d), n+rng.IntN(5)
	want, got := randomNumbers(rng, m*ldc), make([]float32, m*ldc)
	copy(got, want)
	done := HeadDots(got, ldc, a, m, d, heads, stride, n, form)
	require.Equal(t, n&^3, done)
	Dots(want, ldc, a, d, m, floats, d, done, d, false)
	require.Equal(t, want, got, "form %d, %d rows, %d heads of %d", form, m, n, d)

	weights, sums := randomNumbers(rng, m*ldc), randomNumbers(rng, m*d)
	wanted := slices.Clone(sums)
	HeadMulAdd(sums, weights, ldc, m, d, heads, stride, n, form)
	MulAdd(wanted, d, weights, ldc, m, floats, d, d, n, true)
	require.Equal(t, wanted, sums, "form %d, %d rows, %d heads of %d", form, m, n, d)
	require.Panics(t, func() { HeadMulAdd(sums, weights, ldc, m, d, heads[:len(heads)-1], stride, n, form) })
}

// randomHeads returns n heads as they are stored, and as floats.
func randomHeads(rng *rand.Rand, form HeadForm, n, d, stride int) (heads []byte, floats []float32) {
	heads, floats = make([]byte, (n-1)*stride+form.headBytes(d)), randomNumbers(rng, n*d)
	for i := range n {
		head, row := heads[i*stride:], floats[i*d:(i+1)*d]
		words := make([]uint16, d)
		switch form {
		case HeadsBF16:
			ToBF16(words, row)
			FromBF16(row, words)
		case HeadsF16:
			ToF16(words, row)
			FromF16(row, words)
		default:
			for g := range d / 32 {
				scale := float32(math.Exp2(float64(rng.IntN(20)-10)) * (1 + rng.Float64()))
				binary.LittleEndian.PutUint32(head[d+4*g:], math.Float32bits(scale))
				for j := range 32 {
					code := rng.IntN(256)
					head[32*g+j], row[32*g+j] = byte(code), float32(code-128)*scale
				}
			}
			continue
		}
		for j, w := range words {
			binary.LittleEndian.PutUint16(head[2*j:], w)
		}
	}
	return heads, floats
}
