package jinja

import (
	"fmt"
	"slices"
	"strings"
)

// keyed is an item with its sort key.
type keyed struct{ key, item Value }

// keyedBy returns items with their attributes as keys; texts are compared
// without case, unless requested otherwise.
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

// paths follows one path, or several, separated by commas, which give a list.
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
	list, err := c.keyedBy(items, path, c.boolArg(2, "case_sensitive"))
	if err != nil {
		return nil, err
	}
	return c.sorted(list, c.boolArg(1, "reverse"))
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
	list, err := c.keyedBy(pairs.Items, at, c.boolArg(1, "case_sensitive"))
	if err != nil {
		return nil, err
	}
	return c.sorted(list, c.boolArg(3, "reverse"))
}

// uniqueFilter is value|unique(case_sensitive, attribute).
func uniqueFilter(c *Call) (Value, error) {
	items, err := c.iterate(c.value())
	if err != nil {
		return nil, err
	}
	path, _ := c.arg(2, "attribute")
	list, err := c.keyedBy(items, path, c.boolArg(1, "case_sensitive"))
	if err != nil {
		return nil, err
	}
	out, seen := &generator{}, NewDict()
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
		if err := c.push(&out.items, one.item); err != nil {
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
	list, err := c.keyedBy(items, path, c.boolArg(1, "case_sensitive"))
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
