package grammar

import (
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// property is one member that an object may or must have.
type property struct {
	form     []element // name, colon and value
	required bool
}

func (b *builder) object(d *document, path string) ([]element, error) {
	props, extra := d.get("properties"), d.get("additionalProperties")
	var required []string
	if r := d.get("required"); r != nil {
		for _, n := range r.items {
			name, ok := n.text()
			if !ok || props == nil || props.get(name) == nil {
				return nil, &SchemaError{path + "/required", fmt.Sprintf("%s is not one of the properties", n.raw)}
			}
			required = append(required, name)
		}
		if r.kind != '[' {
			return nil, &SchemaError{path + "/required", "not a list"}
		}
	}
	if props == nil || len(props.members) == 0 {
		if props != nil && props.kind != '{' {
			return nil, &SchemaError{path + "/properties", "not an object"}
		}
		return b.dictionary(d, path)
	}
	for _, name := range []string{"propertyNames", "patternProperties", "minProperties", "maxProperties"} {
		if d.get(name) != nil {
			return nil, &SchemaError{path, fmt.Sprintf("the keyword %q beside properties is not supported", name)}
		}
	}
	if extra != nil && extra.kind != 'f' && !extra.allowsAll() {
		return nil, &SchemaError{path + "/additionalProperties", "a schema beside properties is not supported"}
	}
	var all []property
	for _, m := range props.members {
		at := path + "/properties/" + m.name
		value, err := b.compile(m.value, at)
		if err != nil {
			return nil, err
		}
		name, err := jsontext.AppendQuote(nil, m.name)
		if err != nil {
			return nil, &SchemaError{at, err.Error()}
		}
		form := b.or(seq(b.space(), lit(string(name)), b.space(), lit(":"), b.space(), value))
		all = append(all, property{form, slices.Contains(required, m.name)})
	}
	return seq(lit("{"), b.rest(all), lit("}")), nil
}

// allowsAll reports whether a schema is true or {}.
func (d *document) allowsAll() bool { return d.kind == 't' || d.kind == '{' && len(d.members) == 0 }

// rest returns the forms of an object's members, in their order, with commas
// after the first.
func (b *builder) rest(all []property) []element {
	first, later := b.space(), b.space()
	for i := len(all) - 1; i >= 0; i-- {
		p := all[i]
		with, withComma := seq(p.form, later), seq(b.space(), lit(","), p.form, later)
		if p.required {
			first, later = b.or(with), b.or(withComma)
		} else {
			first, later = b.or(with, first), b.or(withComma, later)
		}
	}
	return first
}

// dictionary is an object whose properties are not named.
func (b *builder) dictionary(d *document, path string) ([]element, error) {
	names, patterns, extra := d.get("propertyNames"), d.get("patternProperties"), d.get("additionalProperties")
	name, err := b.name(names, path+"/propertyNames")
	if err != nil {
		return nil, err
	}
	where := path + "/additionalProperties"
	if patterns != nil {
		where = path + "/patternProperties"
		switch {
		case patterns.kind != '{' || len(patterns.members) != 1:
			return nil, &SchemaError{where, "other than one pattern is not supported"} // a name could match several
		case names != nil:
			return nil, &SchemaError{where, "beside propertyNames is not supported"}
		}
		only := patterns.members[0]
		if name, err = b.contains(only.name, 0, -1); err != nil {
			return nil, &SchemaError{where, err.Error()}
		}
		where, extra = where+"/"+only.name, only.value
	}
	lo, hi, err := bounds(d, "minProperties", "maxProperties", path)
	switch {
	case err != nil:
		return nil, err
	case lo > 1: // names may come twice
		return nil, &SchemaError{path + "/minProperties", "more than 1 is not supported"}
	}
	value := b.value()
	switch {
	case extra == nil || extra.allowsAll():
	case extra.kind == 'f' && lo > 0:
		return nil, &SchemaError{path + "/minProperties", "no property is allowed"}
	case extra.kind == 'f':
		hi = 0
	default:
		value, err = b.compile(extra, where)
	}
	return b.members(name, value, lo, hi), err
}

// name is a string that meets a schema; nil: any string.
func (b *builder) name(schema *document, path string) ([]element, error) {
	if schema == nil || schema.allowsAll() {
		return b.text(0, -1), nil
	}
	to := b.target(schema)
	if to == nil || to.kind != '{' {
		return nil, &SchemaError{path, "not a schema of strings"}
	}
	if kind := to.get("type"); kind == nil {
		to = &document{kind: to.kind, raw: to.raw, members: append(slices.Clone(to.members), member{"type", &document{kind: '"', raw: jsontext.Value(`"string"`)}})}
	} else if text, _ := kind.text(); text != "string" {
		return nil, &SchemaError{path, "not a schema of strings"}
	}
	return b.compile(to, path)
}
