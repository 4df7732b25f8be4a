package jinja

import (
	"errors"
	"fmt"
)

// maxRange is the longest range, that of Jinja's sandbox.
const maxRange = 100_000

// globals are the functions that every template can call.
func globals() map[string]Value {
	return map[string]Value{
		"range":     &Function{Name: "range", Call: rangeFunction},
		"namespace": &Function{Name: "namespace", Call: func(c *Call) (Value, error) { d, err := dictFunction(c); return namespace{d}, err }},
		"dict":      &Function{Name: "dict", Call: func(c *Call) (Value, error) { return dictFunction(c) }},
		"cycler":    &Function{Name: "cycler", Call: newCycler},
		"joiner":    &Function{Name: "joiner", Call: newJoiner},
	}
}

// NewFunction returns a function that takes its arguments by position only.
func NewFunction(name string, call func(args []Value) (Value, error)) *Function {
	return &Function{Name: name, Call: func(c *Call) (Value, error) {
		if len(c.named) > 0 {
			return nil, fmt.Errorf("%s takes no arguments by name", name)
		}
		return call(c.positional)
	}}
}

// Raise is raise_exception: it fails with its argument as a template prints it.
func Raise(c *Call) (Value, error) {
	message, ok := c.arg(0, "message")
	if !ok {
		return nil, errors.New("raise_exception without a message")
	}
	text, err := c.text(message)
	if err != nil {
		return nil, err
	}
	return nil, errors.New(text)
}

func rangeFunction(c *Call) (Value, error) {
	if len(c.positional) < 1 || len(c.positional) > 3 || len(c.named) > 0 {
		return nil, fmt.Errorf("range takes 1 to 3 numbers, not %d", len(c.positional))
	}
	bounds := [3]int64{0, 0, 1} // start, stop, step
	for i, a := range c.positional {
		n, ok := integer(a)
		if !ok {
			return nil, fmt.Errorf("range of %s, which is not an integer", kindOf(a))
		}
		if len(c.positional) == 1 {
			i = 1
		}
		bounds[i] = n
	}
	start, stop, step := bounds[0], bounds[1], bounds[2]
	if step == 0 {
		return nil, fmt.Errorf("range with step 0")
	}
	out := &List{}
	for v := start; step > 0 && v < stop || step < 0 && v > stop; v += step {
		if len(out.Items) == maxRange {
			return nil, fmt.Errorf("range of more than %d numbers", maxRange)
		}
		if err := c.push(&out.Items, v); err != nil {
			return nil, err
		}
		if next := v + step; (next > v) != (step > 0) {
			break // beyond the last integer
		}
	}
	return out, nil
}

func dictFunction(c *Call) (*Dict, error) {
	d := NewDict()
	if len(c.positional) > 1 {
		return nil, fmt.Errorf("takes one dictionary at most")
	}
	for _, v := range c.positional {
		switch v := v.(type) {
		case *Dict:
			if _, err := updateMethod(&Call{meter: c.meter, positional: []Value{v}}, d); err != nil {
				return nil, err
			}
		case *List:
			if err := c.fromPairs(d, v.Items); err != nil {
				return nil, err
			}
		case *generator:
			if err := c.fromPairs(d, v.rest()); err != nil {
				return nil, err
			}
		default:
			return nil, fmt.Errorf("%s is neither a dictionary nor a list of pairs", kindOf(v))
		}
	}
	return d, c.setNamed(d)
}

func (c *Call) fromPairs(d *Dict, pairs []Value) error {
	if err := c.takeMany(bytesPerEntry, int64(len(pairs))); err != nil {
		return err
	}
	for _, item := range pairs {
		pair, ok := item.(*List)
		if !ok || len(pair.Items) != 2 || !d.Set(pair.Items[0], pair.Items[1]) {
			return fmt.Errorf("a list whose items are not pairs of a key and a value")
		}
	}
	return nil
}

// cycler is the result of cycler(…).
type cycler struct {
	items []Value
	at    int
}

func newCycler(c *Call) (Value, error) {
	if len(c.positional) == 0 {
		return nil, fmt.Errorf("cycler without values")
	}
	return &cycler{items: c.positional}, nil
}

func (*cycler) kind() string { return "Cycler" }

func (y *cycler) attribute(name string) (Value, bool) {
	switch name {
	case "current":
		return y.items[y.at], true
	case "next":
		return &Function{Name: "next", Call: y.next}, true
	case "reset":
		return &Function{Name: "reset", Call: func(*Call) (Value, error) { y.at = 0; return nil, nil }}, true
	}
	return nil, false
}

func (y *cycler) next(*Call) (Value, error) {
	v := y.items[y.at]
	y.at = (y.at + 1) % len(y.items)
	return v, nil
}

// joiner is the result of joiner(…): a call returns the separator, except the
// first, which returns nothing.
type joiner struct {
	between Value
	used    bool
}

func newJoiner(c *Call) (Value, error) {
	between, ok := c.arg(0, "sep")
	if !ok {
		between = ", "
	}
	return &joiner{between: between}, nil
}

func (*joiner) kind() string                   { return "Joiner" }
func (*joiner) attribute(string) (Value, bool) { return nil, false }

func (j *joiner) next(*Call) (Value, error) {
	if !j.used {
		j.used = true
		return "", nil
	}
	return j.between, nil
}
