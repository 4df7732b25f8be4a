package chat

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/ardanlabs/jinja"
)

// maxValueDepth bounds the nesting of JSON passed to a template.
const maxValueDepth = 100

// toValue converts a Go value for the template engine. Keys of maps are sorted;
// json.RawMessage keeps the order of its keys, which matters where a template
// prints them.
func toValue(v any) (jinja.Value, error) {
	switch v := v.(type) {
	case nil, bool, int, int64, float64, string:
		return jinja.FromGoValue(v), nil
	case json.RawMessage:
		return jsonValue(v)
	case []string:
		return listValue(v)
	case []any:
		return listValue(v)
	case []json.RawMessage:
		return listValue(v)
	case map[string]any:
		d := jinja.NewDict()
		for _, key := range slices.Sorted(maps.Keys(v)) {
			item, err := toValue(v[key])
			if err != nil {
				return jinja.Undefined(), fmt.Errorf("%s: %w", key, err)
			}
			d.AsDict().Set(key, item)
		}
		return d, nil
	}
	return jinja.Undefined(), fmt.Errorf("a template cannot take a %T", v)
}

func listValue[T any](items []T) (jinja.Value, error) {
	out := make([]jinja.Value, len(items))
	for i, item := range items {
		var err error
		if out[i], err = toValue(any(item)); err != nil {
			return jinja.Undefined(), err
		}
	}
	return jinja.NewList(out), nil
}

// jsonValue parses one JSON value, with the keys of objects in their order.
func jsonValue(raw []byte) (jinja.Value, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	v, err := nextValue(dec, 0)
	if err != nil {
		return v, fmt.Errorf("malformed JSON: %w", err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return v, fmt.Errorf("malformed JSON: more than one value")
	}
	return v, nil
}

func nextValue(dec *json.Decoder, depth int) (jinja.Value, error) {
	tok, err := dec.Token()
	if err != nil {
		return jinja.Undefined(), err
	}
	switch t := tok.(type) {
	case json.Delim:
		if depth == maxValueDepth {
			return jinja.Undefined(), fmt.Errorf("nested deeper than %d", maxValueDepth)
		}
		if t == '{' {
			return nextDict(dec, depth+1)
		}
		return nextList(dec, depth+1)
	case json.Number:
		if n, err := t.Int64(); err == nil {
			return jinja.NewInt(n), nil
		}
		f, err := t.Float64()
		return jinja.NewFloat(f), err
	}
	return jinja.FromGoValue(tok), nil
}

func nextDict(dec *json.Decoder, depth int) (jinja.Value, error) {
	d := jinja.NewDict()
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return d, err
		}
		v, err := nextValue(dec, depth)
		if err != nil {
			return d, err
		}
		d.AsDict().Set(key.(string), v) // the decoder lets nothing but strings be keys
	}
	_, err := dec.Token()
	return d, err
}

func nextList(dec *json.Decoder, depth int) (jinja.Value, error) {
	var items []jinja.Value
	for dec.More() {
		v, err := nextValue(dec, depth)
		if err != nil {
			return v, err
		}
		items = append(items, v)
	}
	_, err := dec.Token()
	return jinja.NewList(items), err
}
