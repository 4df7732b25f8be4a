package simd

// silu32 is g·sigmoid(g). e^-g overflows where the result is still a normal number, and e^g
// is none there: it takes two factors.
func silu32(g float32) float32 {
	if g < -87 {
		root := Exp32(g / 2)
		return g * root * root
	}
	return g / (1 + Exp32(-g))
}
