package fallback

import "math"

// The small floats of the modes without biases, as the Open Compute Project's
// microscaling formats define them: E2M1 in 4 bits; E4M3 in 8, without
// infinities, 0x7f and 0xff being NaN; E8M0, a power of two from 2^-127 on,
// where 255 is read as infinity, as in MLX.
var (
	e2m1Values = [16]float32{0, 0.5, 1, 1.5, 2, 3, 4, 6, negativeZero, -0.5, -1, -1.5, -2, -3, -4, -6}
	e2m1Pairs  = makeE2M1Pairs() // the two codes of a byte, the low one first
	e4m3Values = makeE4M3()
	e8m0Values = makeE8M0()
)

var negativeZero = float32(math.Copysign(0, -1))

func makeE2M1Pairs() (t [256][2]float32) {
	for i := range t {
		t[i] = [2]float32{e2m1Values[i&15], e2m1Values[i>>4]}
	}
	return t
}

func makeE4M3() (t [256]float32) {
	for i := range t {
		exponent, mantissa := i>>3&15, float64(i&7)
		v := math.Ldexp(mantissa, -9)
		if exponent > 0 {
			v = math.Ldexp(8+mantissa, exponent-10)
		}
		if i&127 == 127 {
			v = math.NaN()
		}
		t[i] = float32(math.Copysign(v, 1-float64(i>>7)*2))
	}
	return t
}

func makeE8M0() (t [256]float32) {
	for i := range t {
		t[i] = float32(math.Ldexp(1, i-127))
	}
	t[255] = float32(math.Inf(1))
	return t
}

// toE4M3 rounds to nearest even; 448 or more, infinities and NaN become 448.
func toE4M3(v float32) uint8 {
	bits := math.Float32bits(v)
	sign, a := uint8(bits>>24)&0x80, bits&0x7fffffff
	switch {
	case a >= math.Float32bits(448):
		return sign | 0x7e
	case a < math.Float32bits(1.0/64): // in steps of 2^-9: those of float32 at 2^14
		const step = 1 << 14
		return sign | uint8(math.Float32bits(math.Float32frombits(a)+step)-math.Float32bits(step))
	}
	a -= 120 << 23 // the exponents' bias goes from 127 to 7
	return sign | uint8((a+0x7ffff+a>>20&1)>>20)
}

// toE2M1 returns the code of the nearest value, and the first of several that are
// equally near; it returns 0 for numbers that are not finite. Distances are those of float32, as in MLX, whatever the
// type of v: rounded to bfloat16, those of large v would all be equal.
func toE2M1(v float32) uint8 {
	best, distance := 0, abs32(v)
	if !(distance <= math.MaxFloat32) {
		return 0
	}
	for code, value := range e2m1Values {
		if d := abs32(v - value); d < distance {
			best, distance = code, d
		}
	}
	return uint8(best)
}

// toE8M0 returns the code of the smallest power of two that is not below v, at
// least 2^-127; 127, which is 1, for 0, and 255 for numbers that are not
// finite.
func toE8M0(v float32) uint8 {
	switch {
	case v == 0:
		return 127
	case !(v <= math.MaxFloat32):
		return 255
	}
	fraction, exponent := math.Frexp(float64(v)) // v = fraction * 2^exponent, from 1/2 to 1
	if fraction == 0.5 {
		exponent--
	}
	return uint8(max(exponent, -127) + 127)
}

func abs32(v float32) float32 { return math.Float32frombits(math.Float32bits(v) &^ (1 << 31)) }
