package checkpoint

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"unicode/utf8"
)

// maxDepth bounds the nesting of every JSON file of a checkpoint; real ones
// stay below ten.
const maxDepth = 64

// checkJSON accepts exactly one JSON object in UTF-8 in which no object has the
// same key twice. encoding/json alone would replace broken UTF-8 and let the
// last of two equal keys win.
func checkJSON(data []byte) error {
	if !utf8.Valid(data) {
		return errors.New("not valid UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var stack []map[string]struct{} // the keys seen per open object; nil for an array
	atKey := false                  // the next string is a key
	for {
		tok, err := dec.Token()
		if err != nil {
			return jsonError(err)
		}
		if len(stack) == 0 && tok != json.Delim('{') {
			return errors.New("not a JSON object")
		}
		switch t := tok.(type) {
		case json.Delim:
			if stack, err = nest(stack, t); err != nil {
				return err
			}
		case string:
			if keys := top(stack); atKey && keys != nil {
				if _, dup := keys[t]; dup {
					return fmt.Errorf("duplicate key %q", t)
				}
				keys[t] = struct{}{}
				atKey = false
				continue
			}
		}
		if len(stack) == 0 {
			break
		}
		atKey = top(stack) != nil
	}
	if _, err := dec.Token(); err != io.EOF {
		return errors.New("data after the JSON object")
	}
	return nil
}

// nest opens or closes one level.
func nest(stack []map[string]struct{}, t json.Delim) ([]map[string]struct{}, error) {
	switch t {
	case '{':
		stack = append(stack, map[string]struct{}{})
	case '[':
		stack = append(stack, nil)
	default:
		return stack[:len(stack)-1], nil
	}
	if len(stack) > maxDepth {
		return nil, fmt.Errorf("nested deeper than %d", maxDepth)
	}
	return stack, nil
}

func top(stack []map[string]struct{}) map[string]struct{} {
	if len(stack) == 0 {
		return nil
	}
	return stack[len(stack)-1]
}

func jsonError(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("JSON ends early")
	}
	return fmt.Errorf("not JSON: %w", err)
}

// object parses a JSON object that checkJSON accepted, one level deep.
func object(raw json.RawMessage) (map[string]json.RawMessage, error) {
	if kind(raw) != '{' {
		return nil, fmt.Errorf("%s is not an object", brief(raw))
	}
	var m map[string]json.RawMessage
	return m, json.Unmarshal(raw, &m)
}

// kind returns the first byte of a JSON value: '{', '[', '"', 't', 'f', 'n', or
// '0' for a number.
func kind(raw json.RawMessage) byte {
	raw = bytes.TrimLeft(raw, " \t\r\n")
	switch {
	case len(raw) == 0:
		return 'n'
	case raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9':
		return '0'
	}
	return raw[0]
}

// natural is a JSON number written as a plain non-negative integer: no sign, no
// fraction, no exponent, no null.
type natural int

// UnmarshalJSON accepts 0 … math.MaxInt.
func (n *natural) UnmarshalJSON(raw []byte) error {
	v, err := strconv.ParseInt(string(raw), 10, strconv.IntSize)
	if err != nil || v < 0 {
		return fmt.Errorf("%s is not a non-negative integer of this machine", brief(raw))
	}
	*n = natural(v)
	return nil
}

// brief shortens a JSON value for a message.
func brief(raw []byte) string {
	const limit = 60
	if len(raw) <= limit {
		return string(raw)
	}
	return string(raw[:limit]) + "…"
}
