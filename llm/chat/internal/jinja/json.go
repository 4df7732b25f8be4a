package jinja

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// Limits on JSON.
const (
	maxIndent    = 64
	maxJSONDepth = 100
)

// fromjsonFilter is value|fromjson, the reverse.
func fromjsonFilter(c *Call) (Value, error) {
	s, ok := c.value().(string)
	if !ok {
		return nil, fmt.Errorf("%s is not a text", kindOf(c.value()))
	}
	if err := c.takeMany(bytesPerEntry, int64(len(s))); err != nil {
		return nil, err
	}
	return FromJSON([]byte(s))
}

// FromJSON reads one JSON value. Objects keep the order of their keys; one that comes twice has
// its last value, as in Python.
func FromJSON(raw []byte) (Value, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	v, err := nextValue(dec, 0)
	if err != nil {
		return nil, fmt.Errorf("malformed JSON: %w", err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, fmt.Errorf("malformed JSON: more than one value")
	}
	return v, nil
}

func nextValue(dec *json.Decoder, depth int) (Value, error) {
	tok, err := dec.Token()
	if err != nil {
		return nil, err
	}
	switch t := tok.(type) {
	case json.Delim:
		if depth == maxJSONDepth {
			return nil, fmt.Errorf("nested deeper than %d", maxJSONDepth)
		}
		if t == '{' {
			return nextDict(dec, depth+1)
		}
		return nextList(dec, depth+1)
	case json.Number:
		if n, err := t.Int64(); err == nil {
			return n, nil
		}
		if !strings.ContainsAny(t.String(), ".eE") {
			return longInteger(t), nil
		}
		return t.Float64()
	}
	return tok, nil
}

func nextDict(dec *json.Decoder, depth int) (Value, error) {
	d := NewDict()
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil, err
		}
		v, err := nextValue(dec, depth)
		if err != nil {
			return nil, err
		}
		d.Set(key, v) // the decoder accepts only strings as keys
	}
	_, err := dec.Token()
	return d, err
}

func nextList(dec *json.Decoder, depth int) (Value, error) {
	l := &List{}
	for dec.More() {
		v, err := nextValue(dec, depth)
		if err != nil {
			return nil, err
		}
		l.Items = append(l.Items, v)
	}
	_, err := dec.Token()
	return l, err
}
