package grammar

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// The keywords that a schema may have, by type. Those without a type have no effect.
var keywords = map[string]string{
	"type": "", "enum": "", "const": "", "anyOf": "", "oneOf": "", "allOf": "", "$ref": "", "$defs": "", "definitions": "",
	"properties": "object", "required": "object", "additionalProperties": "object",
	"propertyNames": "object", "patternProperties": "object", "minProperties": "object", "maxProperties": "object",
	"items": "array", "prefixItems": "array", "uniqueItems": "array", "minItems": "array", "maxItems": "array", "minLength": "string", "maxLength": "string", "format": "string",
	"pattern": "string",
	"minimum": "number", "maximum": "number", "exclusiveMinimum": "number", "exclusiveMaximum": "number", "multipleOf": "number",
	"title": "", "description": "", "default": "", "examples": "", "deprecated": "", "readOnly": "", "writeOnly": "",
	"contentMediaType": "", "contentEncoding": "", "contentSchema": "",
	"$comment": "", "$schema": "", "$id": "", "discriminator": "",
}

var types = []string{"object", "array", "string", "number", "integer", "boolean", "null"}

// schema compiles a whole schema.
func (b *builder) schema(data []byte) ([]element, error) {
	d, err := parse(data)
	if err != nil {
		return nil, &SchemaError{"#", err.Error()}
	}
	b.root = d
	root, err := b.compile(d, "#")
	return seq(b.space(), root), err
}

// compile returns the form of the values that a part of the schema allows.
func (b *builder) compile(d *document, path string) ([]element, error) {
	fail := func(format string, args ...any) ([]element, error) {
		return nil, &SchemaError{path, fmt.Sprintf(format, args...)}
	}
	if b.depth++; b.depth > 4*mostDepth || b.elements > mostElements {
		return fail("too large")
	}
	defer func() { b.depth-- }()
	switch d.kind {
	case 't':
		return b.value(), nil
	case '{':
	default:
		return fail("%s is neither an object nor true", d.raw)
	}
	name, err := d.checkKeywords(path)
	if err != nil {
		return nil, err
	}
	defer func(outer *document) { b.root = outer }(b.root)
	if d.isRoot() {
		b.root = d
	}
	if name != "" {
		compile := map[string]func(*document, *document, string) ([]element, error){
			"$ref": b.ref, "anyOf": b.anyOf, "oneOf": b.oneOf, "allOf": b.allOf, "const": b.constant, "enum": b.enum,
		}[name]
		return compile(d, d.get(name), path+"/"+name)
	}
	kinds, err := typesOf(d, path)
	if err != nil {
		return nil, err
	}
	var out [][]element
	for _, kind := range kinds {
		one, err := b.typed(d, kind, path)
		if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	return b.or(out...), nil
}

// standalone are the keywords beside which no other one may restrict the values, except type beside enum and const.
var standalone = []string{"$ref", "anyOf", "oneOf", "allOf", "const", "enum"}

// checkKeywords returns which of the standalone keywords a schema has, "" for none, and an error for keywords that are not
// supported, or not together.
func (d *document) checkKeywords(path string) (alone string, err error) {
	for _, m := range d.members {
		if _, ok := keywords[m.name]; !ok {
			return "", &SchemaError{path, fmt.Sprintf("the keyword %q is not supported", m.name)}
		}
		if alone == "" && slices.Contains(standalone, m.name) {
			alone = m.name
		}
	}
	if alone == "" {
		return "", nil
	}
	typed := alone == "const" || alone == "enum"
	for _, m := range d.members {
		restricts := keywords[m.name] != "" || slices.Contains(standalone, m.name) || m.name == "type" && !typed
		if m.name != alone && restricts {
			return "", &SchemaError{path, fmt.Sprintf("the keyword %q beside %q is not supported", m.name, alone)}
		}
	}
	return alone, nil
}

// typesOf returns the types that a schema allows: those that it names, else those
// of its keywords, else all.
func typesOf(d *document, path string) ([]string, error) {
	t := d.get("type")
	if t == nil {
		var out []string
		for _, m := range d.members {
			if kind := keywords[m.name]; kind != "" && !slices.Contains(out, kind) {
				out = append(out, kind)
			}
		}
		if len(out) > 0 {
			return out, nil
		}
		return []string{"object", "array", "string", "number", "boolean", "null"}, nil
	}
	named := []*document{t}
	if t.kind == '[' {
		named = t.items
	}
	var out []string
	for _, n := range named {
		kind, ok := n.text()
		if !ok || !slices.Contains(types, kind) {
			return nil, &SchemaError{path + "/type", fmt.Sprintf("%s is none of %s", n.raw, strings.Join(types, ", "))}
		}
		if slices.Contains(out, kind) {
			return nil, &SchemaError{path + "/type", fmt.Sprintf("%s comes twice", n.raw)}
		}
		out = append(out, kind)
	}
	if len(out) == 0 {
		return nil, &SchemaError{path + "/type", "no type"}
	}
	return out, nil
}

func (b *builder) typed(d *document, kind, path string) ([]element, error) {
	switch kind {
	case "object":
		return b.object(d, path)
	case "array":
		return b.array(d, path)
	case "string":
		return b.string(d, path)
	case "number", "integer":
		return b.ranged(d, kind, path)
	case "boolean":
		return b.or(lit("true"), lit("false")), nil
	}
	return lit("null"), nil
}

// string is a string with the keywords of strings.
func (b *builder) string(d *document, path string) ([]element, error) {
	lo, hi, err := bounds(d, "minLength", "maxLength", path)
	if err != nil {
		return nil, err
	}
	if f := d.get("format"); f != nil {
		return b.format(d, f, lo, hi, path)
	}
	if p := d.get("pattern"); p != nil {
		return b.matching(p, lo, hi, path+"/pattern")
	}
	return b.text(lo, hi), nil
}

// matching is a string of lo to hi characters that matches the regular expression in a keyword.
func (b *builder) matching(keyword *document, lo, hi int, path string) ([]element, error) {
	text, ok := keyword.text()
	if !ok {
		return nil, &SchemaError{path, fmt.Sprintf("%s is not a string", keyword.raw)}
	}
	out, err := b.contains(text, lo, hi)
	if err != nil {
		return nil, &SchemaError{path, err.Error()}
	}
	return out, nil
}

// bounds reads a smallest and a largest number; the largest is -1 where there is none.
func bounds(d *document, low, high, path string) (lo, hi int, err error) {
	hi = -1
	for name, to := range map[string]*int{low: &lo, high: &hi} {
		v := d.get(name)
		if v == nil {
			continue
		}
		n, err := strconv.ParseFloat(string(v.raw), 64)
		if v.kind != '0' || err != nil || n < 0 || n != float64(int(n)) {
			return 0, 0, &SchemaError{path + "/" + name, fmt.Sprintf("%s is not a whole number of at least 0", v.raw)}
		}
		if n > mostElements/4 {
			return 0, 0, &SchemaError{path + "/" + name, fmt.Sprintf("%s exceeds %d", v.raw, mostElements/4)}
		}
		*to = int(n)
	}
	if hi >= 0 && lo > hi {
		return 0, 0, &SchemaError{path, fmt.Sprintf("%s %d exceeds %s %d", low, lo, high, hi)}
	}
	return lo, hi, nil
}
