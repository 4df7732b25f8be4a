package jinja

import (
	"fmt"
	"slices"
)

var listMethods = map[string]func(c *Call, l *List) (Value, error){
	"append": appendMethod, "insert": insertMethod, "pop": popMethod, "index": indexMethod, "count": countItems,
}

var dictMethods = map[string]func(c *Call, d *Dict) (Value, error){
	"get": getMethod, "pop": popKey, "update": updateMethod,
	"items":  func(c *Call, d *Dict) (Value, error) { return c.pairs(d) },
	"keys":   func(c *Call, d *Dict) (Value, error) { return c.newList(d.keys) },
	"values": valuesMethod,
}

func appendMethod(c *Call, l *List) (Value, error) {
	if len(c.positional) != 1 || l.tuple {
		return nil, fmt.Errorf("append takes one value, to a list")
	}
	if err := c.take(2 * bytesPerItem); err != nil {
		return nil, err
	}
	l.Items = append(l.Items, c.positional[0])
	return nil, nil
}

func insertMethod(c *Call, l *List) (Value, error) {
	if len(c.positional) != 2 || l.tuple {
		return nil, fmt.Errorf("insert takes a position and a value, to a list")
	}
	at, ok := integer(c.positional[0])
	if !ok {
		return nil, fmt.Errorf("insert at %s", kindOf(c.positional[0]))
	}
	if err := c.takeMany(bytesPerItem, int64(len(l.Items))+1); err != nil {
		return nil, err
	}
	if at < 0 {
		at += int64(len(l.Items))
	}
	// A copy, since a loop may be reading the old one.
	l.Items = slices.Insert(slices.Clone(l.Items), int(min(max(at, 0), int64(len(l.Items)))), c.positional[1])
	return nil, nil
}

func popMethod(c *Call, l *List) (Value, error) {
	i, err := c.intArg(0, "index", -1)
	if err != nil {
		return nil, err
	}
	at, ok := place(i, len(l.Items))
	if !ok || l.tuple {
		return nil, fmt.Errorf("pop of item %d of %d", i, len(l.Items))
	}
	v := l.Items[at]
	if at == len(l.Items)-1 {
		l.Items = l.Items[:at:at]
		return v, nil
	}
	items, err := c.clone(l.Items)
	if err != nil {
		return nil, err
	}
	l.Items = slices.Delete(items, at, at+1)
	return v, nil
}

func indexMethod(c *Call, l *List) (Value, error) {
	if len(c.positional) == 0 {
		return nil, fmt.Errorf("index without a value")
	}
	start, end, err := c.span(1, len(l.Items))
	if err != nil {
		return nil, err
	}
	for i := start; i < end; i++ {
		if same, err := c.equal(l.Items[i], c.positional[0]); same || err != nil {
			return int64(i), err
		}
	}
	return nil, fmt.Errorf("index: the value is not there")
}

func countItems(c *Call, l *List) (Value, error) {
	if len(c.positional) != 1 {
		return nil, fmt.Errorf("count takes one value")
	}
	n := int64(0)
	for _, item := range l.Items {
		same, err := c.equal(item, c.positional[0])
		if err != nil {
			return nil, err
		}
		n += asInt(same)
	}
	return n, nil
}

func getMethod(c *Call, d *Dict) (Value, error) {
	if len(c.positional) == 0 {
		return nil, fmt.Errorf("get without a key")
	}
	if v, ok := d.Get(c.positional[0]); ok {
		return v, nil
	}
	v, _ := c.arg(1, "default")
	return v, nil
}

func popKey(c *Call, d *Dict) (Value, error) {
	if len(c.positional) == 0 {
		return nil, fmt.Errorf("pop without a key")
	}
	v, ok := d.Get(c.positional[0])
	if !ok {
		if v, ok = c.arg(1, "default"); !ok {
			return nil, fmt.Errorf("pop: there is no such key")
		}
		return v, nil
	}
	keys, err := c.clone(d.keys) // a loop may be reading the old ones
	if err != nil {
		return nil, err
	}
	d.keys = keys
	d.remove(c.positional[0])
	return v, nil
}

func updateMethod(c *Call, d *Dict) (Value, error) {
	for _, v := range c.positional {
		other, ok := v.(*Dict)
		if !ok {
			return nil, fmt.Errorf("update with %s, which is no dictionary", kindOf(v))
		}
		if err := c.takeMany(bytesPerEntry, int64(other.Len())); err != nil {
			return nil, err
		}
		for _, key := range other.keys {
			d.Set(key, other.value(key))
		}
	}
	return nil, c.setNamed(d)
}

// setNamed sets the named arguments, in their order.
func (c *Call) setNamed(d *Dict) error {
	if err := c.takeMany(bytesPerEntry, int64(len(c.named))); err != nil {
		return err
	}
	for _, name := range c.names {
		d.Set(name, c.named[name])
	}
	return nil
}

func valuesMethod(c *Call, d *Dict) (Value, error) {
	out, err := c.items(int64(d.Len()))
	if err != nil {
		return nil, err
	}
	for _, key := range d.keys {
		out = append(out, d.value(key))
	}
	return &List{Items: out}, nil
}
