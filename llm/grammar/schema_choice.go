package grammar

import (
	"fmt"
	"math"
	"slices"
	"strconv"
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

// allOf allows the values of its only schema: generators of schemas write {"allOf": [{"$ref": …}]} to put other members
// beside a $ref.
func (b *builder) allOf(d, v *document, path string) ([]element, error) {
	if v.kind == '[' && len(v.items) > 1 {
		return nil, &SchemaError{path, "more than one schema is not supported"}
	}
	return b.anyOf(d, v, path)
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
	values, err := b.ofType(d, values, path)
	if err != nil {
		return nil, err
	}
	var out [][]element
	for _, v := range values {
		out = append(out, lit(string(v.raw)))
	}
	return b.or(out...), nil
}

// ofType returns those values, at least one, that are of a schema's type, if it has one.
func (b *builder) ofType(d *document, values []*document, path string) (out []*document, err error) {
	kinds := types
	if d.get("type") != nil {
		if kinds, err = typesOf(d, path); err != nil {
			return nil, err
		}
	}
	for _, v := range values {
		b.elements++ // it was looked at: the limit of the size bounds the work as well
		if slices.ContainsFunc(kinds, v.is) {
			out = append(out, v)
		}
	}
	if out == nil {
		return nil, &SchemaError{path, "no value of the type"}
	}
	return out, nil
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
