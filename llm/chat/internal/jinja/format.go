package jinja

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// arguments of a text with placeholders, in order or by name.
type placeholders struct {
	builder
	values []Value
	named  *Dict
	next   int
}

func (p *placeholders) take1() (Value, error) {
	if p.next >= len(p.values) {
		return nil, fmt.Errorf("a value is missing for a placeholder")
	}
	p.next++
	return p.values[p.next-1], nil
}

// format is Python's s % values.
func (m *meter) format(s string, values Value) (Value, error) {
	p := &placeholders{builder: builder{meter: m}, values: []Value{values}}
	if l, ok := values.(*List); ok && l.tuple {
		p.values = l.Items
	}
	p.named, _ = values.(*Dict)
	for s != "" {
		at := strings.IndexByte(s, '%')
		if at < 0 {
			at = len(s)
		}
		if err := p.write(s[:at]); err != nil {
			return nil, err
		}
		if s = s[at:]; s == "" {
			break
		}
		rest, err := p.directive(s[1:])
		if err != nil {
			return nil, err
		}
		s = rest
	}
	if p.named == nil && p.next < len(p.values) {
		return nil, fmt.Errorf("more values than placeholders")
	}
	return p.b.String(), nil
}

// directive is what follows a percent sign: (name), flags, width, precision and a
// letter.
func (p *placeholders) directive(s string) (rest string, err error) {
	var v Value
	given := false
	if strings.HasPrefix(s, "(") {
		name, after, ok := strings.Cut(s[1:], ")")
		if !ok || p.named == nil {
			return "", fmt.Errorf("a placeholder with a name, but no dictionary")
		}
		if v, given = p.named.Get(name); !given {
			return "", fmt.Errorf("no value is named %.40q", name)
		}
		s = after
	}
	flags := s[:len(s)-len(strings.TrimLeft(s, "-+ 0#"))]
	s = s[len(flags):]
	width, s := digits(s)
	precision := -1
	if strings.HasPrefix(s, ".") {
		precision, s = digits(s[1:])
	}
	if s == "" || width > 1000 || precision > 100 {
		return "", fmt.Errorf("a placeholder without a letter, or too wide")
	}
	letter := s[0]
	if letter == '%' {
		return s[1:], p.write("%")
	}
	if !given {
		if v, err = p.take1(); err != nil {
			return "", err
		}
	}
	text, err := p.convert(letter, flags, precision, v)
	if err != nil {
		return "", err
	}
	return s[1:], p.padded(text, letter, flags, width)
}

// padded writes a converted value with the width of its placeholder.
func (p *placeholders) padded(text string, letter byte, flags string, width int) error {
	side := -1
	switch {
	case strings.Contains(flags, "-"):
		side = 1
	case strings.Contains(flags, "0") && letter != 's' && letter != 'r':
		filled, err := zfillMethod(&Call{meter: p.meter, positional: []Value{text, int64(width)}})
		if err != nil {
			return err
		}
		return p.write(filled.(string))
	}
	filled, err := p.pad(text, int64(width), " ", side)
	if err != nil {
		return err
	}
	return p.write(filled)
}

// digits reads a number, which is 0 if absent.
func digits(s string) (int, string) {
	n := 0
	for n < len(s) && isDigit(s[n]) {
		n++
	}
	v, err := strconv.Atoi(s[:n])
	if err != nil && n > 0 {
		v = math.MaxInt32
	}
	return v, s[n:]
}

// convert writes a value in the form of a letter.
func (p *placeholders) convert(letter byte, flags string, precision int, v Value) (string, error) {
	switch letter {
	case 's':
		text, err := p.text(v)
		return firstCharacters(text, precision), err
	case 'r':
		q := printer{builder{meter: p.meter}}
		err := q.repr(v)
		return firstCharacters(q.b.String(), precision), err
	}
	f, ok := number(v)
	if !ok {
		return "", fmt.Errorf("%%%c of %s", letter, kindOf(v))
	}
	var text string
	switch i, isInt := integer(v); letter {
	case 'd', 'i', 'u':
		if n, isLong := v.(longInteger); isLong {
			text = string(n)
			break
		}
		if !isInt {
			if i = int64(f); math.Abs(f) >= 1<<63 || f != f {
				return "", errOverflow
			}
		}
		text = strconv.FormatInt(i, 10)
	case 'x', 'X', 'o':
		if !isInt {
			return "", fmt.Errorf("%%%c of %s", letter, kindOf(v))
		}
		text = strconv.FormatInt(i, map[byte]int{'x': 16, 'X': 16, 'o': 8}[letter])
		if letter == 'X' {
			text = strings.ToUpper(text)
		}
	case 'f', 'F', 'e', 'E':
		if precision < 0 {
			precision = 6
		}
		text = strconv.FormatFloat(f, letter|0x20, precision, 64)
	default:
		return "", fmt.Errorf("%%%c is not supported", letter)
	}
	for _, sign := range "+ " {
		if strings.ContainsRune(flags, sign) && !strings.HasPrefix(text, "-") {
			return string(sign) + text, nil
		}
	}
	return text, nil
}

// firstCharacters returns the first n characters; all, if n is negative.
func firstCharacters(s string, n int) string {
	rest := s
	for ; n > 0; n-- {
		next := nextCharacter(rest)
		if next == 0 {
			return s
		}
		rest = rest[next:]
	}
	if n == 0 {
		return s[:len(s)-len(rest)]
	}
	return s
}

// formatMethod is s.format(…) with placeholders {}, {0} and {name}.
func formatMethod(c *Call) (Value, error) {
	p := &placeholders{builder: builder{meter: c.meter}, values: c.positional[1:]}
	s := c.value().(string)
	for s != "" {
		at := strings.IndexAny(s, "{}")
		if at < 0 {
			at = len(s)
		}
		if err := p.write(s[:at]); err != nil {
			return nil, err
		}
		if s = s[at:]; s == "" {
			break
		}
		if len(s) > 1 && s[1] == s[0] {
			if err := p.write(s[:1]); err != nil {
				return nil, err
			}
			s = s[2:]
			continue
		}
		field, rest, ok := strings.Cut(s[1:], "}")
		if s[0] == '}' || !ok {
			return nil, fmt.Errorf("a brace without its other half")
		}
		v, err := p.field(c, field)
		if err != nil {
			return nil, err
		}
		text, err := c.text(v)
		if err != nil {
			return nil, err
		}
		if err := p.write(text); err != nil {
			return nil, err
		}
		s = rest
	}
	return p.b.String(), nil
}

// field is the value of a placeholder of format.
func (p *placeholders) field(c *Call, field string) (Value, error) {
	if field == "" {
		return p.take1()
	}
	if n, err := strconv.Atoi(field); err == nil && n >= 0 {
		if n >= len(p.values) {
			return nil, fmt.Errorf("there is no value %d", n)
		}
		return p.values[n], nil
	}
	if v, ok := c.named[field]; ok {
		return v, nil
	}
	return nil, fmt.Errorf("placeholder {%.40s} is not supported, or no value has its name", field)
}
