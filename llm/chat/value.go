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
func toValue(v any) (jinja.Value, error) {
	switch v := v.(type) {
	case nil, bool, int64, float64, string:
		return v, nil
	case int:
		return int64(v), nil
	case json.RawMessage:
		return jinja.FromJSON(v)
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

func listValue[T any](items []T) (jinja.Value, error) {
	out := make([]jinja.Value, len(items))
	for i, item := range items {
		var err error
		if out[i], err = toValue(any(item)); err != nil {
			return nil, err
		}
	}
	return jinja.NewList(out...), nil
}
