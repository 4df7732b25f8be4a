package chat

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/kompute-go/kompute-go/llm/chat/internal/jinja"
)

// toValue converts a Go value for the template engine. Keys of maps are sorted;
// json.RawMessage keeps the order of its keys, which matters where a template
// prints them.
func toValue(v any) (jinja.Value, error) { return toValueAt(v, 0) }

// toValueAt converts a value that is nested in depth others. Maps and slices can contain themselves.
func toValueAt(v any, depth int) (jinja.Value, error) {
	if depth > maxNesting {
		return nil, fmt.Errorf("nested deeper than %d", maxNesting)
	}
	switch v := v.(type) {
	case nil, bool, int64, float64, string:
		return v, nil
	case int:
		return int64(v), nil
	case json.RawMessage:
		return jinja.FromJSON(v)
	case []string:
		return listValue(v, depth+1)
	case []any:
		return listValue(v, depth+1)
	case []json.RawMessage:
		return listValue(v, depth+1)
	case map[string]any:
		d := jinja.NewDict()
		for _, key := range slices.Sorted(maps.Keys(v)) {
			item, err := toValueAt(v[key], depth+1)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", key, err)
			}
			d.Set(key, item)
		}
		return d, nil
	}
	return nil, fmt.Errorf("a template cannot take a %T", v)
}

// apply applies Options.Text to the texts in a value, which may be a message of a role.
func (o *Options) apply(role string, v jinja.Value) jinja.Value {
	if o.Text == nil {
		return v
	}
	return jinja.Map(v, func(text string) string { return o.Text(role, text) })
}

func listValue[T any](items []T, depth int) (jinja.Value, error) {
	out := make([]jinja.Value, len(items))
	for i, item := range items {
		var err error
		if out[i], err = toValueAt(any(item), depth); err != nil {
			return nil, err
		}
	}
	return jinja.NewList(out...), nil
}
