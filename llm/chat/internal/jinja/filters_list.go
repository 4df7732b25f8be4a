package jinja

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// follow is an attribute of an item by a path, "a.b.0".
func (m *meter) follow(item, path Value) (Value, error) { return m.followOr(item, path, Undefined{}) }

// followOr takes a default where a part of the path is undefined.
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
	return &List{Items: out}, nil
}

// mapper returns what map does with one item.
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

// with is a call with other arguments by position.
func (c *Call) with(first Value, rest []Value) (*Call, error) {
	positional, err := c.items(1 + int64(len(rest)))
	if err != nil {
		return nil, err
	}
	positional = append(append(positional, first), rest...)
	return &Call{meter: c.meter, positional: positional, named: c.named, names: c.names}, nil
}

// picker makes select, reject, selectattr and rejectattr.
func picker(keep, byAttribute bool) builtin {
	return func(c *Call) (Value, error) {
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
		return &List{Items: out}, nil
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

// keyed is an item with what it is sorted by.
type keyed struct{ key, item Value }

// keyedBy returns items with their attributes; texts are compared without case,
// unless that matters.
func (c *Call) keyedBy(items []Value, path Value, caseMatters bool) ([]keyed, error) {
	if err := c.takeMany(2*bytesPerItem, int64(len(items))); err != nil {
		return nil, err
	}
	out := make([]keyed, len(items))
	for i, item := range items {
		out[i] = keyed{item, item}
		if path != nil {
			var err error
			if out[i].key, err = c.paths(item, path); err != nil {
				return nil, err
			}
		}
		if s, ok := out[i].key.(string); ok && !caseMatters {
			var err error
			if out[i].key, err = c.convert(s, maxCase, strings.ToLower); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// paths follows one path, or several with commas to a list.
func (c *Call) paths(item, path Value) (Value, error) {
	s, ok := path.(string)
	if !ok || !strings.Contains(s, ",") {
		return c.follow(item, path)
	}
	out := &List{}
	for one := range strings.SplitSeq(s, ",") {
		v, err := c.follow(item, one)
		if err != nil {
			return nil, err
		}
		if err := c.push(&out.Items, v); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// sorted sorts stably.
func (c *Call) sorted(items []keyed, reverse bool) (*List, error) {
	out, err := c.items(int64(len(items)))
	if err != nil {
		return nil, err
	}
	err = sortStable(items, func(a, b keyed) (int, error) {
		if reverse {
			a, b = b, a
		}
		return c.order(a.key, b.key)
	})
	for _, one := range items {
		out = append(out, one.item)
	}
	return &List{Items: out}, err
}

// sortStable sorts by an order that may fail.
func sortStable[T any](items []T, order func(a, b T) (int, error)) error {
	var failed error
	slices.SortStableFunc(items, func(a, b T) int {
		if failed != nil {
			return 0
		}
		var by int
		by, failed = order(a, b)
		return by
	})
	return failed
}

// sortFilter is value|sort(reverse, case_sensitive, attribute).
func sortFilter(c *Call) (Value, error) {
	if err := c.accept("value", "reverse", "case_sensitive", "attribute"); err != nil {
		return nil, err
	}
	items, err := c.iterate(c.value())
	if err != nil {
		return nil, err
	}
	path, _ := c.arg(3, "attribute")
	list, err := c.keyedBy(items, path, c.boolArg(2, "case_sensitive", false))
	if err != nil {
		return nil, err
	}
	return c.sorted(list, c.boolArg(1, "reverse", false))
}

// dictsortFilter is value|dictsort(case_sensitive, by, reverse).
func dictsortFilter(c *Call) (Value, error) {
	if err := c.accept("value", "case_sensitive", "by", "reverse"); err != nil {
		return nil, err
	}
	d, ok := c.value().(*Dict)
	if !ok {
		return nil, fmt.Errorf("%s is no dictionary", kindOf(c.value()))
	}
	by, err := c.textArg(2, "by", "key")
	if err != nil {
		return nil, err
	}
	at := map[string]Value{"key": int64(0), "value": int64(1)}[by]
	if at == nil {
		return nil, fmt.Errorf("by is %.40q, not key or value", by)
	}
	pairs, err := c.pairs(d)
	if err != nil {
		return nil, err
	}
	list, err := c.keyedBy(pairs.Items, at, c.boolArg(1, "case_sensitive", false))
	if err != nil {
		return nil, err
	}
	return c.sorted(list, c.boolArg(3, "reverse", false))
}

// uniqueFilter is value|unique(case_sensitive, attribute).
func uniqueFilter(c *Call) (Value, error) {
	items, err := c.iterate(c.value())
	if err != nil {
		return nil, err
	}
	path, _ := c.arg(2, "attribute")
	list, err := c.keyedBy(items, path, c.boolArg(1, "case_sensitive", false))
	if err != nil {
		return nil, err
	}
	out, seen := &List{}, NewDict()
	for _, one := range list {
		if _, known := seen.Get(one.key); known {
			continue
		}
		if err := c.take(bytesPerEntry); err != nil {
			return nil, err
		}
		if !seen.Set(one.key, true) {
			return nil, fmt.Errorf("%s cannot be compared quickly", kindOf(one.key))
		}
		if err := c.push(&out.Items, one.item); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// groupbyFilter is value|groupby(attribute): pairs of a key and its items, sorted.
func groupbyFilter(c *Call) (Value, error) {
	items, err := c.iterate(c.value())
	if err != nil {
		return nil, err
	}
	path, ok := c.arg(1, "attribute")
	if !ok {
		return nil, fmt.Errorf("no attribute is given")
	}
	list, err := c.keyedBy(items, path, true)
	if err != nil {
		return nil, err
	}
	if err := c.takeMany(4*bytesPerItem, int64(len(list))); err != nil {
		return nil, err
	}
	for i := range list { // sorting keeps the key with the item
		list[i].item = tuple(list[i].key, list[i].item)
	}
	sorted, err := c.sorted(list, false)
	if err != nil {
		return nil, err
	}
	out := &List{}
	var group *List
	for i, pair := range sorted.Items {
		key, item := pair.(*List).Items[0], pair.(*List).Items[1]
		same := false
		if i > 0 {
			if same, err = c.equal(key, sorted.Items[i-1].(*List).Items[0]); err != nil {
				return nil, err
			}
		}
		if !same {
			if err := c.take(4 * bytesPerItem); err != nil {
				return nil, err
			}
			group = &List{}
			out.Items = append(out.Items, tuple(key, group))
		}
		if err := c.push(&group.Items, item); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func maxFilter(c *Call) (Value, error) { return c.extreme(1) }
func minFilter(c *Call) (Value, error) { return c.extreme(-1) }

// extreme is the largest item for sign 1, the smallest for -1; the first of equals.
func (c *Call) extreme(sign int) (Value, error) {
	items, err := c.iterate(c.value())
	if err != nil {
		return nil, err
	}
	path, _ := c.arg(2, "attribute")
	list, err := c.keyedBy(items, path, c.boolArg(1, "case_sensitive", false))
	if err != nil || len(list) == 0 {
		return Undefined{name: "an extreme of nothing"}, err
	}
	best := list[0]
	for _, one := range list[1:] {
		order, err := c.order(one.key, best.key)
		if err != nil {
			return nil, err
		}
		if sign*order > 0 && order != unordered {
			best = one
		}
	}
	return best.item, nil
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
	return &List{Items: cut(items, int(n), fill)}, nil
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
		if fill != nil && longer > 0 && i >= longer {
			piece = append(piece, fill)
		}
		out[i] = &List{Items: piece}
	}
	return out
}
