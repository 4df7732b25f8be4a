package checkpoint

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// object parses a JSON object, one level deep. At every depth it refuses what
// encoding/json lets pass: two members of one name, and broken UTF-8.
func object(raw jsontext.Value) (map[string]jsontext.Value, error) {
	var members map[string]jsontext.Value
	err := json.Unmarshal(raw, &members)
	var syntax *jsontext.SyntacticError
	switch {
	case errors.As(err, &syntax):
		return nil, fmt.Errorf("malformed JSON: %w", err)
	case err != nil || members == nil:
		return nil, fmt.Errorf("%s is not an object", brief(raw))
	}
	return members, nil
}

// text returns a JSON string; ok is false where raw is anything else.
func text(raw jsontext.Value) (s string, ok bool) {
	ok = raw.Kind() == '"' && json.Unmarshal(raw, &s) == nil
	return s, ok
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

// naturals parses an array of non-negative integers.
func naturals(raw jsontext.Value) ([]int, error) {
	var values []natural
	if raw.Kind() != '[' {
		return nil, fmt.Errorf("%s is not an array", brief(raw))
	}
	if err := json.Unmarshal(raw, &values); err != nil {
		return nil, err
	}
	out := make([]int, len(values))
	for i, v := range values {
		out[i] = int(v)
	}
	return out, nil
}

// brief shortens a JSON value for a message.
func brief(raw []byte) string {
	const limit = 60
	switch {
	case len(raw) == 0:
		return "nothing"
	case len(raw) <= limit:
		return string(raw)
	}
	return string(raw[:limit]) + "…"
}
