package optest

import "math"

// binaryFormulas are the kinds on floats, and on integers unless integerFormulas
// has another formula.
var binaryFormulas = map[string]func(a, b float64) float64{
	"add": func(a, b float64) float64 { return a + b },
	"sub": func(a, b float64) float64 { return a - b },
	"mul": func(a, b float64) float64 { return a * b },
	"div": func(a, b float64) float64 { return a / b },
	"max": func(a, b float64) float64 { return choose(a > b || a != a, a, b) },
	"min": func(a, b float64) float64 { return choose(a < b || a != a, a, b) },
	"pow": math.Pow,
	"mod": func(a, b float64) float64 {
		r := math.Mod(a, b)
		if r != 0 && (r < 0) != (b < 0) {
			r += b
		}
		return r
	},
	"equal":         func(a, b float64) float64 { return truth(a == b) },
	"not_equal":     func(a, b float64) float64 { return truth(a != b) },
	"less":          func(a, b float64) float64 { return truth(a < b) },
	"less_equal":    func(a, b float64) float64 { return truth(a <= b) },
	"greater":       func(a, b float64) float64 { return truth(a > b) },
	"greater_equal": func(a, b float64) float64 { return truth(a >= b) },
	"and":           func(a, b float64) float64 { return truth(a != 0 && b != 0) },
	"or":            func(a, b float64) float64 { return truth(a != 0 || b != 0) },
}

// integerFormulas compute in 64 bits; the result is wrapped to 32.
var integerFormulas = map[string]func(a, b int64) int64{
	"add": func(a, b int64) int64 { return a + b },
	"sub": func(a, b int64) int64 { return a - b },
	"mul": func(a, b int64) int64 { return a * b },
	"div": func(a, b int64) int64 {
		if b == 0 {
			return 0
		}
		return (a - ((a%b)+b)%b) / b
	},
	"mod": func(a, b int64) int64 {
		if b == 0 {
			return 0
		}
		return ((a % b) + b) % b
	},
	"pow": func(a, b int64) int64 {
		if b < 0 {
			return 0
		}
		r := int64(1)
		for range b {
			r = int64(uint32(r) * uint32(a))
		}
		return r
	},
	"bit_and":     func(a, b int64) int64 { return a & b },
	"bit_or":      func(a, b int64) int64 { return a | b },
	"bit_xor":     func(a, b int64) int64 { return a ^ b },
	"shift_left":  func(a, b int64) int64 { return a << (b & 31) },
	"shift_right": func(a, b int64) int64 { return a >> (b & 31) },
}

func truth(b bool) float64 { return choose(b, 1, 0) }

func choose(first bool, a, b float64) float64 {
	if first {
		return a
	}
	return b
}
