package jinja

import (
	"fmt"
	"slices"
)

// Call has the arguments of a function call.
type Call struct {
	*meter
	positional []Value
	named      map[string]Value
	names      []string // of named, as they were given
}

func (e *callExpression) evaluate(r *render) (Value, error) {
	return r.call(e.callee, e.arguments, nil)
}

// call calls the value of an expression; caller may be that of a call block.
func (r *render) call(callee expression, a arguments, caller *Function) (Value, error) {
	f, err := r.eval(callee)
	if err != nil {
		return nil, err
	}
	c, err := r.arguments(a, nil)
	if err != nil {
		return nil, err
	}
	if caller != nil {
		if _, given := c.named["caller"]; !given {
			c.names = append(c.names, "caller")
		}
		c.named["caller"] = caller
	}
	switch f := f.(type) {
	case *Function:
		return f.Call(c)
	case *loop:
		return f.call(c)
	case *cycler:
		return f.next(c)
	case *joiner:
		return f.next(c)
	case Undefined:
		return nil, f.err()
	}
	return nil, fmt.Errorf("%s cannot be called", kindOf(f))
}

// arguments evaluates the arguments of a call, after first.
func (r *render) arguments(a arguments, first []Value) (*Call, error) {
	items, err := r.all(a.positional)
	if err != nil {
		return nil, err
	}
	if err := r.takeMany(bytesPerEntry, int64(len(a.named))); err != nil {
		return nil, err
	}
	c := &Call{meter: r.meter, positional: append(first, items...), named: map[string]Value{}}
	for _, one := range a.named {
		if _, twice := c.named[one.name]; twice {
			return nil, fmt.Errorf("two arguments named %s", one.name)
		}
		if c.named[one.name], err = r.eval(one.value); err != nil {
			return nil, err
		}
		c.names = append(c.names, one.name)
	}
	return c, r.spread(a, c)
}

// spread adds *args and **kwargs.
func (r *render) spread(a arguments, c *Call) error {
	if a.spread != nil {
		v, err := r.eval(a.spread)
		if err != nil {
			return err
		}
		items, err := r.iterate(v)
		if err != nil {
			return err
		}
		if err := r.takeMany(bytesPerItem, int64(len(items))); err != nil {
			return err
		}
		c.positional = append(c.positional, items...)
	}
	if a.spreadDict == nil {
		return nil
	}
	v, err := r.eval(a.spreadDict)
	if err != nil {
		return err
	}
	d, ok := v.(*Dict)
	if !ok {
		return fmt.Errorf("** of %s, which is no dictionary", kindOf(v))
	}
	if err := r.takeMany(bytesPerEntry, int64(d.Len())); err != nil {
		return err
	}
	for _, key := range d.keys {
		name, ok := key.(string)
		if _, twice := c.named[name]; !ok || twice {
			return fmt.Errorf("** with a key that is no name, or is given twice")
		}
		c.named[name] = d.value(key)
		c.names = append(c.names, name)
	}
	return nil
}

func (e *filterExpression) evaluate(r *render) (Value, error) {
	of, err := r.eval(e.of)
	if err != nil {
		return nil, err
	}
	c, err := r.arguments(e.arguments, []Value{of})
	if err != nil {
		return nil, err
	}
	v, err := e.call(c)
	if err != nil {
		return nil, fmt.Errorf("filter %s: %w", e.name, err)
	}
	return v, nil
}

func (e *testExpression) evaluate(r *render) (Value, error) {
	of, err := r.eval(e.of)
	if err != nil {
		return nil, err
	}
	c, err := r.arguments(e.arguments, []Value{of})
	if err != nil {
		return nil, err
	}
	holds, err := e.call(c)
	if err != nil {
		return nil, fmt.Errorf("test %s: %w", e.name, err)
	}
	return holds != e.negated, nil
}

// arg returns an argument given by position or by name; the value is the first one.
func (c *Call) arg(at int, name string) (Value, bool) {
	if at < len(c.positional) {
		return c.positional[at], true
	}
	v, ok := c.named[name]
	return v, ok
}

// accept rejects more arguments than there are names.
func (c *Call) accept(names ...string) error {
	if len(c.positional) > len(names) {
		return fmt.Errorf("at most %d arguments, not %d", len(names), len(c.positional))
	}
	for name := range c.named {
		at := slices.Index(names, name)
		switch {
		case at < 0:
			return fmt.Errorf("no argument is named %s", name)
		case at < len(c.positional):
			return fmt.Errorf("two values for %s", name)
		}
	}
	return nil
}

// value returns the value that a filter is applied to.
func (c *Call) value() Value { return c.positional[0] }

// intArg returns an argument that is an integer, or absent.
func (c *Call) intArg(at int, name string, absent int64) (int64, error) {
	v, ok := c.arg(at, name)
	if !ok {
		return absent, nil
	}
	n, ok := integer(v)
	if !ok {
		return 0, fmt.Errorf("%s is %s, not an integer", name, kindOf(v))
	}
	return n, nil
}

// textArg returns an argument as text, or absent.
func (c *Call) textArg(at int, name, absent string) (string, error) {
	v, ok := c.arg(at, name)
	if !ok {
		return absent, nil
	}
	return c.text(v)
}

// boolArg reports whether an argument is given and true.
func (c *Call) boolArg(at int, name string) bool {
	v, ok := c.arg(at, name)
	return ok && truth(v)
}

// with is a call with other arguments by position.
func (c *Call) with(first Value, rest []Value) (*Call, error) {
	positional, err := c.items(1 + int64(len(rest)))
	if err != nil {
		return nil, err
	}
	positional = append(append(positional, first), rest...)
	return &Call{meter: c.meter, positional: positional, named: c.named, names: c.names}, nil
}
