package jinja

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

func absFilter(c *Call) (Value, error) {
	if n, ok := integer(c.value()); ok {
		if n < 0 {
			return integers("-", 0, n)
		}
		return n, nil
	}
	switch v := c.value().(type) {
	case longInteger:
		return longInteger(strings.TrimPrefix(string(v), "-")), nil
	case float64:
		return math.Abs(v), nil
	}
	return nil, fmt.Errorf("%s is not a number", kindOf(c.value()))
}

func floatFilter(c *Call) (Value, error) {
	if f, ok := number(c.value()); ok {
		return f, nil
	}
	if s, ok := c.value().(string); ok {
		if err := c.takeMany(2, int64(len(s))); err != nil { // errors quote it
			return nil, err
		}
		if f, err := strconv.ParseFloat(strings.TrimSpace(withoutMarks(s)), 64); err == nil {
			return f, nil
		}
	}
	if v, ok := c.arg(1, "default"); ok {
		return v, nil
	}
	return 0.0, nil
}

func intFilter(c *Call) (Value, error) {
	base, err := c.intArg(2, "base", 10)
	if err != nil {
		return nil, err
	}
	switch v := c.value().(type) {
	case bool, int64:
		n, _ := integer(v)
		return n, nil
	case longInteger:
		return v, nil
	case float64:
		if math.Abs(v) < 1<<63 {
			return int64(v), nil
		}
	case string:
		if err := c.takeMany(4, int64(len(v))); err != nil { // errors quote it
			return nil, err
		}
		v = withoutMarks(v)
		if base == 0 || base >= 2 && base <= 36 {
			digits := strings.TrimSpace(v)
			if prefix := map[int64]string{2: "0b", 8: "0o", 16: "0x"}[base]; prefix != "" {
				digits = strings.TrimPrefix(strings.ToLower(digits), prefix)
			}
			if n, err := strconv.ParseInt(digits, int(base), 64); err == nil {
				return n, nil
			}
		}
		if f, err := strconv.ParseFloat(strings.TrimSpace(v), 64); err == nil && math.Abs(f) < 1<<63 {
			return int64(f), nil
		}
	}
	if v, ok := c.arg(1, "default"); ok {
		return v, nil
	}
	return int64(0), nil
}

func roundFilter(c *Call) (Value, error) {
	places, err := c.intArg(1, "precision", 0)
	if err != nil {
		return nil, err
	}
	how, err := c.textArg(2, "method", "common")
	if err != nil {
		return nil, err
	}
	f, ok := number(c.value())
	if !ok || places < -300 || places > 300 {
		return nil, fmt.Errorf("cannot round %s to %d places", kindOf(c.value()), places)
	}
	if n, isInt := integer(c.value()); isInt && how == "common" && places >= 0 {
		return n, nil
	}
	if n, isLong := c.value().(longInteger); isLong && how == "common" && places >= 0 {
		return n, nil
	}
	scale := math.Pow(10, float64(places))
	switch how {
	case "common":
		if places >= 0 { // as in Python: the nearest decimal digits
			f, err = strconv.ParseFloat(strconv.FormatFloat(f, 'f', int(places), 64), 64)
			return f, err
		}
		return math.RoundToEven(f*scale) / scale, nil
	case "ceil":
		return math.Ceil(f*scale) / scale, nil
	case "floor":
		return math.Floor(f*scale) / scale, nil
	}
	return nil, fmt.Errorf("no way of rounding is called %.40q", how)
}
