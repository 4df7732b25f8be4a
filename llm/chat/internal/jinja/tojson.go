package jinja

import (
	"fmt"
	"math"
	"strconv"
	"unicode/utf16"
)

// tojsonFilter is value|tojson(ensure_ascii, indent, separators, sort_keys), as
// transformers defines it: json.dumps of Python with ensure_ascii off.
func tojsonFilter(c *Call) (Value, error) {
	if err := c.accept("x", "ensure_ascii", "indent", "separators", "sort_keys"); err != nil {
		return nil, err
	}
	e := encoder{
		builder: builder{meter: c.meter}, comma: ", ", colon: ": ",
		ascii: c.boolArg(1, "ensure_ascii"), sorted: c.boolArg(4, "sort_keys"),
	}
	if err := e.setIndent(c); err != nil {
		return nil, err
	}
	if err := e.setSeparators(c); err != nil {
		return nil, err
	}
	if err := e.value(c.value(), 0); err != nil {
		return nil, err
	}
	return e.b.String(), nil
}

// encoder writes JSON in the same way as Python.
type encoder struct {
	builder
	newLine       string // a line end and the widest indentation; "": everything on one line
	indent        int    // bytes at each level
	comma, colon  string
	sorted, ascii bool
}

// setIndent takes a number of spaces, or a text; commas then end lines.
func (e *encoder) setIndent(c *Call) error {
	v, _ := c.arg(2, "indent")
	if v == nil {
		return nil
	}
	indent, isText := v.(string)
	if !isText {
		n, ok := integer(v)
		if !ok || n > maxIndent {
			return fmt.Errorf("indent is neither a number of at most %d nor a text", maxIndent)
		}
		var err error
		if indent, err = c.repeatText(" ", n); err != nil {
			return err
		}
	}
	if len(indent) > maxIndent {
		return fmt.Errorf("indent has more than %d bytes", maxIndent)
	}
	widest, err := c.repeatText(indent, maxJSONDepth+1)
	if err != nil {
		return err
	}
	e.indent, e.comma = len(indent), ","
	e.newLine, err = c.concat("\n", widest)
	return err
}

// setSeparators takes the two texts after items and after keys.
func (e *encoder) setSeparators(c *Call) error {
	v, _ := c.arg(3, "separators")
	if v == nil {
		return nil
	}
	both, err := c.iterate(v)
	if err != nil {
		return err
	}
	if len(both) != 2 {
		return fmt.Errorf("separators are %d values, not 2", len(both))
	}
	if e.comma, err = c.textOnly(both[0]); err == nil {
		e.colon, err = c.textOnly(both[1])
	}
	return err
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
		if err := sortStable(keys, e.order); err != nil {
			return err
		}
	}
	return e.sequence("{", "}", len(keys), depth, func(i int) error {
		key, ok := keys[i].(string)
		if !ok {
			name := encoder{builder: builder{meter: e.meter}}
			if err := name.value(keys[i], maxJSONDepth); err != nil {
				return err
			}
			key = name.b.String()
		}
		if err := e.text(key); err != nil {
			return err
		}
		if err := e.write(e.colon); err != nil {
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
		comma := e.comma
		if i == 0 {
			comma = ""
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

// line is a new line where there is indentation.
func (e *encoder) line(depth int) string { return e.newLine[:min(1+depth*e.indent, len(e.newLine))] }

var jsonEscapes = map[rune]string{'"': `\"`, '\\': `\\`, '\n': `\n`, '\r': `\r`, '\t': `\t`, '\b': `\b`, '\f': `\f`}

func (e *encoder) text(s string) error {
	if err := e.write(`"`); err != nil {
		return err
	}
	if err := e.escaped(s, e.escape); err != nil {
		return err
	}
	return e.write(`"`)
}

// escape returns what stands for a character in a text, or "" for itself.
func (e *encoder) escape(r rune) string {
	escape, ok := jsonEscapes[r]
	switch {
	case ok || r >= 0x20 && (r < 0x7f || !e.ascii) || isMark(r):
		return escape
	case r >= 0x10000:
		high, low := utf16.EncodeRune(r)
		return fmt.Sprintf(`\u%04x\u%04x`, high, low)
	}
	return fmt.Sprintf(`\u%04x`, r)
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
