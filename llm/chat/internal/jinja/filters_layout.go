package jinja

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// indentFilter is value|indent(width, first, blank).
func indentFilter(c *Call) (Value, error) {
	if err := c.accept("s", "width", "first", "blank"); err != nil {
		return nil, err
	}
	s, err := c.text(c.value())
	if err != nil {
		return nil, err
	}
	indent := "    "
	if v, ok := c.arg(1, "width"); ok {
		if n, isInt := integer(v); isInt {
			if indent, err = c.repeatText(" ", n); err != nil {
				return nil, err
			}
		} else if indent, ok = v.(string); !ok {
			return nil, fmt.Errorf("width is %s", kindOf(v))
		}
	}
	if s, err = c.concat(s, "\n"); err != nil {
		return nil, err
	}
	b := builder{meter: c.meter}
	blank, first := c.boolArg(3, "blank"), c.boolArg(2, "first")
	start := true
	for line := range lines(s, false) {
		between, before := "\n", indent
		if start {
			between = ""
		}
		if start && !first || !start && !blank && line == "" {
			before = ""
		}
		if err := b.writeAll(between, before, line); err != nil {
			return nil, err
		}
		start = false
	}
	return b.b.String(), nil
}

func centerFilter(c *Call) (Value, error) {
	s, err := c.text(c.value())
	if err != nil {
		return nil, err
	}
	width, err := c.intArg(1, "width", 80)
	if err != nil {
		return nil, err
	}
	return c.pad(s, width, " ", 0)
}

// pad fills a text up to a width: side is -1 to fill on the left, 1 on the right,
// 0 on both.
func (m *meter) pad(s string, width int64, fill string, side int) (string, error) {
	if utf8.RuneCountInString(fill) != 1 {
		return "", fmt.Errorf("%.40q is not one character", fill)
	}
	n := length(s)
	if err := m.take(len(s)); err != nil || width <= int64(n) {
		return s, err
	}
	missing := width - int64(n)
	if err := m.takeMany(2*int64(len(fill)), missing); err != nil { // twice, because it is copied
		return "", err
	}
	left := missing
	switch side {
	case 0:
		left = missing/2 + missing&width&1
	case 1:
		left = 0
	}
	return strings.Repeat(fill, int(left)) + s + strings.Repeat(fill, int(missing-left)), nil
}

// truncateFilter is value|truncate(length, killwords, end, leeway).
func truncateFilter(c *Call) (Value, error) {
	if err := c.accept("s", "length", "killwords", "end", "leeway"); err != nil {
		return nil, err
	}
	s, err := c.text(c.value())
	if err != nil {
		return nil, err
	}
	most, err := c.intArg(1, "length", 255)
	if err != nil {
		return nil, err
	}
	end, err := c.textArg(3, "end", "...")
	if err != nil {
		return nil, err
	}
	leeway, err := c.intArg(4, "leeway", 5)
	if err != nil {
		return nil, err
	}
	starts, err := c.characters(s)
	if err != nil {
		return nil, err
	}
	if err := c.takeMany(2, int64(len(s)+len(end))); err != nil {
		return nil, err
	}
	tail := int64(length(end))
	if leeway < 0 || most < tail {
		return nil, fmt.Errorf("length %d is less than that of %.40q, or leeway is negative", most, end)
	}
	if int64(len(starts)-1)-leeway <= most {
		return s, nil
	}
	kept := s[:starts[most-tail]]
	if at := strings.LastIndexByte(kept, ' '); at >= 0 && !c.boolArg(2, "killwords") {
		kept = kept[:at]
	}
	return kept + end, nil
}
