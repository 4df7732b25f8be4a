package grammar

import (
	"fmt"
	"slices"
	"strconv"
)

// oneOf is anyOf if no value can meet two of the schemas.
func (b *builder) oneOf(d, v *document, path string) ([]element, error) {
	for i := range v.items {
		for j := range i {
			if !b.disjoint(v.items[j], v.items[i], 0) {
				return nil, &SchemaError{path, fmt.Sprintf("schemas %d and %d do not visibly exclude each other, which is not supported", j, i)}
			}
		}
	}
	return b.anyOf(d, v, path)
}

// disjoint reports whether no value meets both schemas, by their types, their constants, or a property that both
// require. It may not find that out, and then returns false.
func (b *builder) disjoint(x, y *document, depth int) bool {
	x, y = b.target(x), b.target(y)
	if x == nil || y == nil || depth > mostDepth {
		return false
	}
	if b.elements++; b.elements > mostElements { // bounds the work as well
		return false
	}
	if these, those := x.constants(), y.constants(); these != nil && those != nil {
		return !slices.ContainsFunc(these, func(c *document) bool { return slices.ContainsFunc(those, c.equals) })
	}
	these, those := x.kinds(), y.kinds()
	if len(these) == 0 || len(those) == 0 {
		return false
	}
	if !slices.ContainsFunc(these, func(kind string) bool { return slices.Contains(those, kind) }) {
		return true
	}
	if !slices.Equal(these, []string{"object"}) || !slices.Equal(those, []string{"object"}) {
		return false
	}
	for _, name := range x.required() {
		p, q := x.get("properties").get(name), y.get("properties")
		if slices.Contains(y.required(), name) && b.disjoint(p, q.get(name), depth+1) {
			return true
		}
	}
	return false
}

// target returns the schema that one with a $ref alone means; nil: it cannot be found, or what $ref within it mean is
// not known here.
func (b *builder) target(d *document) *document {
	for range mostDepth {
		if d == nil || d.isRoot() {
			return nil
		}
		ref := d.get("$ref")
		if ref == nil {
			return d
		}
		next, root, _, err := b.resolve(ref, "")
		if err != nil || root != b.root {
			return nil
		}
		d = next
	}
	return nil
}

// constants returns the only values that a schema allows, nil if it names none.
func (d *document) constants() []*document {
	if c := d.get("const"); c != nil {
		return []*document{c}
	}
	if e := d.get("enum"); e != nil {
		return e.items
	}
	return nil
}

// kinds returns the types that a schema names, with number for integer, or those of its constants; none if there are
// neither, since a schema that only describes objects, say, allows all other values as well.
func (d *document) kinds() (out []string) {
	if values := d.constants(); values != nil {
		for _, v := range values {
			out = append(out, types[slices.IndexFunc(types, v.is)])
		}
		return out
	}
	if d.get("type") == nil {
		return nil
	}
	out, err := typesOf(d, "")
	if err != nil {
		return nil
	}
	for i := range out {
		if out[i] == "integer" {
			out[i] = "number"
		}
	}
	return out
}

// required returns the properties that an object must have, of those that the schema describes.
func (d *document) required() (out []string) {
	properties, names := d.get("properties"), d.get("required")
	if properties == nil || names == nil {
		return nil
	}
	for _, n := range names.items {
		if name, ok := n.text(); ok && properties.get(name) != nil {
			out = append(out, name)
		}
	}
	return out
}

// equals reports whether two constants are the same value; of lists and objects it does not know, and says so.
func (d *document) equals(other *document) bool {
	if d.kind != other.kind {
		return false
	}
	switch d.kind {
	case '0':
		x, errX := strconv.ParseFloat(string(d.raw), 64)
		y, errY := strconv.ParseFloat(string(other.raw), 64)
		return errX != nil || errY != nil || x == y
	case '{', '[':
		return true
	}
	return string(d.raw) == string(other.raw)
}
