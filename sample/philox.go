package sample

// philox4x32 is the counter-based generator Philox 4x32-10 of Salmon et al.,
// "Parallel random numbers: as easy as 1, 2, 3" (SC 2011). The same counter
// and key give the same four words everywhere; there is no state.
func philox4x32(counter [4]uint32, key [2]uint32) [4]uint32 {
	const (
		mul0, mul1   = 0xD2511F53, 0xCD9E8D57
		weyl0, weyl1 = 0x9E3779B9, 0xBB67AE85
		rounds       = 10
	)
	c, k := counter, key
	for range rounds {
		p0 := uint64(c[0]) * mul0
		p1 := uint64(c[2]) * mul1
		c = [4]uint32{
			uint32(p1>>32) ^ c[1] ^ k[0], uint32(p1),
			uint32(p0>>32) ^ c[3] ^ k[1], uint32(p0),
		}
		k[0] += weyl0
		k[1] += weyl1
	}
	return c
}

// Uniform returns a number in [0, 1) that depends on seed and step alone, with
// 32 random bits.
func Uniform(seed, step uint64) float64 {
	r := philox4x32(
		[4]uint32{uint32(step), uint32(step >> 32), 0, 0},
		[2]uint32{uint32(seed), uint32(seed >> 32)},
	)
	return float64(r[0]) / (1 << 32)
}
