package grammar

// The forms of JSON (RFC 8259).

// space is white space between tokens, bounded so that it ends.
func (b *builder) space() []element {
	return b.call("space", func() []element {
		return b.or(nil, lit(" "), seq(lit("\n"), b.times(one("  \t\t"), 0, 20)))
	})
}

// char is a character of a string: any in UTF-8, or an escape, but not half of
// a surrogate pair.
func (b *builder) char() []element {
	return b.call("char", func() []element {
		rest := one("\x80\xbf")
		hex := one("09afAF")
		return b.or(
			one("\x20\x21\x23\x5b\x5d\x7f"),
			seq(one("\xc2\xdf"), rest),
			seq(lit("\xe0"), one("\xa0\xbf"), rest), seq(one("\xe1\xec\xee\xef"), rest, rest), seq(lit("\xed"), one("\x80\x9f"), rest),
			seq(lit("\xf0"), one("\x90\xbf"), rest, rest), seq(one("\xf1\xf3"), rest, rest, rest), seq(lit("\xf4"), one("\x80\x8f"), rest, rest),
			seq(lit(`\`), one("\"\"\\\\//bbffnnrrtt")),
			seq(lit(`\u`), one("09acACefEF"), hex, hex, hex), seq(lit(`\u`), one("ddDD"), one("07"), hex, hex),
		)
	})
}

// text is a string of lo to hi characters; hi < 0 is any number.
func (b *builder) text(lo, hi int) []element {
	return seq(lit(`"`), b.times(b.char(), lo, hi), lit(`"`))
}

// integer is a whole number of up to 18 digits.
func (b *builder) integer() []element {
	return b.call("integer", func() []element { return b.digits(mostDigits - 1) })
}

// digits is a whole number with up to that many digits after the first.
func (b *builder) digits(more int) []element {
	return seq(b.optional(lit("-")), b.or(lit("0"), seq(one("19"), b.times(one("09"), 0, more))))
}

// number is an integer, or a number of up to 15 digits before the point, with a fraction or an exponent.
func (b *builder) number() []element {
	return b.call("number", func() []element {
		digit := one("09")
		return b.or(b.integer(), seq(b.digits(pointDigits-1),
			b.optional(seq(lit("."), b.times(digit, 1, pointDigits))),
			b.optional(seq(one("eeEE"), b.optional(one("++--")), b.times(digit, 1, 2)))))
	})
}

// value is any value. It contains itself.
func (b *builder) value() []element {
	return b.call("value", func() []element {
		return b.or(b.text(0, -1), b.number(), lit("true"), lit("false"), lit("null"), b.list(b.value(), 0, -1), b.members(b.text(0, -1), b.value(), 0, -1))
	})
}

// list is an array of lo to hi items; hi < 0 is any number.
func (b *builder) list(item []element, lo, hi int) []element {
	return seq(lit("["), b.separated(item, lo, hi), lit("]"))
}

// members is an object with lo to hi members of such names and values; hi < 0 is any number.
func (b *builder) members(name, value []element, lo, hi int) []element {
	return seq(lit("{"), b.separated(seq(name, b.space(), lit(":"), b.space(), value), lo, hi), lit("}"))
}

// separated is lo to hi parts with commas between them, and white space; hi < 0 is any number.
func (b *builder) separated(part []element, lo, hi int) []element {
	if hi == 0 {
		return b.space()
	}
	inner := b.or(seq(b.space(), part))
	more := b.or(seq(b.space(), lit(","), inner))
	some := seq(inner, b.times(more, max(lo-1, 0), max(hi-1, -1)), b.space())
	if lo > 0 {
		return some
	}
	return b.or(b.space(), some)
}
