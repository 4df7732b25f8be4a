package jinja

import "fmt"

// groupFields names the items of a group; see List.fields.
var groupFields = []string{"grouper", "list"}

// groupbyFilter is value|groupby(attribute, default, case_sensitive): pairs of a key and
// its items, sorted.
func groupbyFilter(c *Call) (Value, error) {
	if err := c.accept("value", "attribute", "default", "case_sensitive"); err != nil {
		return nil, err
	}
	items, err := c.iterate(c.value())
	if err != nil {
		return nil, err
	}
	path, ok := c.arg(1, "attribute")
	if !ok {
		return nil, fmt.Errorf("no attribute is given")
	}
	absent, _ := c.arg(2, "default")
	if absent == nil {
		absent = Undefined{}
	}
	keys, err := c.items(int64(len(items)))
	if err != nil {
		return nil, err
	}
	for _, item := range items {
		key, err := c.followOr(item, path, absent)
		if err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	list, err := c.keyedBy(keys, nil, c.boolArg(3, "case_sensitive"))
	if err != nil {
		return nil, err
	}
	if err := c.takeMany(5*bytesPerItem, int64(len(list))); err != nil {
		return nil, err
	}
	for i := range list { // sorting keeps the keys with the item
		list[i].item = tuple(list[i].key, keys[i], items[i])
	}
	sorted, err := c.sorted(list, false)
	if err != nil {
		return nil, err
	}
	return c.groups(sorted.Items)
}

// groups gathers neighbours of sorted tuples: a key to compare, a key to show, an item.
func (c *Call) groups(sorted []Value) (Value, error) {
	out := &List{}
	var group *List
	var last Value
	for i, one := range sorted {
		parts := one.(*List).Items
		same := false
		if i > 0 {
			var err error
			if same, err = c.equal(parts[0], last); err != nil {
				return nil, err
			}
		}
		last = parts[0]
		if !same {
			if err := c.take(4 * bytesPerItem); err != nil {
				return nil, err
			}
			group = &List{}
			out.Items = append(out.Items, &List{Items: []Value{parts[1], group}, tuple: true, fields: groupFields})
		}
		if err := c.push(&group.Items, parts[2]); err != nil {
			return nil, err
		}
	}
	return out, nil
}
