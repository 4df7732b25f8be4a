package jinja

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// follow returns an attribute of an item by a path, "a.b.0".
func (m *meter) follow(item, path Value) (Value, error) { return m.followOr(item, path, Undefined{}) }

// followOr returns a default if a part of the path is undefined.
func (m *meter) followOr(item, path, absent Value) (Value, error) {
	if n, ok := integer(path); ok {
		return m.item(item, n)
	}
	s, ok := path.(string)
	if !ok {
		return nil, fmt.Errorf("attribute is %s", kindOf(path))
	}
	for part := range strings.SplitSeq(s, ".") {
		if err := m.take(len(part)); err != nil {
			return nil, err
		}
		var key Value = part
		if n, err := strconv.ParseInt(part, 10, 64); err == nil {
			key = n
		}
		var err error
		if item, err = m.item(item, key); err != nil {
			return nil, err
		}
		if _, undefined := item.(Undefined); undefined && absent != (Undefined{}) {
			item = absent
		}
	}
	return item, nil
}

// mapFilter is value|map(filter, …) or value|map(attribute=path, default=v).
func mapFilter(c *Call) (Value, error) {
	if !truth(c.value()) { // Jinja asks for no items of anything false, such as none
		return &generator{}, nil
	}
	items, err := c.iterate(c.value())
	if err != nil {
		return nil, err
	}
	one, err := c.mapper()
	if err != nil {
		return nil, err
	}
	out, err := c.items(int64(len(items)))
	if err != nil {
		return nil, err
	}
	for _, item := range items {
		if err := c.step(1); err != nil {
			return nil, err
		}
		v, err := one(item)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return &generator{out}, nil
}

// mapper returns the function that map applies to one item.
func (c *Call) mapper() (func(Value) (Value, error), error) {
	if path, ok := c.named["attribute"]; ok && len(c.positional) == 1 {
		absent := c.named["default"]
		if absent == nil {
			absent = Undefined{}
		}
		return func(item Value) (Value, error) { return c.followOr(item, path, absent) }, nil
	}
	if len(c.positional) < 2 {
		return nil, fmt.Errorf("neither a filter nor an attribute")
	}
	name, _ := c.positional[1].(string)
	filter := filters[name]
	if filter == nil {
		return nil, fmt.Errorf("there is no filter %.40q", name)
	}
	return func(item Value) (Value, error) {
		if err := c.enter(); err != nil {
			return nil, err
		}
		defer c.leave()
		one, err := c.with(item, c.positional[2:])
		if err != nil {
			return nil, err
		}
		return filter(one)
	}, nil
}

// picker makes select, reject, selectattr and rejectattr.
func picker(keep, byAttribute bool) builtin {
	return func(c *Call) (Value, error) {
		if !truth(c.value()) { // as map
			return &generator{}, nil
		}
		items, err := c.iterate(c.value())
		if err != nil {
			return nil, err
		}
		holds, err := c.predicate(byAttribute)
		if err != nil {
			return nil, err
		}
		var out []Value
		for _, item := range items {
			if err := c.step(1); err != nil {
				return nil, err
			}
			ok, err := holds(item)
			if err != nil {
				return nil, err
			}
			if ok == keep {
				if err := c.push(&out, item); err != nil {
					return nil, err
				}
			}
		}
		return &generator{out}, nil
	}
}

// predicate returns the test that the arguments name, of an item or its attribute.
func (c *Call) predicate(byAttribute bool) (func(Value) (bool, error), error) {
	rest := c.positional[1:]
	look := func(item Value) (Value, error) { return item, nil }
	if byAttribute {
		if len(rest) == 0 {
			return nil, fmt.Errorf("no attribute is given")
		}
		path := rest[0]
		rest = rest[1:]
		look = func(item Value) (Value, error) { return c.follow(item, path) }
	}
	holds := func(c *Call) (bool, error) { return truth(c.value()), nil }
	if len(rest) > 0 {
		name, _ := rest[0].(string)
		rest = rest[1:]
		if holds = tests[name]; holds == nil {
			return nil, fmt.Errorf("there is no test %.40q", name)
		}
	}
	return func(item Value) (bool, error) {
		v, err := look(item)
		if err != nil {
			return false, err
		}
		one, err := c.with(v, rest)
		if err != nil {
			return false, err
		}
		return holds(one)
	}, nil
}

// sumFilter is value|sum(attribute, start).
func sumFilter(c *Call) (Value, error) {
	items, err := c.iterate(c.value())
	if err != nil {
		return nil, err
	}
	path, _ := c.arg(1, "attribute")
	sum, ok := c.arg(2, "start")
	if !ok {
		sum = int64(0)
	}
	for _, item := range items {
		if path != nil {
			if item, err = c.follow(item, path); err != nil {
				return nil, err
			}
		}
		if sum, err = c.operate("+", sum, item); err != nil {
			return nil, err
		}
	}
	return sum, nil
}

// batchFilter is value|batch(n, fill): lists of n items.
func batchFilter(c *Call) (Value, error) { return c.pieces("linecount", c.batches) }

// sliceFilter is value|slice(n, fill): n lists.
func sliceFilter(c *Call) (Value, error) { return c.pieces("slices", c.columns) }

func (c *Call) pieces(name string, cut func(items []Value, n int, fill Value) []Value) (Value, error) {
	if err := c.accept("value", name, "fill_with"); err != nil {
		return nil, err
	}
	items, err := c.iterate(c.value())
	if err != nil {
		return nil, err
	}
	n, err := c.intArg(1, name, 0)
	if err != nil {
		return nil, err
	}
	if n < 1 {
		return nil, fmt.Errorf("%s is %d", name, n)
	}
	for _, count := range []int64{n, int64(len(items))} {
		if err := c.takeMany(4*bytesPerItem, count); err != nil {
			return nil, err
		}
	}
	fill, _ := c.arg(2, "fill_with")
	return &generator{cut(items, int(n), fill)}, nil
}

func (c *Call) batches(items []Value, n int, fill Value) []Value {
	var out []Value
	for piece := range slices.Chunk(items, n) {
		piece = slices.Clone(piece)
		for fill != nil && len(piece) < n {
			piece = append(piece, fill)
		}
		out = append(out, &List{Items: piece})
	}
	return out
}

func (c *Call) columns(items []Value, n int, fill Value) []Value {
	out := make([]Value, n)
	each, longer := len(items)/n, len(items)%n
	for i := range out {
		size := each
		if i < longer {
			size++
		}
		piece := slices.Clone(items[:size])
		items = items[size:]
		if fill != nil && i >= longer { // even if all have the same length, as in Jinja
			piece = append(piece, fill)
		}
		out[i] = &List{Items: piece}
	}
	return out
}
