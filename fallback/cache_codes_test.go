package fallback

import (
	"math"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/fallback/internal/simd"
	"github.com/kompute-go/kompute-go/internal/array"
)

// Codes are read alike by every instruction set, at most half a scale away from what
// was written.
func TestHeadCodes(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 1))
	for _, d := range []int{4, 20, 32, 64, 96, 128} {
		const n = 5
		row := CacheRow(array.Uint8, d)
		require.Equal(t, d, CacheHead(array.Uint8, row))
		stride := row + 8
		pages, values := make([]uint8, (n-1)*stride+row), make([]float32, n*d)
		for i := range values {
			values[i] = float32(r.NormFloat64() * math.Exp2(float64(i/32%40-20)))
		}
		for i := range n {
			encodeHead(pages[i*stride:][:row], values[i*d:(i+1)*d])
		}
		var want []float32
		for _, level := range simd.Levels() {
			previous := simd.Use(level)
			got := make([]float32, n*d)
			loadHeads(got, pages, stride, n, d)
			vector := simd.DecodeHeads(got, pages, stride, n, d, 128)
			short := func() { simd.DecodeHeads(got, pages[:len(pages)-1], stride, n, d, 128) }
			if vector {
				require.Panics(t, short)
			}
			simd.Use(previous)
			require.Equal(t, d%32 == 0 && level != simd.Generic && runtime.GOARCH == "amd64", vector, "%v", level)
			if want == nil {
				want = got
			}
			require.Equal(t, want, got, "%v", level)
		}
		for i := range n {
			for g := 0; g < d; g += 32 {
				part := values[i*d+g : i*d+min(g+32, d)]
				scale, _ := groupScale(part)
				for j, v := range part {
					require.InDelta(t, v, want[i*d+g+j], float64(scale)*0.50001)
				}
			}
		}
	}
	for _, row := range []int{1, 4, 7, 10, 37, 40} {
		require.Equal(t, -1, CacheHead(array.Uint8, row), row)
	}
}

func BenchmarkLoadHeads(b *testing.B) {
	const n, d = 64, 128
	row := CacheRow(array.Uint8, d)
	pages, to := make([]uint8, n*row), make([]float32, n*d)
	for b.Loop() {
		loadHeads(to, pages, row, n, d)
	}
}

func BenchmarkEncodeHead(b *testing.B) {
	values := make([]float32, 128)
	for i := range values {
		values[i] = float32(i)
	}
	row := make([]uint8, CacheRow(array.Uint8, len(values)))
	for b.Loop() {
		encodeHead(row, values)
	}
}
