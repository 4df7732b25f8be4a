package jinja

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

func (e *unary) evaluate(r *render) (Value, error) {
	v, err := r.eval(e.operand)
	if err != nil {
		return nil, err
	}
	if e.operator == "not" {
		return !truth(v), nil
	}
	if i, ok := integer(v); ok {
		if e.operator == "-" {
			if i == math.MinInt64 {
				return nil, errOverflow
			}
			i = -i
		}
		return i, nil
	}
	if f, ok := v.(float64); ok {
		if e.operator == "-" {
			f = -f
		}
		return f, nil
	}
	if u, ok := v.(Undefined); ok {
		return nil, u.err()
	}
	return nil, fmt.Errorf("%s%s: not a number", e.operator, kindOf(v))
}

func (e *binary) evaluate(r *render) (Value, error) {
	left, err := r.eval(e.left)
	if err != nil {
		return nil, err
	}
	switch e.operator {
	case "and":
		if !truth(left) {
			return left, nil
		}
		return r.eval(e.right)
	case "or":
		if truth(left) {
			return left, nil
		}
		return r.eval(e.right)
	}
	right, err := r.eval(e.right)
	if err != nil {
		return nil, err
	}
	return r.operate(e.operator, left, right)
}

// operate is left operator right.
func (m *meter) operate(operator string, left, right Value) (Value, error) {
	if operator == "~" {
		a, err := m.text(left)
		if err != nil {
			return nil, err
		}
		b, err := m.text(right)
		if err != nil {
			return nil, err
		}
		return m.concat(a, b)
	}
	for _, v := range []Value{left, right} {
		if u, ok := v.(Undefined); ok {
			return nil, u.err()
		}
	}
	if a, ok := integer(left); ok {
		if b, ok := integer(right); ok {
			return integers(operator, a, b)
		}
	}
	a, isA := number(left)
	b, isB := number(right)
	switch s, isString := left.(string); {
	case isA && isB:
		return floats(operator, a, b)
	case operator == "%" && isString:
		return m.format(s, right)
	case operator == "*":
		return m.repeat(left, right)
	case operator == "+" && isString:
		if t, ok := right.(string); ok {
			return m.concat(s, t)
		}
	case operator == "+":
		return m.joinLists(left, right)
	}
	return nil, mismatch(operator, left, right)
}

func mismatch(operator string, left, right Value) error {
	return fmt.Errorf("%s %s %s: these types do not go together", kindOf(left), operator, kindOf(right))
}

func (m *meter) concat(a, b string) (string, error) {
	if err := m.take(len(a)); err != nil {
		return "", err
	}
	if err := m.take(len(b)); err != nil {
		return "", err
	}
	return a + b, nil
}

func (m *meter) joinLists(left, right Value) (Value, error) {
	a, ok := left.(*List)
	b, also := right.(*List)
	if !ok || !also || a.tuple != b.tuple {
		return nil, mismatch("+", left, right)
	}
	items, err := m.items(int64(len(a.Items)) + int64(len(b.Items)))
	if err != nil {
		return nil, err
	}
	return &List{Items: append(append(items, a.Items...), b.Items...), tuple: a.tuple}, nil
}

// repeat is a text or a list times a number, in either order.
func (m *meter) repeat(left, right Value) (Value, error) {
	n, ok := integer(right)
	of := left
	if !ok {
		n, ok = integer(left)
		of = right
	}
	if !ok {
		return nil, mismatch("*", left, right)
	}
	n = max(n, 0)
	switch v := of.(type) {
	case string:
		return m.repeatText(v, n)
	case *List:
		if err := m.takeMany(bytesPerItem*int64(len(v.Items)), n); err != nil {
			return nil, err
		}
		return &List{Items: slices.Repeat(v.Items, int(n)), tuple: v.tuple}, nil
	}
	return nil, mismatch("*", left, right)
}

func (m *meter) repeatText(s string, n int64) (string, error) {
	if err := m.takeMany(int64(len(s)), n); err != nil {
		return "", err
	}
	return strings.Repeat(s, int(n)), nil
}

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
	if rest != 0 && (rest < 0) != (b < 0) {
		rest += b
	}
	if operator == "%" {
		return rest, nil
	}
	return math.Round((a - rest) / b), nil
}

func (e *comparison) evaluate(r *render) (Value, error) {
	left, err := r.eval(e.first)
	if err != nil {
		return nil, err
	}
	for i, op := range e.operators {
		right, err := r.eval(e.operands[i])
		if err != nil {
			return nil, err
		}
		holds, err := r.compare(op, left, right)
		if err != nil || !holds {
			return false, err
		}
		left = right
	}
	return true, nil
}

// compare is left operator right.
func (m *meter) compare(operator string, left, right Value) (bool, error) {
	switch operator {
	case "==":
		return m.equal(left, right)
	case "!=":
		same, err := m.equal(left, right)
		return !same, err
	case "in":
		return m.contains(right, left)
	case "not in":
		in, err := m.contains(right, left)
		return !in, err
	}
	order, err := m.order(left, right)
	if err != nil {
		return false, err
	}
	switch operator {
	case "<":
		return order < 0, nil
	case "<=":
		return order <= 0, nil
	case ">":
		return order > 0 && order != unordered, nil
	}
	return order >= 0 && order != unordered, nil
}
