package jinja

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// Limits on JSON.
const (
	maxIndent    = 64
	maxJSONDepth = 100
)

// tojsonFilter is value|tojson, as transformers defines it: json.dumps of Python
// with ensure_ascii off.
func tojsonFilter(c *Call) (Value, error) {
	if len(c.positional) != 1 {
		return nil, fmt.Errorf("options are given by name")
	}
	e := encoder{builder: builder{meter: c.meter}, indent: -1}
	for name, v := range c.named {
		n, isInt := integer(v)
		switch {
		case name == "indent" && isInt && n >= 0 && n <= maxIndent:
			e.indent = int(n)
		case name == "indent" && v == nil:
		case name == "ensure_ascii" && v == false:
		case name == "separators" && v == nil:
		case name == "sort_keys" && (v == false || v == true):
			e.sorted = v == true
		default:
			return nil, fmt.Errorf("%s cannot be that, or is not supported", name)
		}
	}
	if err := e.value(c.value(), 0); err != nil {
		return nil, err
	}
	return e.b.String(), nil
}

// encoder writes JSON in the same way as Python.
type encoder struct {
	builder
	indent int // -1: everything on one line
	sorted bool
}

func (e *encoder) value(v Value, depth int) error {
	if depth > maxJSONDepth {
		return fmt.Errorf("a value nested deeper than %d", maxJSONDepth)
	}
	if err := e.step(1); err != nil {
		return err
	}
	switch v := v.(type) {
	case nil:
		return e.write("null")
	case bool:
		return e.write(strconv.FormatBool(v))
	case int64:
		return e.write(strconv.FormatInt(v, 10))
	case longInteger:
		return e.write(string(v))
	case float64:
		return e.write(jsonFloat(v))
	case string:
		return e.text(v)
	case *List:
		return e.sequence("[", "]", len(v.Items), depth, func(i int) error { return e.value(v.Items[i], depth+1) })
	case *Dict:
		return e.dict(v, depth)
	case Undefined:
		return v.err()
	}
	return fmt.Errorf("%s has no form in JSON", kindOf(v))
}

func (e *encoder) dict(d *Dict, depth int) error {
	keys := d.keys
	if e.sorted {
		var err error
		if keys, err = e.clone(keys); err != nil {
			return err
		}
		err = sortStable(keys, func(a, b Value) (int, error) {
			x, _ := a.(string)
			y, _ := b.(string)
			return e.orderTexts(x, y)
		})
		if err != nil {
			return err
		}
	}
	return e.sequence("{", "}", len(keys), depth, func(i int) error {
		key, ok := keys[i].(string)
		if !ok {
			name := encoder{builder: builder{meter: e.meter}, indent: -1}
			if err := name.value(keys[i], maxJSONDepth); err != nil {
				return err
			}
			key = name.b.String()
		}
		if err := e.text(key); err != nil {
			return err
		}
		if err := e.write(": "); err != nil {
			return err
		}
		return e.value(d.value(keys[i]), depth+1)
	})
}

// sequence writes n items between brackets.
func (e *encoder) sequence(open, shut string, n, depth int, item func(int) error) error {
	if err := e.write(open); err != nil {
		return err
	}
	for i := range n {
		comma := ""
		switch {
		case e.indent >= 0 && i > 0:
			comma = ","
		case i > 0:
			comma = ", "
		}
		if err := e.writeAll(comma, e.line(depth+1)); err != nil {
			return err
		}
		if err := item(i); err != nil {
			return err
		}
	}
	if n > 0 {
		if err := e.write(e.line(depth)); err != nil {
			return err
		}
	}
	return e.write(shut)
}

// newLine is a line end and the widest indentation.
var newLine = "\n" + strings.Repeat(" ", maxIndent*(maxJSONDepth+1))

// line is a new line where there is indentation.
func (e *encoder) line(depth int) string {
	if e.indent < 0 {
		return ""
	}
	return newLine[:1+depth*e.indent]
}

var jsonEscapes = map[rune]string{'"': `\"`, '\\': `\\`, '\n': `\n`, '\r': `\r`, '\t': `\t`, '\b': `\b`, '\f': `\f`}

func (e *encoder) text(s string) error {
	if err := e.write(`"`); err != nil {
		return err
	}
	err := e.escaped(s, func(r rune) string {
		if escape, ok := jsonEscapes[r]; ok || r >= 0x20 {
			return escape
		}
		return fmt.Sprintf(`\u%04x`, r)
	})
	if err != nil {
		return err
	}
	return e.write(`"`)
}

func jsonFloat(f float64) string {
	switch {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	}
	return formatFloat(f)
}

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

// FromJSON reads one JSON value. Objects keep the order of their keys.
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
