package jinja

import (
	"errors"
	"fmt"
	"math"
	"math/big"
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
		if math.IsInf(v, 0) {
			return nil, errInfinite
		}
		if !math.IsNaN(v) {
			return wholePart(v), nil
		}
	case string:
		if err := c.takeMany(4, int64(len(v))); err != nil { // errors quote it
			return nil, err
		}
		if n, err := parseInteger(withoutMarks(v), int(base)); n != nil || err != nil {
			return n, err
		}
	}
	if v, ok := c.arg(1, "default"); ok {
		return v, nil
	}
	return int64(0), nil
}

var errInfinite = errors.New("infinity is not an integer")

// maxDigits is the most digits that an integer may have for Python to read or print it.
const maxDigits = 4300

// parseInteger returns the integer that a text spells, or the whole part if it spells another number; nil if it spells
// neither.
func parseInteger(s string, base int) (Value, error) {
	s = strings.TrimSpace(s)
	if base == 0 || base >= 2 && base <= 36 {
		digits := s
		if prefix := map[int]string{2: "0b", 8: "0o", 16: "0x"}[base]; prefix != "" {
			digits = strings.TrimPrefix(strings.ToLower(digits), prefix)
		}
		n, err := strconv.ParseInt(digits, base, 64)
		if err == nil {
			return n, nil
		}
		if errors.Is(err, strconv.ErrRange) && len(digits) <= maxDigits {
			if long, ok := new(big.Int).SetString(digits, base); ok {
				return longInteger(long.String()), nil
			}
		}
		if errors.Is(err, strconv.ErrRange) && base&(base-1) == 0 { // Python reads any number of such digits
			return nil, errOverflow
		}
	}
	if f, err := strconv.ParseFloat(s, 64); err == nil && !math.IsInf(f, 0) && !math.IsNaN(f) {
		return wholePart(f), nil
	}
	return nil, nil
}

// wholePart cuts off what follows the point of a finite number.
func wholePart(f float64) Value {
	if math.Abs(f) < 1<<63 {
		return int64(f)
	}
	n, _ := big.NewFloat(f).Int(nil)
	if n.IsInt64() {
		return n.Int64()
	}
	return longInteger(n.String())
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
	if n, isInt := integer(c.value()); isInt && how == "common" {
		return roundInteger(n, int(max(-places, 0)))
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
		return math.Ceil(f*scale)/scale + 0, nil // not -0: the sum of both zeros is 0
	case "floor":
		return math.Floor(f*scale)/scale + 0, nil
	}
	return nil, fmt.Errorf("no way of rounding is called %.40q", how)
}
