package simd

import "math"

// Constants of exp: e^x = 2^n · e^r with n = round(x/ln 2) and |r| <= ln2/2; e^r
// by its Taylor polynomial of degree 7, whose rest is below 1e-8. ln 2 is split
// in two so that n·ln2Hi is exact.
const (
	log2E  = 1.44269504088896341
	ln2Hi  = 0.693359375
	ln2Lo  = -2.12194440e-4
	expMin = -104 // below, float32 exp is 0
	expMax = 89   // above, it is infinite
	// expSumMin is above the logarithms of subnormal numbers, with which arithmetic takes six times as long on some
	// processors: keys that attention hides from a row, and padding, would cost more than the rest.
	expSumMin = -87
)

// Exp32 returns e^x to about 1e-7 of its value.
func Exp32(x float32) float32 {
	switch {
	case x != x:
		return x
	case x < expMin:
		return 0
	case x > expMax:
		return float32(math.Inf(1))
	}
	n := float32(int32(x*log2E + math.Float32frombits(math.Float32bits(x)&0x80000000|0x3f000000)))
	r := x - n*ln2Hi
	r -= n * ln2Lo
	p := float32(1.0 / 5040)
	p = p*r + 1.0/720
	p = p*r + 1.0/120
	p = p*r + 1.0/24
	p = p*r + 1.0/6
	p = p*r + 0.5
	p = p*r + 1
	p = p*r + 1
	half := int32(n) >> 1 // two factors, since 2^n itself may leave the normal range
	return p * pow2(half) * pow2(int32(n)-half)
}

func pow2(n int32) float32 { return math.Float32frombits(uint32(n+127) << 23) }

// ExpSum sets dst[i] = e^(x[i]-shift), or 0 if that is below e^-87, and returns the sum. dst may be x. It has one sum for
// each lane, so x should have no more than some thousand elements.
func ExpSum(dst, x []float32, shift float32) float32 {
	done, sum := expSumVector(dst, x, shift)
	for i, v := range x[done:] {
		e := Exp32(v - shift)
		if v-shift < expSumMin {
			e = 0
		}
		dst[done+i] = e
		sum += e
	}
	return sum
}

// SiLUMul sets dst = gate·sigmoid(gate)·up. dst may be gate or up.
func SiLUMul(dst, gate, up []float32) {
	done := siluMulVector(dst, gate, up)
	// The rest goes through the same arithmetic, so that a number's result does
	// not depend on where blocks begin and end.
	if rest := len(gate) - done; rest > 0 && rest < 8 {
		var g, u [8]float32
		copy(g[:], gate[done:])
		copy(u[:], up[done:])
		if siluMulVector(g[:], g[:], u[:]) == len(g) {
			copy(dst[done:], g[:rest])
			return
		}
	}
	for i, g := range gate[done:] {
		dst[done+i] = silu32(g) * up[done+i]
	}
}

// Max returns the largest of x, NaN if there is one, or -Inf for nothing.
func Max(x []float32) float32 {
	done, m := maxVector(x)
	for _, v := range x[done:] {
		m = max(m, v)
	}
	return m
}

// Scale multiplies y by f.
func Scale(y []float32, f float32) {
	done := scaleVector(y, f)
	for i := range y[done:] {
		y[done+i] *= f
	}
}
