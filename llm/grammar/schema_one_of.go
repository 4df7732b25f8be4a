package grammar

import (
	"slices"
	"strconv"
)

// mostCompared bounds how deep properties of properties are compared.
const mostCompared = 8

// oneOf is anyOf if no value can meet two of the schemas.
func (b *builder) oneOf(d, v *document, path string) ([]element, error) {
	switch is := b.exclusive(v.items, 0); {
	case b.elements > mostElements:
		return nil, &SchemaError{path, "too large"}
	case !is:
		return nil, &SchemaError{path, "schemas that do not visibly exclude each other are not supported"}
	}
	return b.anyOf(d, v, path)
}

// exclusive reports whether no value meets two of the schemas, by their types, their constants, or a property that all
// of those for objects require. It may not find that out, and then returns false. What it looks at counts as elements,
// which bounds the work.
func (b *builder) exclusive(schemas []*document, depth int) bool {
	if depth > mostCompared {
		return false
	}
	taken := map[string]bool{}       // types, and constants
	ofConstants := map[string]bool{} // types of constants
	take := func(what string) bool {
		is := taken[what]
		taken[what] = true
		return !is
	}
	var objects []*document
	for _, s := range schemas {
		if s = b.target(s); s == nil {
			return false
		}
		constants, kinds := s.constants(), s.kinds()
		if b.elements += 1 + len(s.members) + len(constants); b.elements > mostElements || len(kinds) == 0 {
			return false
		}
		if constants == nil && slices.Equal(kinds, []string{"object"}) {
			objects = append(objects, s)
			continue
		}
		for i, kind := range kinds {
			if constants != nil && kind != "object" && kind != "array" {
				ofConstants[kind] = true
				kind += " " + constants[i].canonical()
			}
			if !take(kind) {
				return false
			}
		}
	}
	if len(objects) > 0 && !take("object") {
		return false
	}
	for kind := range ofConstants {
		if taken[kind] {
			return false
		}
	}
	return len(objects) < 2 || b.exclusiveObjects(objects, depth)
}

// exclusiveObjects is exclusive for schemas of objects: they must require a property whose schemas are exclusive.
func (b *builder) exclusiveObjects(objects []*document, depth int) bool {
	required := make([]map[string]*document, len(objects))
	for i, o := range objects {
		required[i] = b.required(o)
	}
	for _, name := range objects[0].get("required").listed() {
		var properties []*document
		for _, r := range required {
			if p := r[name]; p != nil {
				properties = append(properties, p)
			}
		}
		if len(properties) == len(objects) && b.exclusive(properties, depth+1) {
			return true
		}
	}
	return false
}

// target returns the schema that one with a $ref alone means, or the schema itself if it has none; nil: it cannot be
// found, it is not known here what a $ref within it means, or its keywords are not supported.
func (b *builder) target(d *document) *document {
	if d == nil || d.isRoot() {
		return nil
	}
	if _, err := d.checkKeywords(""); err != nil {
		return nil
	}
	ref := d.get("$ref")
	if ref == nil {
		return d
	}
	to, ok := b.targets[d]
	if !ok {
		b.targets[d] = nil // for a $ref that leads back here
		if next, root, _, err := b.resolve(ref, ""); err == nil && root == b.root {
			to = b.target(next)
		}
		b.targets[d] = to
	}
	return to
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

// kinds returns the type of each constant of a schema, else the types that it names, with number for integer. It returns
// none if there are neither: a schema that only describes objects, say, allows all other values as well.
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
	slices.Sort(out)
	return slices.Compact(out)
}

// canonical is the same for constants, other than objects and arrays, that are the same value.
func (d *document) canonical() string {
	if d.kind == '0' {
		if n, err := strconv.ParseFloat(string(d.raw), 64); err == nil {
			return strconv.FormatFloat(n, 'g', -1, 64)
		}
	}
	return string(d.raw)
}

// listed returns the names in a list of strings.
func (d *document) listed() (out []string) {
	if d == nil {
		return nil
	}
	for _, item := range d.items {
		if name, ok := item.text(); ok {
			out = append(out, name)
		}
	}
	return out
}

// required returns the schemas of the properties that an object must have.
func (b *builder) required(d *document) map[string]*document {
	properties, out := map[string]*document{}, map[string]*document{}
	if p := d.get("properties"); p != nil {
		for _, m := range p.members {
			properties[m.name] = m.value
		}
	}
	names := d.get("required").listed()
	for _, name := range names {
		if p := properties[name]; p != nil {
			out[name] = p
		}
	}
	b.elements += len(properties) + len(names)
	return out
}
