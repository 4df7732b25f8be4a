package simd

// ScaleForm is what a byte that is a scale stands for.
type ScaleForm int

const (
	E8M0 ScaleForm = iota // 2^(b-127), where 255 is infinity
	E4M3                  // a float of 8 bits without infinities
)

// HalfScales sets scales to half of the numbers that codes stand for, and biases to -6 times
// these: the factors of 4-bit floats whose codes are doubled and increased by 12. It returns
// the largest code, and how many it has converted: the rest is left to the caller.
func HalfScales(scales, biases []float32, codes []uint8, form ScaleForm) (done int, largest uint8) {
	done = len(codes) &^ 15
	_, _ = scales[:done], biases[:done]
	if done == 0 {
		return 0, 0
	}
	return halfScalesVector(scales, biases, codes[:done], form)
}

// DecodeE4M3 sets dst to the numbers that codes stand for, in groups of 32, times the powers of two
// that scales stand for. It does nothing, and returns false, if there is no vector form.
func DecodeE4M3(dst []float32, codes, scales []uint8) bool {
	if len(scales) == 0 {
		return true
	}
	_, _ = dst[32*len(scales)-1], codes[32*len(scales)-1]
	return decodeE4M3Vector(dst, codes, scales)
}
