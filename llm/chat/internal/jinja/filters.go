package jinja

import (
	"fmt"
	"html"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// builtin is a filter or a function. The first argument by position is what a
// filter is applied to.
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

// arg returns an argument given by position or by name; the value is the first one.
func (c *Call) arg(at int, name string) (Value, bool) {
	if at < len(c.positional) {
		return c.positional[at], true
	}
	v, ok := c.named[name]
	return v, ok
}

// accept refuses more arguments than there are names.
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

// value is what a filter is applied to.
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

func (c *Call) boolArg(at int, name string, absent bool) bool {
	if v, ok := c.arg(at, name); ok {
		return truth(v)
	}
	return absent
}

// maxCase is how many times as long a text may be in another case: U+0390 has three
// characters in upper case, and a byte that is no UTF-8 becomes U+FFFD.
const maxCase = 3

// textFilter makes a filter of a function that changes the case of a text.
func textFilter(fn func(string) string) builtin {
	return func(c *Call) (Value, error) {
		if err := c.accept("s"); err != nil {
			return nil, err
		}
		s, err := c.text(c.value())
		if err != nil {
			return nil, err
		}
		return c.convert(s, maxCase, fn)
	}
}

func stringFilter(c *Call) (Value, error) { return c.text(c.value()) }

// defaultFilter is value|default(fallback, boolean): the fallback where value is
// undefined or, if boolean is true, counts as false.
func defaultFilter(c *Call) (Value, error) {
	if err := c.accept("value", "default_value", "boolean"); err != nil {
		return nil, err
	}
	_, undefined := c.value().(Undefined)
	if !undefined && (!c.boolArg(2, "boolean", false) || truth(c.value())) {
		return c.value(), nil
	}
	if v, ok := c.arg(1, "default_value"); ok {
		return v, nil
	}
	return "", nil
}

func absFilter(c *Call) (Value, error) {
	if n, ok := integer(c.value()); ok {
		if n < 0 {
			return integers("-", 0, n)
		}
		return n, nil
	}
	if f, ok := c.value().(float64); ok {
		return math.Abs(f), nil
	}
	return nil, fmt.Errorf("%s is not a number", kindOf(c.value()))
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
		return int64(utf8.RuneCountInString(v)), nil
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
	items, err := c.iterate(c.value())
	if err != nil || len(items) == 0 {
		return Undefined{name: "the first item of nothing"}, err
	}
	return items[0], nil
}

func lastFilter(c *Call) (Value, error) {
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
		return &List{}, nil
	case *Dict:
		return c.pairs(v)
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
	if _, ok := c.value().(string); !ok {
		return list, nil
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

func floatFilter(c *Call) (Value, error) {
	if f, ok := number(c.value()); ok {
		return f, nil
	}
	if s, ok := c.value().(string); ok {
		if err := c.takeMany(2, int64(len(s))); err != nil { // errors quote it
			return nil, err
		}
		if f, err := strconv.ParseFloat(strings.TrimSpace(s), 64); err == nil {
			return f, nil
		}
	}
	if v, ok := c.arg(1, "default"); ok {
		return v, nil
	}
	return 0.0, nil
}

func intFilter(c *Call) (Value, error) {
	base, err := c.intArg(2, "base", 10)
	if err != nil {
		return nil, err
	}
	switch v := c.value().(type) {
	case bool, int64:
		n, _ := integer(v)
		return n, nil
	case float64:
		if math.Abs(v) < 1<<63 {
			return int64(v), nil
		}
	case string:
		if err := c.takeMany(4, int64(len(v))); err != nil { // errors quote it
			return nil, err
		}
		if base == 0 || base >= 2 && base <= 36 {
			digits := strings.TrimSpace(v)
			if prefix := map[int64]string{2: "0b", 8: "0o", 16: "0x"}[base]; prefix != "" {
				digits = strings.TrimPrefix(strings.ToLower(digits), prefix)
			}
			if n, err := strconv.ParseInt(digits, int(base), 64); err == nil {
				return n, nil
			}
		}
		if f, err := strconv.ParseFloat(strings.TrimSpace(v), 64); err == nil && math.Abs(f) < 1<<63 {
			return int64(f), nil
		}
	}
	if v, ok := c.arg(1, "default"); ok {
		return v, nil
	}
	return int64(0), nil
}

func roundFilter(c *Call) (Value, error) {
	places, err := c.intArg(1, "precision", 0)
	if err != nil {
		return nil, err
	}
	how, err := c.textArg(2, "method", "common")
	if err != nil {
		return nil, err
	}
	f, ok := number(c.value())
	if !ok || places < -300 || places > 300 {
		return nil, fmt.Errorf("cannot round %s to %d places", kindOf(c.value()), places)
	}
	if n, isInt := integer(c.value()); isInt && how == "common" && places >= 0 {
		return n, nil
	}
	scale := math.Pow(10, float64(places))
	switch how {
	case "common":
		if places >= 0 { // as Python: the decimal digits that are nearest
			f, err = strconv.ParseFloat(strconv.FormatFloat(f, 'f', int(places), 64), 64)
			return f, err
		}
		return math.RoundToEven(f*scale) / scale, nil
	case "ceil":
		return math.Ceil(f*scale) / scale, nil
	case "floor":
		return math.Floor(f*scale) / scale, nil
	}
	return nil, fmt.Errorf("no way of rounding is called %.40q", how)
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
