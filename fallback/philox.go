package fallback

import "math/bits"

// Philox is the counter-based generator Philox 4x32-10 of Salmon et al.,
// "Parallel random numbers: as easy as 1, 2, 3" (SC 2011): counter and key give
// the same four words everywhere, and there is no state. shaders/include/philox.glsl
// is the same.
//
// Ops that share a seed draw from separate streams: the last word of their
// counter is a Stream.
func Philox(counter [4]uint32, key [2]uint32) [4]uint32 {
	const (
		mul0, mul1   = 0xD2511F53, 0xCD9E8D57
		weyl0, weyl1 = 0x9E3779B9, 0xBB67AE85
		rounds       = 10
	)
	c, k := counter, key
	for range rounds {
		high0, low0 := bits.Mul32(c[0], mul0)
		high1, low1 := bits.Mul32(c[2], mul1)
		c = [4]uint32{high1 ^ c[1] ^ k[0], low1, high0 ^ c[3] ^ k[1], low0}
		k[0] += weyl0
		k[1] += weyl1
	}
	return c
}
