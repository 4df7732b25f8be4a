package grammar

import (
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

func (b *builder) anyOf(_, v *document, path string) ([]element, error) {
	if v.kind != '[' || len(v.items) == 0 {
		return nil, &SchemaError{path, "not a list of schemas"}
	}
	var out [][]element
	for i, item := range v.items {
		one, err := b.compile(item, fmt.Sprintf("%s/%d", path, i))
		if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	return b.or(out...), nil
}

func (b *builder) constant(d, v *document, path string) ([]element, error) {
	return b.oneOfValues(d, []*document{v}, path)
}

func (b *builder) enum(d, v *document, path string) ([]element, error) {
	if v.kind != '[' {
		return nil, &SchemaError{path, "not a list"}
	}
	return b.oneOfValues(d, v.items, path)
}

// oneOfValues allows values that are of the schema's type, if it has one.
func (b *builder) oneOfValues(d *document, values []*document, path string) ([]element, error) {
	kinds := types
	if d.get("type") != nil {
		var err error
		if kinds, err = typesOf(d, path); err != nil {
			return nil, err
		}
	}
	var out [][]element
	for _, v := range values {
		if slices.ContainsFunc(kinds, v.is) {
			out = append(out, lit(string(v.raw)))
		}
	}
	if len(out) == 0 {
		return nil, &SchemaError{path, "no value of the type"}
	}
	return b.or(out...), nil
}

// is reports whether a value is of a type.
func (d *document) is(kind string) bool {
	switch d.kind {
	case '{':
		return kind == "object"
	case '[':
		return kind == "array"
	case '"':
		return kind == "string"
	case 't', 'f':
		return kind == "boolean"
	case 'n':
		return kind == "null"
	}
	n, err := strconv.ParseFloat(string(d.raw), 64)
	return kind == "number" || kind == "integer" && err == nil && n == math.Trunc(n)
}

// isRoot reports whether $ref in a schema are relative to it. A property or a definition may be
// named $id as well, but is no string.
func (d *document) isRoot() bool {
	id := d.get("$id")
	return id != nil && id.kind == '"'
}

// ref compiles a part of the same schema, once.
func (b *builder) ref(_, v *document, path string) ([]element, error) {
	fragment, ok := v.text()
	pointer, err := url.PathUnescape(fragment) // a pointer in a URI has its escapes as well
	if err != nil {
		return nil, &SchemaError{path, fmt.Sprintf("%s: %v", v.raw, err)}
	}
	if !ok || pointer != "#" && !strings.HasPrefix(pointer, "#/") {
		return nil, &SchemaError{path, fmt.Sprintf("%s does not begin with #", v.raw)}
	}
	to := target{b.root, pointer}
	if i, ok := b.refs[to]; ok {
		return []element{{rule: i}}, nil
	}
	defer func() { b.root = to.root }()
	d := b.root
	for _, name := range strings.Split(pointer, "/")[1:] {
		name = strings.NewReplacer("~1", "/", "~0", "~").Replace(name)
		if i, err := strconv.Atoi(name); err == nil && d.kind == '[' && i >= 0 && i < len(d.items) {
			d = d.items[i]
		} else {
			d = d.get(name)
		}
		if d == nil {
			return nil, &SchemaError{path, fmt.Sprintf("%s is not in the schema", v.raw)}
		}
		if d.isRoot() {
			b.root = d
		}
	}
	i := b.reserve()
	b.refs[to] = i
	inner, err := b.compile(d, pointer)
	if err != nil {
		return nil, err
	}
	return b.define(i, inner), nil
}
