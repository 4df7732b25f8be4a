package simd

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// BenchmarkPrepare prints nanoseconds per 1,000 elements.
func BenchmarkPrepare(b *testing.B) {
	const k = 4096
	x := randomNumbers(rand.New(rand.NewPCG(14, 14)), k)
	for _, order := range []Order{Natural, Halves} {
		for _, level := range Levels() {
			b.Run(fmt.Sprintf("order=%d/%v", order, level), func(b *testing.B) {
				defer Use(Use(level))
				var l Limbs
				space := make([]byte, LimbSpace(k, order))
				fastest(b, k, func() { l.Prepare(space, x, order) })
			})
		}
	}
}

// BenchmarkUnpack prints nanoseconds per 1,000 codes.
func BenchmarkUnpack(b *testing.B) {
	const n = 4096
	for _, bits := range []int{2, 3, 4, 5, 6} {
		for _, level := range Levels() {
			b.Run(fmt.Sprintf("bits=%d/%v", bits, level), func(b *testing.B) {
				defer Use(Use(level))
				codes, dst := make([]byte, n/8*bits), make([]byte, n)
				fastest(b, n, func() { UnpackCodes(dst, codes, bits, nil) })
			})
		}
	}
}
