package jinja

import (
	"fmt"
	"math"
)

var (
	errOverflow = fmt.Errorf("an integer of more than 64 bits")
	errZero     = fmt.Errorf("division by zero")
)

// integers computes with integers as Python does: division and remainder round
// down.
func integers(operator string, a, b int64) (Value, error) {
	switch operator {
	case "+":
		if c := a + b; (c > a) == (b > 0) {
			return c, nil
		}
		return nil, errOverflow
	case "-":
		if c := a - b; (c < a) == (b > 0) {
			return c, nil
		}
		return nil, errOverflow
	case "*":
		return multiply(a, b)
	case "**":
		return power(a, b)
	}
	if b == 0 {
		return nil, errZero
	}
	switch {
	case operator == "/":
		return float64(a) / float64(b), nil
	case a == math.MinInt64 && b == -1:
		return nil, errOverflow
	}
	quotient, rest := a/b, a%b
	if rest != 0 && (rest < 0) != (b < 0) {
		quotient, rest = quotient-1, rest+b
	}
	if operator == "//" {
		return quotient, nil
	}
	return rest, nil
}

// roundInteger rounds to the nearest multiple of a power of ten, ties to even.
func roundInteger(n int64, zeros int) (Value, error) {
	unit, err := power(10, int64(zeros))
	if err != nil {
		return nil, err
	}
	half := unit.(int64) / 2
	down, err := integers("//", n, unit.(int64))
	if err != nil {
		return nil, err
	}
	multiple := down.(int64)
	if rest := n - multiple*unit.(int64); half > 0 && (rest > half || rest == half && multiple%2 != 0) {
		multiple++
	}
	return multiply(multiple, unit.(int64))
}

func multiply(a, b int64) (Value, error) {
	c := a * b
	if a != 0 && (c/a != b || a == -1 && b == math.MinInt64) {
		return nil, errOverflow
	}
	return c, nil
}

func power(a, b int64) (Value, error) {
	if b < 0 {
		if a == 0 {
			return nil, errZero
		}
		return math.Pow(float64(a), float64(b)), nil
	}
	out := int64(1)
	for square := a; ; {
		if b&1 != 0 {
			v, err := multiply(out, square)
			if err != nil {
				return nil, err
			}
			out = v.(int64)
		}
		if b >>= 1; b == 0 {
			return out, nil
		}
		v, err := multiply(square, square)
		if err != nil {
			return nil, err
		}
		square = v.(int64)
	}
}

func floats(operator string, a, b float64) (Value, error) {
	switch operator {
	case "+":
		return a + b, nil
	case "-":
		return a - b, nil
	case "*":
		return a * b, nil
	case "**":
		return math.Pow(a, b), nil
	}
	if b == 0 {
		return nil, errZero
	}
	if operator == "/" {
		return a / b, nil
	}
	rest := math.Mod(a, b)
	switch {
	case rest == 0:
		rest = math.Copysign(0, b)
	case (rest < 0) != (b < 0):
		rest += b
	}
	if operator == "%" {
		return rest, nil
	}
	if quotient := math.Round((a - rest) / b); quotient != 0 {
		return quotient, nil
	}
	return math.Copysign(0, a/b), nil
}
