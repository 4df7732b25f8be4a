package simd

import "math"

// Binary is an element-wise function of two rows.
type Binary int

// Compare is a relation of the elements of two rows.
type Compare int

// Unary is an element-wise function of a row.
type Unary int

// The functions that have vector forms.
const (
	Add Binary = iota
	Sub
	Mul
	Div
	Max2 // a NaN, or the larger, or y
	Min2

	Equal Compare = iota - 6
	NotEqual
	Less
	LessEqual

	Neg Unary = iota - 10
	Abs
	Square
	Sqrt
	Rsqrt
	Log
	Exp
	Sigmoid
	SiLU
	Floor
	Ceil
	Round
	Sin
	Cos
	Tanh
	Erf
)

// BinaryRow sets the first elements of z to f of those of x and y, and returns how
// many: the caller does the rest, which is everything if there is no vector form.
// y has as many elements, or one for all. z may be x or y. The results are those
// of the plain operators.
func BinaryRow(f Binary, z, x, y []float32) int {
	n := eights(len(z))
	if n > 0 {
		step := 4
		if len(y) == 1 && len(z) > 1 {
			step = 0
		}
		_ = x[n-1]
		binaryRows[f](&z[0], &x[0], &y[0], n, step)
	}
	return n
}

// CompareRow is BinaryRow for relations; z is 1 where they hold, else 0.
func CompareRow(f Compare, z []byte, x, y []float32) int {
	n := eights(len(z))
	if n > 0 {
		_, _ = x[n-1], y[n-1]
		compareRows[f](&z[0], &x[0], &y[0], n)
	}
	return n
}

// UnaryRow is BinaryRow for one operand. Exp, Sigmoid and SiLU are exact to about
// 2e-7 of the result, except that Sigmoid is 0 below -88; Log to 1e-7 of
// the result or of 1; Sin, Cos, Tanh and Erf are computed in float64. They do the whole
// row, so that an element's result does not depend on its position.
func UnaryRow(f Unary, z, x []float32) int {
	if (f == Sin || f == Cos) && eights(8) > 0 {
		anglesRow(f, z, x)
		return len(x)
	}
	return unaryRow(f, z, x)
}

// mostAngle is the largest angle for which the vector forms of Sin and Cos can reduce turns.
const mostAngle = 1 << 30

// anglesRow is unaryRow for Sin and Cos, which computes larger angles one by
// one.
func anglesRow(f Unary, z, x []float32) {
	one := math.Sin
	if f == Cos {
		one = math.Cos
	}
	var piece [256]float32 // z may be x
	for i := 0; i < len(x); i += len(piece) {
		n := copy(piece[:], x[i:])
		unaryRow(f, z[i:i+n], piece[:n])
		if largest(piece[:n]) <= mostAngle {
			continue
		}
		for k, v := range piece[:n] {
			if v > mostAngle || v < -mostAngle {
				z[i+k] = float32(one(float64(v)))
			}
		}
	}
}

// largest returns the largest magnitude, ignoring NaNs, by vectors if there are any.
func largest(x []float32) (most float32) {
	n := eights(len(x))
	if n > 0 {
		most = largestVector(&x[0], n)
	}
	for _, v := range x[n:] {
		if v = float32(math.Abs(float64(v))); v > most {
			most = v
		}
	}
	return most
}

func unaryRow(f Unary, z, x []float32) int {
	n := eights(len(x))
	if n > 0 {
		_ = z[n-1]
		unaryRows[f](&z[0], &x[0], n)
	}
	if rest := len(x) - n; rest > 0 && eights(8) > 0 {
		var tail [8]float32
		copy(tail[:], x[n:])
		unaryRows[f](&tail[0], &tail[0], 8)
		copy(z[n:len(x)], tail[:])
		n = len(x)
	}
	return n
}

// SumLanes sets sums to the sums of every eighth element among the first ones of
// x, and returns how many it has added.
func SumLanes(sums *[8]float32, x []float32) int {
	n := eights(len(x))
	if n > 0 {
		sumLanesVector(&sums[0], &x[0], n)
	}
	return n
}

// RotateHalves turns pairs i of x, x[i] and x[len(cos)+i], by the angles with these cosines and sines: a, b become
// a·cos - b·sin and a·sin + b·cos. Each product is rounded before the sum. dst, of at least 2·len(cos) numbers like x,
// may be x.
func RotateHalves(dst, x, cos, sin []float32) {
	half := len(cos)
	sin = sin[:half]
	dst, x = dst[:2*half], x[:2*half]
	if half > 0 && half == eights(half) {
		rotateRows(&dst[0], &x[0], &cos[0], &sin[0], half)
		return
	}
	for i := range half {
		a, b := x[i], x[half+i]
		dst[i] = float32(a*cos[i]) - float32(b*sin[i])
		dst[half+i] = float32(a*sin[i]) + float32(b*cos[i])
	}
}
