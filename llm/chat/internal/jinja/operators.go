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
	if _, ok := v.(longInteger); ok {
		return nil, errOverflow
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
	if kindOf(left) == "int" && kindOf(right) == "int" { // one is a longInteger
		return nil, errOverflow
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
	switch v := of.(type) {
	case string:
		return m.repeatText(v, n)
	case *List:
		n = max(n, 0)
		if err := m.takeMany(bytesPerItem*int64(len(v.Items)), n); err != nil {
			return nil, err
		}
		return &List{Items: slices.Repeat(v.Items, int(n)), tuple: v.tuple}, nil
	}
	return nil, mismatch("*", left, right)
}

// repeatText is s * n, which is empty for a negative n.
func (m *meter) repeatText(s string, n int64) (string, error) {
	n = max(n, 0)
	if err := m.takeMany(int64(len(s)), n); err != nil {
		return "", err
	}
	return strings.Repeat(s, int(n)), nil
}
