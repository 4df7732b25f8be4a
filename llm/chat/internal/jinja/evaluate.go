package jinja

import (
	"fmt"
	"unicode/utf8"
)

func (e *literal) evaluate(*render) (Value, error) { return e.value, nil }

func (e *nameExpression) evaluate(r *render) (Value, error) {
	if v, ok := r.scope.get(e.name); ok {
		return v, nil
	}
	return Undefined{name: e.name}, nil
}

func (e *listExpression) evaluate(r *render) (Value, error) {
	items, err := r.all(e.items)
	return &List{Items: items, tuple: e.tuple}, err
}

// all returns the values of expressions.
func (r *render) all(of []expression) ([]Value, error) {
	out, err := r.items(int64(len(of)))
	if err != nil {
		return nil, err
	}
	for _, e := range of {
		v, err := r.eval(e)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}

func (e *dictExpression) evaluate(r *render) (Value, error) {
	if err := r.takeMany(bytesPerEntry, int64(len(e.keys))); err != nil {
		return nil, err
	}
	d := NewDict()
	for i := range e.keys {
		key, err := r.eval(e.keys[i])
		if err != nil {
			return nil, err
		}
		value, err := r.eval(e.values[i])
		if err != nil {
			return nil, err
		}
		if !d.Set(key, value) {
			return nil, fmt.Errorf("%s cannot be a key", kindOf(key))
		}
	}
	return d, nil
}

func (e *attribute) evaluate(r *render) (Value, error) {
	of, err := r.eval(e.of)
	if err != nil {
		return nil, err
	}
	return r.attribute(of, e.name)
}

// attribute is of.name: a method, else an item.
func (m *meter) attribute(of Value, name string) (Value, error) {
	switch v := of.(type) {
	case Undefined:
		return nil, v.err()
	case object:
		if found, ok := v.attribute(name); ok {
			return found, nil
		}
	}
	if f := method(of, name); f != nil {
		return f, nil
	}
	if d, ok := of.(*Dict); ok {
		if v, ok := d.Get(name); ok {
			return v, nil
		}
	}
	return missing(of, name), nil
}

func missing(of Value, name string) Undefined {
	return Undefined{name, kindOf(of)}
}

func (e *subscript) evaluate(r *render) (Value, error) {
	of, err := r.eval(e.of)
	if err != nil {
		return nil, err
	}
	key, err := r.eval(e.key)
	if err != nil {
		return nil, err
	}
	return r.item(of, key)
}

// item is of[key]: an item, else an attribute.
func (m *meter) item(of, key Value) (Value, error) {
	if i, ok := integer(key); ok {
		switch v := of.(type) {
		case *List:
			if at, ok := place(i, len(v.Items)); ok {
				return v.Items[at], nil
			}
			return missing(of, fmt.Sprint(i)), nil
		case string:
			return m.character(v, i)
		}
	}
	if d, ok := of.(*Dict); ok {
		if v, ok := d.Get(key); ok {
			return v, nil
		}
	}
	if name, ok := key.(string); ok {
		return m.attribute(of, name)
	}
	if u, ok := of.(Undefined); ok {
		return nil, u.err()
	}
	return missing(of, "item"), nil
}

// place turns an index, which may count from the end, into a position.
func place(i int64, n int) (int, bool) {
	if i < 0 {
		i += int64(n)
	}
	return int(i), i >= 0 && i < int64(n)
}

// character is s[i].
func (m *meter) character(s string, i int64) (Value, error) {
	if err := m.scan(len(s)); err != nil {
		return nil, err
	}
	at, ok := place(i, utf8.RuneCountInString(s))
	if !ok {
		return missing(s, fmt.Sprint(i)), nil
	}
	for _, r := range s {
		if at == 0 {
			return string(r), nil
		}
		at--
	}
	return missing(s, fmt.Sprint(i)), nil
}

func (e *slicing) evaluate(r *render) (Value, error) {
	of, err := r.eval(e.of)
	if err != nil {
		return nil, err
	}
	var bounds [3]*int64
	for i, part := range []expression{e.start, e.stop, e.step} {
		if part == nil {
			continue
		}
		v, err := r.eval(part)
		if err != nil {
			return nil, err
		}
		n, ok := integer(v)
		switch {
		case ok:
			bounds[i] = &n
		case v != nil:
			return nil, fmt.Errorf("%s cannot be a bound of a slice", kindOf(v))
		}
	}
	return r.slice(of, bounds)
}

// slice is of[start:stop:step].
func (m *meter) slice(of Value, bounds [3]*int64) (Value, error) {
	switch v := of.(type) {
	case *List:
		picked, err := m.positions(len(v.Items), bounds)
		if err != nil {
			return nil, err
		}
		items, err := m.items(int64(len(picked)))
		if err != nil {
			return nil, err
		}
		for _, at := range picked {
			items = append(items, v.Items[at])
		}
		return &List{Items: items, tuple: v.tuple}, nil
	case string:
		if err := m.takeMany(4, int64(len(v))); err != nil {
			return nil, err
		}
		runes := []rune(v)
		picked, err := m.positions(len(runes), bounds)
		if err != nil {
			return nil, err
		}
		if err := m.takeMany(2*4, int64(len(picked))); err != nil {
			return nil, err
		}
		out := make([]rune, len(picked))
		for i, at := range picked {
			out[i] = runes[at]
		}
		return string(out), nil
	case Undefined:
		return nil, v.err()
	}
	return nil, fmt.Errorf("%s cannot be sliced", kindOf(of))
}

// positions returns the indices that a slice of n items takes, as in Python.
func (m *meter) positions(n int, bounds [3]*int64) ([]int, error) {
	length, step := int64(n), int64(1)
	if bounds[2] != nil {
		step = *bounds[2]
	}
	if step == 0 {
		return nil, fmt.Errorf("slice with step 0")
	}
	low, high := int64(0), length
	if step < 0 {
		low, high = -1, length-1
	}
	clamp := func(bound *int64, absent int64) int64 {
		if bound == nil {
			return absent
		}
		v := *bound
		if v < 0 {
			v += length
		}
		return min(max(v, low), high)
	}
	start, stop := clamp(bounds[0], low), clamp(bounds[1], high)
	if step < 0 {
		start, stop = clamp(bounds[0], high), clamp(bounds[1], low)
	}
	step = min(max(step, -length-1), length+1)
	count := max((stop-start+step-1)/step, 0)
	if step < 0 {
		count = max((stop-start+step+1)/step, 0)
	}
	if err := m.takeMany(8, count); err != nil {
		return nil, err
	}
	out := make([]int, 0, count)
	for i := range count {
		out = append(out, int(start+i*step))
	}
	return out, nil
}

func (e *conditional) evaluate(r *render) (Value, error) {
	v, err := r.eval(e.condition)
	switch {
	case err != nil:
		return nil, err
	case truth(v):
		return r.eval(e.yes)
	case e.no == nil:
		return Undefined{name: "an inline if without else"}, nil
	}
	return r.eval(e.no)
}

// Call are the arguments that a function is called with.
type Call struct {
	*meter
	positional []Value
	named      map[string]Value
	names      []string // of named, as they were given
}

func (e *callExpression) evaluate(r *render) (Value, error) {
	return r.call(e.callee, e.arguments, nil)
}

// call calls what an expression stands for; caller may be that of a call block.
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

// arguments evaluates those of a call, behind first.
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
