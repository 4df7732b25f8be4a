package jinja

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
)

// text is str(v) of Python: what {{ v }} prints.
func (m *meter) text(v Value) (string, error) {
	switch v := v.(type) {
	case string:
		return v, nil
	case Undefined:
		return "", nil
	}
	p := printer{builder{meter: m}}
	if err := p.repr(v); err != nil {
		return "", err
	}
	return p.b.String(), nil
}

// printer writes values as Python's repr does.
type printer struct{ builder }

func (p *printer) repr(v Value) error {
	if err := p.enter(); err != nil {
		return err
	}
	defer p.leave()
	switch v := v.(type) {
	case nil:
		return p.write("None")
	case bool:
		return p.write(map[bool]string{true: "True", false: "False"}[v])
	case int64:
		return p.write(strconv.FormatInt(v, 10))
	case longInteger:
		return p.write(string(v))
	case float64:
		return p.write(formatFloat(v))
	case string:
		return p.quoted(v)
	case Undefined:
		return p.write("Undefined")
	case *List:
		return p.list(v)
	case *Dict:
		return p.dict(v)
	case namespace:
		if err := p.write("<Namespace "); err != nil {
			return err
		}
		if err := p.dict(v.Dict); err != nil {
			return err
		}
		return p.write(">")
	case *Function:
		return p.writeAll("<function ", v.Name, ">")
	}
	return p.write("<" + kindOf(v) + ">")
}

func (p *printer) list(l *List) error {
	open, shut := "[", "]"
	if l.tuple {
		open, shut = "(", ")"
		if len(l.Items) == 1 {
			shut = ",)"
		}
	}
	if err := p.write(open); err != nil {
		return err
	}
	for i, item := range l.Items {
		if i > 0 {
			if err := p.write(", "); err != nil {
				return err
			}
		}
		if err := p.repr(item); err != nil {
			return err
		}
	}
	return p.write(shut)
}

func (p *printer) dict(d *Dict) error {
	if err := p.write("{"); err != nil {
		return err
	}
	for i, key := range d.keys {
		if i > 0 {
			if err := p.write(", "); err != nil {
				return err
			}
		}
		if err := p.repr(key); err != nil {
			return err
		}
		if err := p.write(": "); err != nil {
			return err
		}
		if err := p.repr(d.value(key)); err != nil {
			return err
		}
	}
	return p.write("}")
}

var reprEscapes = map[rune]string{'\\': `\\`, '\n': `\n`, '\r': `\r`, '\t': `\t`}

// quoted is repr of a string.
func (p *printer) quoted(s string) error {
	quote := '\''
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		quote = '"'
	}
	shut := string(quote)
	if err := p.write(shut); err != nil {
		return err
	}
	err := p.escaped(s, func(r rune) string {
		escape, ok := reprEscapes[r]
		switch {
		case ok:
			return escape
		case r == quote:
			return `\` + shut
		case r == ' ' || isMark(r) || unicode.IsPrint(r): // Python escapes marks, as other noncharacters
			return ""
		case r < 0x100:
			return fmt.Sprintf(`\x%02x`, r)
		case r < 0x10000:
			return fmt.Sprintf(`\u%04x`, r)
		}
		return fmt.Sprintf(`\U%08x`, r)
	})
	if err != nil {
		return err
	}
	return p.write(shut)
}

// formatFloat is repr of a float: the shortest digits that give it back, with an
// exponent below 1e-4 and from 1e16 on.
func formatFloat(f float64) string {
	switch {
	case math.IsNaN(f):
		return "nan"
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
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
