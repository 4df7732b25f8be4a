package jinja

import (
	"fmt"
	"math"
	"strings"
)

// test is the operator after "is". Its first positional argument is the value
// to be tested.
type test func(c *Call) (bool, error)

var tests map[string]test

func init() { // the map refers to functions that look into it
	tests = map[string]test{
		"defined":   kindTest(func(v Value) bool { _, u := v.(Undefined); return !u }),
		"undefined": kindTest(func(v Value) bool { _, u := v.(Undefined); return u }),
		"none":      kindTest(func(v Value) bool { return v == nil }),
		"boolean":   kindTest(func(v Value) bool { _, ok := v.(bool); return ok }),
		"true":      kindTest(func(v Value) bool { return v == true }),
		"false":     kindTest(func(v Value) bool { return v == false }),
		"integer":   kindTest(func(v Value) bool { return kindOf(v) == "int" }),
		"float":     kindTest(func(v Value) bool { _, ok := v.(float64); return ok }),
		"number":    kindTest(func(v Value) bool { _, ok := number(v); return ok }),
		"string":    kindTest(func(v Value) bool { _, ok := v.(string); return ok }),
		"mapping":   kindTest(func(v Value) bool { _, ok := v.(*Dict); return ok }),
		"sequence":  kindTest(isSequence),
		"iterable":  kindTest(func(v Value) bool { _, ok := v.(*generator); return ok || isSequence(v) }),
		"callable":  kindTest(isCallable),
		"escaped":   kindTest(func(Value) bool { return false }),
		"filter":    kindTest(func(v Value) bool { s, _ := v.(string); return filters[s] != nil }),
		"test":      kindTest(func(v Value) bool { s, _ := v.(string); return tests[s] != nil }),
		"upper":     caseTest(isUpper, isLower),
		"lower":     caseTest(isLower, isUpper),
		"even":      remainderTest(2, 0),
		"odd":       remainderTest(2, 1),
		"sameas":    sameasTest,
		"in":        func(c *Call) (bool, error) { return c.against("in") },

		"divisibleby": divisiblebyTest,
	}
	for operator, names := range map[string]string{
		"==": "eq equalto ==", "!=": "ne !=", "<": "lt lessthan <", "<=": "le <=", ">": "gt greaterthan >", ">=": "ge >=",
	} {
		for _, name := range strings.Fields(names) {
			tests[name] = func(c *Call) (bool, error) { return c.against(operator) }
		}
	}
}

func kindTest(holds func(Value) bool) test {
	return func(c *Call) (bool, error) { return holds(c.value()), c.accept("value") }
}

func isSequence(v Value) bool {
	switch v.(type) {
	case string, *List, *Dict, Undefined:
		return true
	}
	return false
}

func isCallable(v Value) bool {
	switch v.(type) {
	case *Function, *loop, *cycler, *joiner, Undefined:
		return true
	}
	return false
}

// against compares the value with the one argument.
func (c *Call) against(operator string) (bool, error) {
	if len(c.positional) != 2 {
		return false, fmt.Errorf("takes one value")
	}
	return c.compare(operator, c.positional[0], c.positional[1])
}

func caseTest(wanted, other func(rune) bool) test {
	is := caseMethod(wanted, other)
	return func(c *Call) (bool, error) {
		s, err := c.text(c.value())
		if err != nil {
			return false, err
		}
		v, err := c.withText(s, is)
		return v == true, err
	}
}

func remainderTest(by, rest int64) test {
	return func(c *Call) (bool, error) {
		v, err := c.operate("%", c.value(), by)
		if err != nil {
			return false, err
		}
		return c.equal(v, rest)
	}
}

func divisiblebyTest(c *Call) (bool, error) {
	if len(c.positional) != 2 {
		return false, fmt.Errorf("takes one number")
	}
	v, err := c.operate("%", c.value(), c.positional[1])
	f, ok := number(v)
	return ok && f == 0 && !math.IsNaN(f), err
}

// sameasTest is Python's "is": numbers and texts are the same if they are equal
// and of one type.
func sameasTest(c *Call) (bool, error) {
	if len(c.positional) != 2 {
		return false, fmt.Errorf("takes one value")
	}
	a, b := c.positional[0], c.positional[1]
	if s, ok := a.(string); ok {
		if err := c.scan(len(s)); err != nil {
			return false, err
		}
	}
	return kindOf(a) == kindOf(b) && same(a, b), nil
}
