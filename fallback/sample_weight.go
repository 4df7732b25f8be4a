package fallback

import (
	"math"
	"math/bits"
)

// The weight of a token is 2^-y in units of 2^-40, where y is how far its logit
// is below the largest one, in powers of two at the temperature. It is computed
// in integer arithmetic with truncation, so that all backends have the same
// weights to the last bit, and their sums do not depend on an order.
// shaders/include/sample.glsl is the same.
//
// The error of a weight is less than 2e-8 of itself plus 2^-40 of the largest one.
const (
	weightBits    = 40
	exponentBits  = 26 // of y, after the binary point
	farthest      = math.MaxUint32
	unlikeliest   = 0x0080_0000 // the key of -Inf
	beyondNumbers = 0xff80_0000 // the key of +Inf; those above are of NaNs
)

// scale is mantissa * 2^exponent, the mantissa in [2^31, 2^32).
type scale struct {
	mantissa uint32
	exponent int32
}

// natural takes differences of logits to powers of two: log2(e).
var natural = scale{0xb8aa3b29, -31}

// sampleKey orders float32 numbers as integers: both zeros are equal.
func sampleKey(v float32) uint32 {
	u := math.Float32bits(v)
	switch {
	case u<<1 > 0xff<<24:
		return math.MaxUint32 // NaN
	case u>>31 != 0:
		return 1<<31 - u&^(1<<31)
	}
	return 1<<31 + u
}

// keyParts returns what a finite float32 consists of: its value is
// ±mantissa * 2^(exponent-150).
func keyParts(key uint32) (mantissa uint32, exponent int32, negative bool) {
	magnitude := key - 1<<31
	if key < 1<<31 {
		magnitude, negative = 1<<31-key, true
	}
	exponent, mantissa = int32(magnitude>>23), magnitude&0x7fffff
	if exponent == 0 {
		return mantissa, 1, negative
	}
	return mantissa | 0x800000, exponent, negative
}

// exponentBelow returns y for the number of a key below the best one, at c, in
// units of 2^-26; farthest stands for all values from 64 on.
func exponentBelow(best, key uint32, c scale) uint32 {
	if key <= unlikeliest {
		return farthest
	}
	ma, ea, na := keyParts(best)
	mb, eb, nb := keyParts(key)
	if ea < eb || ea == eb && ma < mb {
		ma, ea, mb, eb = mb, eb, ma, ea
	}
	// The difference in units of 2^(ea-157): 7 bits more than float32 has.
	d := ma << 7
	if na == nb {
		d -= mb << 7 >> uint(ea-eb)
	} else {
		d += mb << 7 >> uint(ea-eb)
	}
	high, low := bits.Mul32(d, c.mantissa)
	right := -(ea - 157 + c.exponent + exponentBits)
	switch {
	case right >= 64 || d == 0:
		return 0
	case right >= 32:
		return high >> uint(right-32)
	case right < 0 || high>>uint(right) != 0:
		return farthest
	case right == 0:
		return low
	}
	return high<<uint(32-right) | low>>uint(right)
}

// weightOf returns 2^-y in units of 2^-40: a polynomial fitted to (1 - 2^-f)/f
// on [0, 1), by Horner's rule in units of 2^-32.
func weightOf(y uint32) uint64 {
	n := y >> exponentBits
	if n > weightBits {
		return 0
	}
	f := y << (32 - exponentBits)
	r := mulHigh(f, 0xbda6)
	r = mulHigh(f, 0x9c200-r)
	r = mulHigh(f, 0x5728b0-r)
	r = mulHigh(f, 0x27641a9-r)
	r = mulHigh(f, 0xe358127-r)
	r = mulHigh(f, 0x3d7f7bcb-r)
	r = mulHigh(f, 0xb17217f7-r)
	return uint64(1<<31-r>>1) << (weightBits - 31) >> n
}

func mulHigh(a, b uint32) uint32 { return uint32(uint64(a) * uint64(b) >> 32) }
