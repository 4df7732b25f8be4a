package grammar

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// formats are the values of the keyword format that constrain a string, without its quotes.
var formats = map[string]func(b *builder) []element{
	"date":      (*builder).date,
	"time":      (*builder).time,
	"date-time": func(b *builder) []element { return seq(b.date(), lit("T"), b.time()) },
	"uuid":      (*builder).uuid,
	"ipv4":      (*builder).ipv4,
	"email":     (*builder).email,
}

// format is a string of the format that the keyword of this name says.
func (b *builder) format(d, v *document, path string) ([]element, error) {
	name, _ := v.text()
	form, ok := formats[name]
	if !ok {
		known := strings.Join(slices.Sorted(maps.Keys(formats)), ", ")
		return nil, &SchemaError{path + "/format", fmt.Sprintf("%s is none of %s", v.raw, known)}
	}
	for _, other := range []string{"minLength", "maxLength", "pattern"} {
		if d.get(other) != nil {
			return nil, &SchemaError{path, fmt.Sprintf("the keyword %q beside %q is not supported", other, "format")}
		}
	}
	return seq(lit(`"`), b.call("format "+name, func() []element { return form(b) }), lit(`"`)), nil
}

// upTo is a number of two digits from 0 or 1 to hi, which is 20 or more.
func (b *builder) upTo(hi, from int) []element {
	tens, ones := byte('0'+hi/10), byte('0'+hi%10)
	return b.or(
		seq(lit("0"), one(string([]byte{byte('0' + from), '9'}))),
		seq(one(string([]byte{'1', tens - 1})), one("09")),
		seq(lit(string(tens)), one(string([]byte{'0', ones}))))
}

// date is a day of the years 1000 to 9999 (RFC 3339, full-date).
func (b *builder) date() []element {
	digit := one("09")
	leap := b.or(seq(one("22446688"), one("004488")), seq(one("1133557799"), one("2266"))) // 12, 16, … 96
	year := seq(one("19"), digit, digit, digit)
	leapYear := b.or(
		seq(one("19"), digit, b.or(leap, seq(lit("0"), one("4488")))),
		seq(leap, lit("00")))
	return b.or(
		seq(year, lit("-"), b.or(
			seq(b.or(lit("01"), lit("03"), lit("05"), lit("07"), lit("08"), lit("10"), lit("12")), lit("-"), b.upTo(31, 1)),
			seq(b.or(lit("04"), lit("06"), lit("09"), lit("11")), lit("-"), b.upTo(30, 1)),
			seq(lit("02-"), b.upTo(28, 1)))),
		seq(leapYear, lit("-02-29")))
}

// time is a time of the day with the offset of its zone (RFC 3339, full-time), without leap seconds.
func (b *builder) time() []element {
	hour, minute := b.upTo(23, 0), b.upTo(59, 0)
	return seq(hour, lit(":"), minute, lit(":"), minute,
		b.optional(seq(lit("."), b.times(one("09"), 1, 6))),
		b.or(lit("Z"), seq(one("++--"), hour, lit(":"), minute)))
}

// uuid is an identifier of 36 characters (RFC 9562).
func (b *builder) uuid() []element {
	hex := one("09afAF")
	four := b.times(hex, 4, 4)
	return seq(four, four, lit("-"), four, lit("-"), four, lit("-"), four, lit("-"), four, four, four)
}

// ipv4 is four numbers of up to 255 (RFC 2673, dotted-quad).
func (b *builder) ipv4() []element {
	digit := one("09")
	number := b.or(digit, seq(one("19"), digit), seq(lit("1"), digit, digit), seq(lit("2"), one("04"), digit), seq(lit("25"), one("05")))
	dot := lit(".")
	return seq(number, dot, number, dot, number, dot, number)
}

// email is an address of common characters: up to three words with points between them before the @, and two to four
// after it.
func (b *builder) email() []element {
	dot, alphanumeric := lit("."), one("09azAZ")
	word := b.or(seq(alphanumeric, b.times(one("09azAZ__++--"), 0, 19)))
	label := b.or(seq(alphanumeric, b.times(alphanumeric, 0, 29)))
	return seq(word, b.times(seq(dot, word), 0, 2), lit("@"), label, b.times(seq(dot, label), 0, 2), dot, b.times(one("azAZ"), 2, 12))
}
