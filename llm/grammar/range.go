package grammar

import (
	"fmt"
	"strconv"
	"strings"
)

// The most digits of numbers. Only numbers of up to pointDigits before the point have digits after it.
const (
	mostDigits  = 18
	pointDigits = 15
)

// limit is the least or the greatest of some magnitudes, as digits before and after the point.
type limit struct {
	whole, fraction string
	open            bool // it does not belong to them
}

// mostLimit is the greatest magnitude that is generated.
var mostLimit = limit{whole: strings.Repeat("9", mostDigits)}

// digit returns the digit at a place: 0 is the first one, len(whole) the first one after the point.
func (l *limit) digit(place int) byte {
	if text := l.whole + l.fraction; place < len(text) {
		return text[place]
	}
	return '0'
}

// zeroFrom reports whether there are only zeros from a place on.
func (l *limit) zeroFrom(place int) bool {
	text := l.whole + l.fraction
	return strings.Trim(text[min(place, len(text)):], "0") == ""
}

// bound is a limit with a sign.
type bound struct {
	limit
	negative bool
}

// boundOf reads the keyword for a closed or the one for an open bound; nil: there is neither.
func boundOf(d *document, closed, open, path string) (*bound, error) {
	name, v := closed, d.get(closed)
	if o := d.get(open); o != nil {
		if v != nil {
			return nil, &SchemaError{path, fmt.Sprintf("the keyword %q beside %q is not supported", open, closed)}
		}
		name, v = open, o
	}
	if v == nil {
		return nil, nil
	}
	text := string(v.raw)
	n, err := strconv.ParseFloat(text, 64)
	if v.kind != '0' || err != nil {
		return nil, &SchemaError{path + "/" + name, fmt.Sprintf("%s is not a finite number", v.raw)}
	}
	if strings.ContainsAny(text, ".eE") {
		text = strconv.FormatFloat(n, 'f', -1, 64)
	}
	b := &bound{negative: n < 0}
	b.open = name == open
	b.whole, b.fraction, _ = strings.Cut(strings.TrimPrefix(text, "-"), ".")
	return b, nil
}

// ranged is a number or an integer of at least minimum and at most maximum.
func (b *builder) ranged(d *document, kind, path string) ([]element, error) {
	low, err := boundOf(d, "minimum", "exclusiveMinimum", path)
	if err != nil {
		return nil, err
	}
	high, err := boundOf(d, "maximum", "exclusiveMaximum", path)
	if err != nil {
		return nil, err
	}
	switch {
	case low != nil || high != nil:
		return b.between(low, high, kind == "number"), nil
	case kind == "integer":
		return b.integer(), nil
	}
	return b.number(), nil
}

// between is a number between two bounds, either of which may be nil, without an exponent.
func (b *builder) between(low, high *bound, fraction bool) []element {
	zero := limit{whole: "0"}
	var out [][]element
	if high == nil || !high.negative {
		least, greatest := zero, mostLimit
		if low != nil && !low.negative {
			least = low.limit
		}
		if high != nil {
			greatest = high.limit
		}
		out = append(out, b.magnitudes(least, greatest, fraction))
	}
	if low == nil || low.negative {
		least, greatest := zero, mostLimit
		if high != nil && (high.negative || high.zeroFrom(0)) {
			least = high.limit
		}
		if low != nil {
			greatest = low.limit
		}
		out = append(out, seq(lit("-"), b.magnitudes(least, greatest, fraction)))
	}
	return b.or(out...)
}

// magnitudes is a number without a sign between two limits.
func (b *builder) magnitudes(least, greatest limit, fraction bool) []element {
	if len(greatest.whole) > mostDigits {
		greatest = mostLimit
	}
	var out [][]element
	for n := len(least.whole); n <= len(greatest.whole); n++ {
		s := span{builder: b, whole: n, least: least, greatest: greatest}
		if fraction && n <= pointDigits {
			s.fraction = pointDigits
		}
		if n > len(least.whole) {
			s.least = limit{whole: "1" + strings.Repeat("0", n-1)}
		}
		out = append(out, s.from(0, true, n == len(greatest.whole)))
	}
	return b.or(out...)
}

// span makes numbers with a certain number of digits before the point.
type span struct {
	*builder
	whole, fraction int // digits before the point, and the most after it
	least, greatest limit
}

// from is what may follow the digits before a place. low and high say that these are the same as those of least and of
// greatest; otherwise the number is greater than the one, or less than the other, whatever follows.
func (s *span) from(place int, low, high bool) []element {
	low = low && (s.least.open || !s.least.zeroFrom(place))
	if !low && !high {
		return s.rest(place)
	}
	var out [][]element
	if place >= s.whole && !low && !(s.greatest.open && s.greatest.zeroFrom(place)) {
		out = append(out, nil)
	}
	if place < s.whole+s.fraction {
		out = append(out, s.digits(place, low, high)...)
	}
	return s.or(out...)
}

// digits are the alternatives of from in which there is a digit at a place.
func (s *span) digits(place int, low, high bool) (out [][]element) {
	var point []element
	if place == s.whole {
		point = lit(".")
	}
	first, last := byte('0'), byte('9')
	if low {
		first = s.least.digit(place)
	}
	if high {
		last = s.greatest.digit(place)
	}
	if low && high && first == last {
		return [][]element{seq(point, lit(string(first)), s.from(place+1, true, true))}
	}
	if first > last {
		return nil
	}
	if low {
		out = append(out, seq(point, lit(string(first)), s.from(place+1, true, false)))
		first++
	}
	if high {
		out = append(out, seq(point, lit(string(last)), s.from(place+1, false, true)))
		last--
	}
	if first <= last {
		out = append(out, seq(point, one(string([]byte{first, last})), s.rest(place+1)))
	}
	return out
}

// rest is any digits from a place on.
func (s *span) rest(place int) []element {
	before, after := s.whole-place, min(s.fraction, s.whole+s.fraction-place)
	return s.call(fmt.Sprintf("digits %d %d", before, after), func() []element {
		digit := one("09")
		switch {
		case before < 0:
			return s.times(digit, 0, after)
		case after == 0:
			return s.times(digit, before, before)
		}
		return seq(s.times(digit, before, before), s.optional(seq(lit("."), s.times(digit, 1, after))))
	})
}
