package checkpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
)

// maxDim bounds every size in config.json, so that products of two of them fit
// an int64 with room to spare.
const maxDim = 1 << 30

// fields reads the members of one JSON object and keeps the first error.
type fields struct {
	file string
	raw  map[string]json.RawMessage
	err  error
}

// newFields parses a whole configuration file.
func newFields(file string, data []byte) (*fields, error) {
	if err := checkJSON(data); err != nil {
		return nil, &ConfigError{File: file, Reason: err.Error()}
	}
	raw, err := object(data)
	if err != nil {
		return nil, &ConfigError{File: file, Reason: err.Error()}
	}
	return &fields{file: file, raw: raw}, nil
}

// fail records an error, unless there is one already.
func (f *fields) fail(field, format string, args ...any) {
	if f.err == nil {
		f.err = &ConfigError{File: f.file, Field: field, Reason: fmt.Sprintf(format, args...)}
	}
}

// unsupported records an UnsupportedError, unless there is an error already.
func (f *fields) unsupported(what, got string, supported ...string) {
	if f.err == nil {
		f.err = &UnsupportedError{File: f.file, What: what, Got: got, Supported: supported}
	}
}

// get returns a member that is there and not null.
func (f *fields) get(name string) (json.RawMessage, bool) {
	raw, ok := f.raw[name]
	return raw, ok && kind(raw) != 'n'
}

// required is the default of a member that has none.
const required = -1

// size reads an integer from 1 to maxDim; def is its default, or required.
func (f *fields) size(name string, def int) int {
	raw, ok := f.get(name)
	if !ok {
		if def == required {
			f.fail(name, "missing")
		}
		return def
	}
	var n natural
	if err := json.Unmarshal(raw, &n); err != nil {
		f.fail(name, "%v", err)
	} else if n < 1 || n > maxDim {
		f.fail(name, "%d is not from 1 to %d", n, maxDim)
	}
	return int(n)
}

// number reads a finite number in [low, high]; def is its default.
func (f *fields) number(name string, def, low, high float64) float64 {
	raw, ok := f.get(name)
	if !ok {
		return def
	}
	if kind(raw) != '0' {
		f.fail(name, "%s is not a number", brief(raw))
		return def
	}
	v, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || math.IsInf(v, 0) || !(v >= low && v <= high) {
		f.fail(name, "%s is not from %g to %g", brief(raw), low, high)
	}
	return v
}

// optional reads a finite number in [low, high], nil where it is not given.
func (f *fields) optional(name string, low, high float64) *float64 {
	if _, ok := f.get(name); !ok {
		return nil
	}
	v := f.number(name, 0, low, high)
	return &v
}

// boolean reads true or false; absent is false.
func (f *fields) boolean(name string) bool {
	raw, ok := f.get(name)
	if !ok {
		return false
	}
	var v bool
	if json.Unmarshal(raw, &v) != nil {
		f.fail(name, "%s is not true or false", brief(raw))
	}
	return v
}

// text reads a string; absent is "".
func (f *fields) text(name string) string {
	raw, ok := f.get(name)
	if !ok {
		return ""
	}
	var v string
	if json.Unmarshal(raw, &v) != nil {
		f.fail(name, "%s is not a string", brief(raw))
	}
	return v
}

// texts reads an array of strings; absent is none.
func (f *fields) texts(name string) []string {
	raw, ok := f.get(name)
	if !ok {
		return nil
	}
	var v []string
	if json.Unmarshal(raw, &v) != nil {
		f.fail(name, "%s is not an array of strings", brief(raw))
	}
	return v
}

// ids reads a token id or a list of them, each below limit (0: no limit).
func (f *fields) ids(name string, limit int) []int {
	raw, ok := f.get(name)
	if !ok {
		return nil
	}
	if kind(raw) == '0' {
		raw = append(append(json.RawMessage{'['}, raw...), ']')
	}
	ids, err := naturals(raw)
	if err != nil {
		f.fail(name, "%v", err)
		return nil
	}
	for _, id := range ids {
		if limit > 0 && id >= limit {
			f.fail(name, "token id %d is not below vocab_size %d", id, limit)
		}
	}
	return ids
}

// nested returns a member that is an object, or nil where it is absent. Errors
// in it must be taken over with adopt.
func (f *fields) nested(name string) *fields {
	raw, ok := f.get(name)
	if !ok {
		return nil
	}
	members, err := object(raw)
	if err != nil {
		f.fail(name, "%v", err)
		return nil
	}
	return &fields{file: f.file, raw: members}
}

// adopt takes over the error of a nested object, naming it by its path.
func (f *fields) adopt(name string, inner *fields) {
	var c *ConfigError
	if errors.As(inner.err, &c) {
		f.fail(name+"."+c.Field, "%s", c.Reason)
	} else if f.err == nil {
		f.err = inner.err
	}
}
