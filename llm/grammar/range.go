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

// multiple says of which number others are multiples: of, divided by ten to the power of digits. The zero value allows all.
type multiple struct{ of, digits int }

// mostMultiple bounds of, because there are rules for each remainder.
const mostMultiple = 100

// multipleOf reads a keyword, which may be nil.
func multipleOf(v *document, path string) (m multiple, err error) {
	if v == nil {
		return m, nil
	}
	text := string(v.raw)
	n, err := strconv.ParseFloat(text, 64)
	if v.kind != '0' || err != nil || n <= 0 {
		return m, &SchemaError{path, fmt.Sprintf("%s is not a finite number above 0", v.raw)}
	}
	whole, fraction, _ := strings.Cut(strconv.FormatFloat(n, 'f', -1, 64), ".")
	m.digits = len(fraction)
	if m.of, err = strconv.Atoi(whole + fraction); err != nil || m.of > mostMultiple || m.digits > pointDigits {
		return m, &SchemaError{path, fmt.Sprintf("%s: digits that make more than %d, without the decimal point, are not supported", v.raw, mostMultiple)}
	}
	return m, nil
}

// after returns the remainder of a number that gets another digit.
func (m multiple) after(remainder, digit int) int {
	if m.of == 0 {
		return 0
	}
	return (remainder*10 + digit) % m.of
}

// meets reports whether a number with this remainder and so many digits after the point is a multiple.
func (m multiple) meets(remainder, digits int) bool {
	for ; digits < m.digits; digits++ {
		remainder = m.after(remainder, 0)
	}
	return remainder == 0
}

// ranged is a number or an integer of at least minimum and at most maximum, and a multiple of multipleOf.
func (b *builder) ranged(d *document, kind, path string) ([]element, error) {
	low, err := boundOf(d, "minimum", "exclusiveMinimum", path)
	if err != nil {
		return nil, err
	}
	high, err := boundOf(d, "maximum", "exclusiveMaximum", path)
	if err != nil {
		return nil, err
	}
	m, err := multipleOf(d.get("multipleOf"), path+"/multipleOf")
	if err != nil {
		return nil, err
	}
	fraction := 0
	switch {
	case kind == "number" && m.of > 0:
		fraction = m.digits
	case kind == "number":
		fraction = pointDigits
	}
	switch {
	case low != nil || high != nil || m.of > 0:
		return b.between(low, high, fraction, m), nil
	case kind == "integer":
		return b.integer(), nil
	}
	return b.number(), nil
}

// between is a number between two bounds, either of which may be nil, without an exponent, and with up to so many digits
// after the point.
func (b *builder) between(low, high *bound, fraction int, m multiple) []element {
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
		out = append(out, b.magnitudes(least, greatest, fraction, m))
	}
	if low == nil || low.negative {
		least, greatest := zero, mostLimit
		if high != nil && (high.negative || high.zeroFrom(0)) {
			least = high.limit
		}
		if low != nil {
			greatest = low.limit
		}
		out = append(out, seq(lit("-"), b.magnitudes(least, greatest, fraction, m)))
	}
	return b.or(out...)
}

// magnitudes is a number without a sign between two limits.
func (b *builder) magnitudes(least, greatest limit, fraction int, m multiple) []element {
	if len(greatest.whole) > mostDigits {
		greatest = mostLimit
	}
	var out [][]element
	for n := len(least.whole); n <= len(greatest.whole); n++ {
		s := span{builder: b, whole: n, multiple: m, least: least, greatest: greatest}
		if n <= pointDigits {
			s.fraction = fraction
		}
		if n > len(least.whole) {
			s.least = limit{whole: "1" + strings.Repeat("0", n-1)}
		}
		out = append(out, s.from(0, 0, true, n == len(greatest.whole)))
	}
	return b.or(out...)
}

// span makes numbers with a certain number of digits before the point.
type span struct {
	*builder
	whole, fraction int // digits before the point, and the most after it
	multiple        multiple
	least, greatest limit
}

// ends reports whether a number may end at a place, as far as that does not depend on its bounds.
func (s *span) ends(place, remainder int) bool {
	return place >= s.whole && s.multiple.meets(remainder, place-s.whole)
}

// from is what may follow the digits before a place. low and high say that these are the same as those of least and of
// greatest; otherwise the number is greater than the one, or less than the other, whatever follows.
func (s *span) from(place, remainder int, low, high bool) []element {
	low = low && (s.least.open || !s.least.zeroFrom(place))
	if !low && !high {
		return s.rest(place, remainder)
	}
	var out [][]element
	if s.ends(place, remainder) && !low && !(s.greatest.open && s.greatest.zeroFrom(place)) {
		out = append(out, nil)
	}
	if place < s.whole+s.fraction {
		out = append(out, s.digits(place, remainder, low, high)...)
	}
	return s.or(out...)
}

// digits are the alternatives of from in which there is a digit at a place.
func (s *span) digits(place, remainder int, low, high bool) (out [][]element) {
	first, last := byte('0'), byte('9')
	if low {
		first = s.least.digit(place)
	}
	if high {
		last = s.greatest.digit(place)
	}
	add := func(digit byte, low, high bool) {
		rest := s.from(place+1, s.multiple.after(remainder, int(digit-'0')), low, high)
		out = append(out, seq(s.point(place), lit(string(digit)), rest))
	}
	if low && high && first == last {
		add(first, true, true)
		return out
	}
	if first > last {
		return nil
	}
	if low {
		add(first, true, false)
		first++
	}
	if high {
		add(last, false, true)
		last--
	}
	return append(out, s.free(place, remainder, first, last)...)
}

// point is what comes before the digit at a place.
func (s *span) point(place int) []element {
	if place == s.whole {
		return lit(".")
	}
	return nil
}

// free are the alternatives in which a digit from first to last is followed by any others.
func (s *span) free(place, remainder int, first, last byte) (out [][]element) {
	if s.multiple.of == 0 && first <= last {
		return [][]element{seq(s.point(place), one(string([]byte{first, last})), s.rest(place+1, 0))}
	}
	for ; first <= last; first++ {
		out = append(out, seq(s.point(place), lit(string(first)), s.rest(place+1, s.multiple.after(remainder, int(first-'0')))))
	}
	return out
}

// rest is any digits from a place on.
func (s *span) rest(place, remainder int) []element {
	before, after := s.whole-place, min(s.fraction, s.whole+s.fraction-place)
	return s.call(fmt.Sprint("digits ", before, after, remainder, s.multiple), func() []element {
		var out [][]element
		if s.ends(place, remainder) {
			out = append(out, nil)
		}
		if before > 0 || after > 0 {
			out = append(out, s.free(place, remainder, '0', '9')...)
		}
		return s.or(out...)
	})
}
