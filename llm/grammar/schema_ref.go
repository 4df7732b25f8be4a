package grammar

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// isRoot reports whether $ref in a schema are relative to it. A property or a definition may be
// named $id as well, but is no string.
func (d *document) isRoot() bool {
	id := d.get("$id")
	return id != nil && id.kind == '"'
}

// ref compiles a part of the same schema, once.
func (b *builder) ref(_, v *document, path string) ([]element, error) {
	d, root, pointer, err := b.resolve(v, path)
	if err != nil {
		return nil, err
	}
	defer func(outer *document) { b.root = outer }(b.root)
	b.root = root
	if i, ok := b.refs[d]; ok {
		return []element{{rule: i}}, nil
	}
	i := b.reserve()
	b.refs[d] = i
	inner, err := b.compile(d, "#"+pointer)
	if err != nil {
		return nil, err
	}
	return b.define(i, inner), nil
}

// resolve returns the part of the schema that a $ref means, what $ref within that part are relative to, and its pointer.
func (b *builder) resolve(v *document, path string) (d, root *document, pointer string, err error) {
	fail := func(format string, args ...any) (*document, *document, string, error) {
		return nil, nil, "", &SchemaError{path, fmt.Sprintf("%s "+format, append([]any{v.raw}, args...)...)}
	}
	text, _ := v.text()
	fragment, ok := strings.CutPrefix(text, "#")
	pointer, err = url.PathUnescape(fragment) // a pointer in a URI has its escapes as well
	if err != nil {
		return fail("is no pointer: %v", err)
	}
	if !ok || pointer != "" && pointer[0] != '/' {
		return fail("is neither # nor a pointer that begins with #/")
	}
	d, root = b.root, b.root
	for _, name := range strings.Split(pointer, "/")[1:] {
		if d, err = d.part(name); err != nil {
			return fail("is no pointer: %v", err)
		}
		if d == nil {
			return fail("is not in the schema")
		}
		if d.isRoot() {
			root = d
		}
	}
	return d, root, pointer, nil
}

// part returns what a name of a pointer (RFC 6901) means: a member, or an item of a list. It
// returns nil if there is none.
func (d *document) part(name string) (*document, error) {
	for i := range len(name) {
		if name[i] == '~' && !strings.HasPrefix(name[i+1:], "0") && !strings.HasPrefix(name[i+1:], "1") {
			return nil, errors.New("a ~ is followed by neither 0 nor 1")
		}
	}
	name = strings.NewReplacer("~1", "/", "~0", "~").Replace(name)
	if d.kind != '[' {
		return d.get(name), nil
	}
	if name == "" || name != "0" && name[0] == '0' || strings.Trim(name, "0123456789") != "" {
		return nil, fmt.Errorf("%q is no index of a list: 0, or digits that do not begin with 0", name)
	}
	if i, err := strconv.Atoi(name); err == nil && i < len(d.items) {
		return d.items[i], nil
	}
	return nil, nil
}
