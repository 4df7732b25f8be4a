package chat

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/ardanlabs/jinja"
)

// ownFilters are the filters that this package implements itself because the
// engine's differ from Jinja's. The lexer renames their uses.
var ownFilters = map[string]function{
	"default": defaultFilter,
	"d":       defaultFilter,
	"tojson":  toJSON,
}

const filterPrefix = "kompute_filter_"

// maxIndent bounds the indentation of tojson.
const maxIndent = 64

// defaultFilter is value|default(fallback, boolean): the fallback where value is
// undefined or, if boolean is true, falsy.
func defaultFilter(args []jinja.Value, kwargs map[string]jinja.Value) (jinja.Value, error) {
	if len(args) == 0 {
		return jinja.Undefined(), fmt.Errorf("default without a value")
	}
	fallback, boolean := jinja.NewString(""), false
	if v, ok := argument(args, kwargs, 1, "default_value"); ok {
		fallback = v
	}
	if v, ok := argument(args, kwargs, 2, "boolean"); ok {
		boolean = v.IsTruthy()
	}
	if args[0].IsUndefined() || boolean && !args[0].IsTruthy() {
		return fallback, nil
	}
	return args[0], nil
}

// argument returns an argument given by position or by name.
func argument(args []jinja.Value, kwargs map[string]jinja.Value, at int, name string) (jinja.Value, bool) {
	if at < len(args) {
		return args[at], true
	}
	v, ok := kwargs[name]
	return v, ok
}

// toJSON is value|tojson(indent=n), as transformers defines it: json.dumps of
// Python with ensure_ascii off.
func toJSON(args []jinja.Value, kwargs map[string]jinja.Value) (jinja.Value, error) {
	if len(args) != 1 {
		return jinja.Undefined(), fmt.Errorf("tojson takes its options by name")
	}
	e := encoder{indent: -1}
	for name, v := range kwargs {
		switch {
		case name == "indent" && v.IsInt() && v.AsInt() >= 0 && v.AsInt() <= maxIndent:
			e.indent = int(v.AsInt())
		case name == "indent" && v.IsNone():
		case name == "ensure_ascii" && v.IsBool() && !v.AsBool():
		default:
			return jinja.Undefined(), fmt.Errorf("tojson cannot take %s=%s", name, v)
		}
	}
	if err := e.value(args[0], 0); err != nil {
		return jinja.Undefined(), err
	}
	return jinja.NewString(e.b.String()), nil
}

// encoder writes JSON as Python does.
type encoder struct {
	b      strings.Builder
	indent int // -1: everything on one line
}

func (e *encoder) value(v jinja.Value, depth int) error {
	switch {
	case depth > maxValueDepth:
		return fmt.Errorf("tojson of a value nested deeper than %d", maxValueDepth)
	case v.IsNone():
		e.b.WriteString("null")
	case v.IsBool():
		e.b.WriteString(strconv.FormatBool(v.AsBool()))
	case v.IsInt():
		e.b.WriteString(strconv.FormatInt(v.AsInt(), 10))
	case v.IsFloat():
		e.b.WriteString(pythonFloat(v.AsFloat()))
	case v.IsString():
		e.text(v.AsString())
	case v.IsList():
		items := v.AsList().Items
		return e.sequence("[", "]", len(items), depth, func(i int) error { return e.value(items[i], depth+1) })
	case v.IsDict():
		d := v.AsDict()
		return e.sequence("{", "}", len(d.Keys), depth, func(i int) error {
			e.text(d.Keys[i])
			e.b.WriteString(": ")
			return e.value(d.Data[d.Keys[i]], depth+1)
		})
	default:
		return fmt.Errorf("tojson of a value that is not defined")
	}
	return nil
}

// sequence writes n items between brackets.
func (e *encoder) sequence(open, shut string, n, depth int, item func(int) error) error {
	e.b.WriteString(open)
	for i := range n {
		switch {
		case e.indent >= 0 && i > 0:
			e.b.WriteByte(',')
		case i > 0:
			e.b.WriteString(", ")
		}
		e.line(depth + 1)
		if err := item(i); err != nil {
			return err
		}
	}
	if n > 0 {
		e.line(depth)
	}
	e.b.WriteString(shut)
	return nil
}

// line starts a new line where there is indentation.
func (e *encoder) line(depth int) {
	if e.indent >= 0 {
		e.b.WriteString("\n" + strings.Repeat(" ", depth*e.indent))
	}
}

var jsonEscapes = map[rune]string{'"': `\"`, '\\': `\\`, '\n': `\n`, '\r': `\r`, '\t': `\t`, '\b': `\b`, '\f': `\f`}

func (e *encoder) text(s string) {
	e.b.WriteByte('"')
	for _, r := range s {
		if escape, ok := jsonEscapes[r]; ok {
			e.b.WriteString(escape)
		} else if r < 0x20 {
			fmt.Fprintf(&e.b, `\u%04x`, r)
		} else {
			e.b.WriteRune(r)
		}
	}
	e.b.WriteByte('"')
}

// pythonFloat is repr of a float: the shortest digits that give it back, with an
// exponent below 1e-4 and from 1e16 on.
func pythonFloat(f float64) string {
	switch {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	}
	if abs := math.Abs(f); f != 0 && (abs < 1e-4 || abs >= 1e16) {
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}
