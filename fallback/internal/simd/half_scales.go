package simd

// ScaleForm is what a byte that is a scale stands for.
type ScaleForm int

const (
	E8M0 ScaleForm = iota // 2^(b-127)
	E4M3                  // a float of 8 bits without infinities
)

// HalfScales sets scales to half of the numbers that codes stand for, and biases to -6 times
// these: the factors of 4-bit floats whose codes are doubled and increased by 12. It returns
// the largest code, and how many it has converted: the rest is left to the caller. E8M0's 255
// gives infinities instead of NaNs.
func HalfScales(scales, biases []float32, codes []uint8, form ScaleForm) (done int, largest uint8) {
	done = len(codes) &^ 15
	_, _ = scales[:done], biases[:done]
	if done == 0 {
		return 0, 0
	}
	return halfScalesVector(scales, biases, codes[:done], form)
}
