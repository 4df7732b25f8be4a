package grammar

import (
	"bytes"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
)

// document is a JSON value whose members keep their order.
type document struct {
	kind    jsontext.Kind
	raw     jsontext.Value // compact, and strings in their shortest form
	members []member
	items   []*document
}

type member struct {
	name  string
	value *document
}

// get returns a member of an object, or nil.
func (d *document) get(name string) *document {
	for i := range d.members {
		if d.members[i].name == name {
			return d.members[i].value
		}
	}
	return nil
}

const mostDepth = 64

// parse reads one JSON value.
func parse(data []byte) (*document, error) {
	if len(data) > mostElements {
		return nil, fmt.Errorf("%d bytes are more than %d", len(data), mostElements)
	}
	raw := jsontext.Value(bytes.Clone(data))
	if err := raw.Format(jsontext.PreserveRawStrings(false)); err != nil {
		return nil, err
	}
	return read(raw, 0)
}

func read(raw jsontext.Value, depth int) (*document, error) {
	d := &document{kind: raw.Kind(), raw: raw}
	if d.kind != '{' && d.kind != '[' {
		return d, nil
	}
	if depth > mostDepth {
		return nil, fmt.Errorf("more than %d levels", mostDepth)
	}
	dec := jsontext.NewDecoder(bytes.NewReader(raw))
	if _, err := dec.ReadToken(); err != nil {
		return nil, err
	}
	for dec.PeekKind() != '}' && dec.PeekKind() != ']' {
		name := ""
		if d.kind == '{' {
			token, err := dec.ReadToken()
			if err != nil {
				return nil, err
			}
			name = token.String()
		}
		value, err := dec.ReadValue()
		if err != nil {
			return nil, err
		}
		inner, err := read(value.Clone(), depth+1)
		if err != nil {
			return nil, err
		}
		if d.kind == '{' {
			d.members = append(d.members, member{name, inner})
		} else {
			d.items = append(d.items, inner)
		}
	}
	_, err := dec.ReadToken()
	return d, err
}

// text returns a string.
func (d *document) text() (string, bool) {
	if d.kind != '"' {
		return "", false
	}
	out, err := jsontext.AppendUnquote(nil, d.raw)
	return string(out), err == nil
}
