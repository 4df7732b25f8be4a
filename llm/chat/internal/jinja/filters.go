package jinja

import (
	"fmt"
	"html"
	"slices"
)

// builtin is a filter or a function. The first positional argument is the value
// that a filter is applied to.
type builtin func(c *Call) (Value, error)

// filters are those of Jinja that chat templates may need, with tojson as
// transformers has it, and fromjson.
var filters map[string]builtin

func init() { // the map refers to functions that look into it
	filters = map[string]builtin{
		"abs": absFilter, "attr": attrFilter, "batch": batchFilter, "capitalize": textFilter(capitalize), "center": centerFilter,
		"count": lengthFilter, "d": defaultFilter, "default": defaultFilter, "dictsort": dictsortFilter, "e": escapeFilter,
		"escape": escapeFilter, "first": firstFilter, "float": floatFilter, "forceescape": escapeFilter, "format": formatFilter,
		"groupby": groupbyFilter, "indent": indentFilter, "int": intFilter, "items": itemsFilter, "join": joinFilter,
		"last": lastFilter, "length": lengthFilter, "list": listFilter, "lower": textFilter(lower), "map": mapFilter,
		"max": maxFilter, "min": minFilter, "reject": picker(false, false), "rejectattr": picker(false, true),
		"replace": replaceFilter, "reverse": reverseFilter, "round": roundFilter, "safe": stringFilter,
		"select": picker(true, false), "selectattr": picker(true, true), "slice": sliceFilter, "sort": sortFilter,
		"string": stringFilter, "sum": sumFilter, "title": textFilter(title), "tojson": tojsonFilter, "trim": trimFilter,
		"truncate": truncateFilter, "unique": uniqueFilter, "upper": textFilter(upper), "urlencode": urlencodeFilter,
		"wordcount": wordcountFilter, "fromjson": fromjsonFilter,
	}
}

func stringFilter(c *Call) (Value, error) { return c.text(c.value()) }

// defaultFilter is value|default(fallback, boolean): the fallback if value is
// undefined or, if boolean is true, counts as false.
func defaultFilter(c *Call) (Value, error) {
	if err := c.accept("value", "default_value", "boolean"); err != nil {
		return nil, err
	}
	_, undefined := c.value().(Undefined)
	if !undefined && (!c.boolArg(2, "boolean") || truth(c.value())) {
		return c.value(), nil
	}
	if v, ok := c.arg(1, "default_value"); ok {
		return v, nil
	}
	return "", nil
}

func attrFilter(c *Call) (Value, error) {
	name, err := c.textArg(1, "name", "")
	if err != nil {
		return nil, err
	}
	if d, ok := c.value().(*Dict); ok && method(d, name) == nil {
		return missing(d, name), nil
	}
	return c.attribute(c.value(), name)
}

func lengthFilter(c *Call) (Value, error) {
	switch v := c.value().(type) {
	case string:
		if err := c.scan(len(v)); err != nil {
			return nil, err
		}
		return int64(length(v)), nil
	case *List:
		return int64(len(v.Items)), nil
	case *Dict:
		return int64(v.Len()), nil
	case Undefined:
		return int64(0), nil
	}
	return nil, fmt.Errorf("%s has no length", kindOf(c.value()))
}

func firstFilter(c *Call) (Value, error) {
	if g, ok := c.value().(*generator); ok {
		if v, ok := g.next(); ok {
			return v, nil
		}
	}
	items, err := c.iterate(c.value())
	if err != nil || len(items) == 0 {
		return Undefined{name: "the first item of nothing"}, err
	}
	return items[0], nil
}

func lastFilter(c *Call) (Value, error) {
	if _, ok := c.value().(*generator); ok {
		return nil, fmt.Errorf("a generator cannot be reversed")
	}
	items, err := c.iterate(c.value())
	if err != nil || len(items) == 0 {
		return Undefined{name: "the last item of nothing"}, err
	}
	return items[len(items)-1], nil
}

func listFilter(c *Call) (Value, error) {
	items, err := c.iterate(c.value())
	if err != nil {
		return nil, err
	}
	return c.newList(items)
}

// newList copies items into a list of their own.
func (m *meter) newList(items []Value) (*List, error) {
	items, err := m.clone(items)
	return &List{Items: items}, err
}

func itemsFilter(c *Call) (Value, error) {
	switch v := c.value().(type) {
	case Undefined:
		return &generator{}, nil
	case *Dict:
		pairs, err := c.pairs(v)
		if err != nil {
			return nil, err
		}
		return &generator{pairs.Items}, nil
	}
	return nil, fmt.Errorf("%s is no mapping", kindOf(c.value()))
}

// pairs returns the keys of a dictionary with their values.
func (m *meter) pairs(d *Dict) (*List, error) {
	if err := m.takeMany(4*bytesPerItem, int64(d.Len())); err != nil {
		return nil, err
	}
	out := &List{Items: make([]Value, d.Len())}
	for i, key := range d.keys {
		out.Items[i] = tuple(key, d.value(key))
	}
	return out, nil
}

func reverseFilter(c *Call) (Value, error) {
	items, err := c.iterate(c.value())
	if err != nil {
		return nil, err
	}
	list, err := c.newList(items)
	if err != nil {
		return nil, err
	}
	slices.Reverse(list.Items)
	switch c.value().(type) {
	case string:
	case *generator:
		return list, nil
	default:
		return &generator{list.Items}, nil
	}
	b := builder{meter: c.meter}
	for _, r := range list.Items {
		if err := b.write(r.(string)); err != nil {
			return nil, err
		}
	}
	return b.b.String(), nil
}

func escapeFilter(c *Call) (Value, error) {
	s, err := c.text(c.value())
	if err != nil {
		return nil, err
	}
	return c.convert(s, int64(len("&#34;")), html.EscapeString)
}

func formatFilter(c *Call) (Value, error) {
	s, err := c.text(c.value())
	if err != nil {
		return nil, err
	}
	if len(c.named) == 0 {
		return c.format(s, tuple(c.positional[1:]...))
	}
	d := NewDict()
	if err := c.setNamed(d); err != nil {
		return nil, err
	}
	return c.format(s, d)
}
