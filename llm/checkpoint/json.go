package checkpoint

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// maxMembers bounds the members of an object, and so the tensors of a file: reading
// that many takes a fraction of a second. The largest models have a hundred thousand.
const maxMembers = 200_000

// object parses a JSON object, one level deep. It refuses what encoding/json accepts: two
// members of one name, and at every depth invalid UTF-8. Names within its members are
// compared only once object reads these, as maxMembers bounds the time and memory for that.
func object(raw jsontext.Value) (map[string]jsontext.Value, error) {
	if raw.Kind() != '{' && raw.IsValid() || len(raw) == 0 {
		return nil, fmt.Errorf("%s is not an object", brief(raw))
	}
	dec := jsontext.NewDecoder(bytes.NewBuffer(raw), jsontext.AllowDuplicateNames(true))
	if _, err := dec.ReadToken(); err != nil {
		return nil, fmt.Errorf("malformed JSON: %w", err)
	}
	members := map[string]jsontext.Value{}
	for dec.PeekKind() == '"' {
		if len(members) == maxMembers {
			return nil, fmt.Errorf("more than %d members", maxMembers)
		}
		name, err := dec.ReadToken()
		if err != nil {
			return nil, fmt.Errorf("malformed JSON: %w", err)
		}
		key := name.String() // the next token may take its place
		if _, twice := members[key]; twice {
			return nil, fmt.Errorf("malformed JSON: duplicate object member name %s", brief([]byte(strconv.Quote(key))))
		}
		value, err := dec.ReadValue()
		if err != nil {
			return nil, fmt.Errorf("malformed JSON: %w", err)
		}
		end := int(dec.InputOffset())
		members[key] = raw[end-len(value) : end : end]
	}
	if _, err := dec.ReadToken(); err != nil { // the end of the object
		return nil, fmt.Errorf("malformed JSON: %w", err)
	}
	if _, err := dec.ReadToken(); err != io.EOF {
		return nil, errors.New("malformed JSON: something after top-level value")
	}
	return members, nil
}

// text returns a JSON string; ok is false where raw is anything else.
func text(raw jsontext.Value) (s string, ok bool) {
	switch {
	case raw.Kind() != '"':
		return "", false
	case bytes.IndexByte(raw, '\\') < 0:
		raw = bytes.TrimSpace(raw)
		return string(raw[1 : len(raw)-1]), true
	}
	return s, json.Unmarshal(raw, &s) == nil
}

// natural is a JSON number written as a plain non-negative integer: no sign, no
// fraction, no exponent, no null.
type natural int

// UnmarshalJSON accepts 0 … math.MaxInt.
func (n *natural) UnmarshalJSON(raw []byte) error {
	v, err := strconv.ParseUint(string(raw), 10, strconv.IntSize-1)
	if err != nil {
		return fmt.Errorf("%s is not a non-negative integer of this machine", brief(raw))
	}
	*n = natural(v)
	return nil
}

// maxNaturals bounds the numbers in an array: no tensor has that many dimensions.
const maxNaturals = 64

// naturals parses an array of them without reflection: a header has hundreds of thousands.
func naturals(raw jsontext.Value) ([]int, error) {
	if raw.Kind() != '[' {
		return nil, fmt.Errorf("%s is not an array", brief(raw))
	}
	inside := bytes.TrimSpace(raw)
	inside = bytes.TrimSpace(inside[1 : len(inside)-1])
	out := []int{}
	if len(inside) == 0 {
		return out, nil
	}
	for part := range bytes.SplitSeq(inside, []byte(",")) {
		part = bytes.TrimSpace(part)
		var n natural
		if err := n.UnmarshalJSON(part); err != nil {
			return nil, err
		}
		if len(out) == maxNaturals {
			return nil, fmt.Errorf("more than %d numbers", maxNaturals)
		}
		out = append(out, int(n))
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
	return strings.ToValidUTF8(string(raw[:limit]), "") + "…" // without a character that was cut
}
