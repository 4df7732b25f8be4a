package jinja

import (
	"fmt"
	"math"
	"strings"
)

// equal is a == b.
func (m *meter) equal(a, b Value) (bool, error) {
	if err := m.enter(); err != nil {
		return false, err
	}
	defer m.leave()
	if err := m.step(1); err != nil {
		return false, err
	}
	if x, ok := integer(a); ok {
		if y, ok := integer(b); ok {
			return x == y, nil
		}
	}
	x, isLong := a.(longInteger)
	if y, ok := b.(longInteger); ok && isLong {
		return x == y, m.scan(len(x))
	}
	if kindOf(a) == "int" && kindOf(b) == "int" { // one has more than 64 bits
		return false, nil
	}
	if x, ok := number(a); ok {
		y, ok := number(b)
		return ok && x == y, nil
	}
	switch x := a.(type) {
	case string:
		y, ok := b.(string)
		if !ok || len(x) != len(y) && !isMarked(x) && !isMarked(y) {
			return false, nil
		}
		order, err := m.orderTexts(x, y)
		return order == 0, err
	case nil:
		return b == nil, nil
	case Undefined:
		_, ok := b.(Undefined)
		return ok, nil
	case *List:
		y, ok := b.(*List)
		if !ok || x.tuple != y.tuple || len(x.Items) != len(y.Items) {
			return false, nil
		}
		return m.equalLists(x.Items, y.Items)
	case *Dict:
		y, ok := b.(*Dict)
		if !ok || x.Len() != y.Len() {
			return false, nil
		}
		return m.equalDicts(x, y)
	}
	return same(a, b), nil
}

// same reports whether two objects are one.
func same(a, b Value) bool {
	switch a := a.(type) {
	case namespace:
		b, ok := b.(namespace)
		return ok && a.Dict == b.Dict
	case Undefined:
		return false
	case string:
		b, ok := b.(string)
		return ok && compareTexts(a, b) == 0
	case float64:
		b, ok := b.(float64)
		return ok && math.Float64bits(a) == math.Float64bits(b)
	}
	return a == b // pointers, and comparable values
}

func (m *meter) equalLists(a, b []Value) (bool, error) {
	for i := range a {
		if same, err := m.equal(a[i], b[i]); !same || err != nil {
			return false, err
		}
	}
	return true, nil
}

func (m *meter) equalDicts(a, b *Dict) (bool, error) {
	for _, key := range a.keys {
		v, ok := b.Get(key)
		if !ok {
			return false, nil
		}
		if same, err := m.equal(a.value(key), v); !same || err != nil {
			return false, err
		}
	}
	return true, nil
}

// unordered is the order of NaN and anything.
const unordered = math.MaxInt

// order is negative for a < b, 0 for equal ones and positive for a > b.
func (m *meter) order(a, b Value) (int, error) {
	if err := m.enter(); err != nil {
		return 0, err
	}
	defer m.leave()
	x, isNumber := number(a)
	y, also := number(b)
	switch {
	case isNumber && also:
		return orderNumbers(a, b, x, y), m.step(1)
	case isNumber || also:
		return 0, unorderable(a, b)
	}
	if s, ok := a.(string); ok {
		if t, ok := b.(string); ok {
			return m.orderTexts(s, t)
		}
	}
	s, ok := a.(*List)
	t, also := b.(*List)
	if !ok || !also || s.tuple != t.tuple {
		return 0, unorderable(a, b)
	}
	for i := range min(len(s.Items), len(t.Items)) {
		same, err := m.equal(s.Items[i], t.Items[i])
		if err != nil {
			return 0, err
		}
		if !same {
			return m.order(s.Items[i], t.Items[i])
		}
	}
	return len(s.Items) - len(t.Items), nil
}

func (m *meter) orderTexts(a, b string) (int, error) {
	if err := m.scan(len(a) + len(b)); err != nil {
		return 0, err
	}
	return compareTexts(a, b), nil
}

func orderNumbers(a, b Value, x, y float64) int {
	if i, ok := integer(a); ok {
		if j, ok := integer(b); ok {
			return int(asInt(i > j) - asInt(i < j))
		}
	}
	if math.IsNaN(x) || math.IsNaN(y) {
		return unordered
	}
	return int(asInt(x > y) - asInt(x < y))
}

func unorderable(a, b Value) error {
	for _, v := range []Value{a, b} {
		if u, ok := v.(Undefined); ok {
			return u.err()
		}
	}
	return fmt.Errorf("%s and %s have no order", kindOf(a), kindOf(b))
}

// contains is item in v.
func (m *meter) contains(v, item Value) (bool, error) {
	switch v := v.(type) {
	case string:
		s, ok := item.(string)
		if !ok {
			return false, fmt.Errorf("%s in a text", kindOf(item))
		}
		if err := m.scan(len(v)); err != nil {
			return false, err
		}
		u, err := m.unmark(v)
		return strings.Contains(u.plain, withoutMarks(s)), err
	case *List:
		for _, one := range v.Items {
			if same, err := m.equal(one, item); same || err != nil {
				return same, err
			}
		}
		return false, nil
	case *Dict:
		_, ok := v.Get(item)
		return ok, nil
	case *generator:
		return v.contains(m, item)
	case Undefined:
		return false, nil
	}
	return false, fmt.Errorf("in: %s has no items", kindOf(v))
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
