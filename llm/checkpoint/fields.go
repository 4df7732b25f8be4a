package checkpoint

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// MaxSize bounds every size in config.json, so that products of two of them fit
// an int64 with room to spare.
const MaxSize = 1 << 30

// Fields reads the members of one JSON object by name and type. It keeps the
// first error, a [ConfigError] or [UnsupportedError] that names file and field,
// and returns zero values from then on: read everything, then check Err. A
// member that is null counts as absent. A Fields is not safe for concurrent use.
type Fields struct {
	file    string
	path    string // of this object within the file: "" or "quantization."
	members map[string]jsontext.Value
	err     *error // shared with the objects inside
}

// newFields parses a whole configuration file. As such files are small, it refuses two members
// of one name at every depth.
func newFields(file string, data []byte) (*Fields, error) {
	members, err := object(data)
	if err == nil {
		_, err = jsontext.NewDecoder(bytes.NewBuffer(data)).ReadValue()
	}
	if err != nil {
		return nil, &ConfigError{File: file, Reason: err.Error()}
	}
	return fieldsOf(file, members), nil
}

func fieldsOf(file string, members map[string]jsontext.Value) *Fields {
	return &Fields{file: file, members: members, err: new(error)}
}

// Err returns the first error, of this object and of those inside it.
func (f *Fields) Err() error { return *f.err }

// Fail records a ConfigError about a field, unless there is an error already.
func (f *Fields) Fail(field, format string, args ...any) {
	if *f.err == nil {
		*f.err = &ConfigError{File: f.file, Field: f.path + field, Reason: fmt.Sprintf(format, args...)}
	}
}

// Unsupported records an UnsupportedError, unless there is an error already.
// supported lists what would work.
func (f *Fields) Unsupported(what, got string, supported ...string) {
	if *f.err == nil {
		*f.err = &UnsupportedError{File: f.file, What: what, Got: got, Supported: supported}
	}
}

// Has reports whether the member is present and not null.
func (f *Fields) Has(name string) bool {
	_, ok := f.get(name)
	return ok
}

// names returns the names of all members, sorted.
func (f *Fields) names() []string { return slices.Sorted(maps.Keys(f.members)) }

func (f *Fields) get(name string) (jsontext.Value, bool) {
	raw, ok := f.members[name]
	return raw, ok && raw.Kind() != 'n'
}

// Size reads a required integer from 1 to MaxSize.
func (f *Fields) Size(name string) int {
	if !f.Has(name) {
		f.Fail(name, "missing")
		return 1
	}
	return f.SizeOr(name, 1)
}

// SizeOr reads an integer from 1 to MaxSize; def is its default.
func (f *Fields) SizeOr(name string, def int) int {
	raw, ok := f.get(name)
	if !ok {
		return def
	}
	var n natural
	if err := n.UnmarshalJSON(raw); err != nil {
		f.Fail(name, "%v", err)
	} else if n < 1 || n > MaxSize {
		f.Fail(name, "%d is not from 1 to %d", n, MaxSize)
	} else {
		return int(n)
	}
	return 1
}

// Number reads a finite number in [low, high]; def is its default.
func (f *Fields) Number(name string, def, low, high float64) float64 {
	raw, ok := f.get(name)
	if !ok {
		return def
	}
	if raw.Kind() != '0' {
		f.Fail(name, "%s is not a number", brief(raw))
		return def
	}
	v, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || math.IsInf(v, 0) || !(v >= low && v <= high) {
		f.Fail(name, "%s is not from %g to %g", brief(raw), low, high)
	}
	return v
}

// optional reads a finite number in [low, high], nil where it is not given.
func (f *Fields) optional(name string, low, high float64) *float64 {
	if !f.Has(name) {
		return nil
	}
	v := f.Number(name, 0, low, high)
	return &v
}

// Flag reads true or false; absent is false.
func (f *Fields) Flag(name string) bool { return value[bool](f, name, "true or false") }

// Text reads a string; absent is "".
func (f *Fields) Text(name string) string { return value[string](f, name, "a string") }

// Texts reads an array of strings; without the field, it is empty.
func (f *Fields) Texts(name string) []string {
	return value[[]string](f, name, "an array of strings")
}

// value reads a member of type T, whose zero value is the default.
func value[T any](f *Fields, name, what string) (v T) {
	raw, ok := f.get(name)
	if ok && json.Unmarshal(raw, &v) != nil {
		f.Fail(name, "%s is not %s", brief(raw), what)
	}
	return v
}

// IDs reads a token id or a list of them.
func (f *Fields) IDs(name string) []int {
	raw, ok := f.get(name)
	if !ok {
		return nil
	}
	if raw.Kind() == '0' {
		raw = append(append(jsontext.Value{'['}, raw...), ']')
	}
	ids, err := naturals(raw)
	if err != nil {
		f.Fail(name, "%v", err)
	}
	return ids
}

// Object returns a member that is an object, or nil where it is absent. It shares
// its error with f.
func (f *Fields) Object(name string) *Fields {
	raw, ok := f.get(name)
	if !ok {
		return nil
	}
	members, err := object(raw)
	if err != nil {
		f.Fail(name, "%v", err)
		return nil
	}
	return &Fields{file: f.file, path: f.path + name + ".", members: members, err: f.err}
}
