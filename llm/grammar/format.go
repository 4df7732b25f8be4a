package grammar

import (
	"fmt"
	"maps"
	"regexp/syntax"
	"slices"
	"strings"
)

// formats are the values of the keyword format, as regular expressions of what is generated: not everything that a format
// allows, but nothing that it does not.
var formats = func() map[string]string {
	const (
		octet  = `(?:\d|[1-9]\d|1\d\d|2[0-4]\d|25[0-5])`
		v4     = octet + `(?:\.` + octet + `){3}`
		hex4   = `[0-9a-fA-F]{1,4}`
		label  = `[0-9A-Za-z](?:[0-9A-Za-z-]{0,28}[0-9A-Za-z])?`
		domain = label + `(?:\.` + label + `){0,2}\.[A-Za-z]{2,12}`
		word   = `[0-9A-Za-z][0-9A-Za-z_+-]{0,19}`
		hour   = `(?:[01]\d|2[0-3])`
		minute = `[0-5]\d`
		// A day of the years 1000 to 9999.
		day31 = `(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])`
		day30 = `(?:0[469]|11)-(?:0[1-9]|[12]\d|30)`
		day28 = `02-(?:0[1-9]|1\d|2[0-8])`
		leap  = `(?:[2468][048]|[13579][26])` // 12, 16, … 96
		date  = `(?:[1-9]\d{3}-(?:` + day31 + `|` + day30 + `|` + day28 + `)|(?:[1-9]\d(?:0[48]|` + leap + `)|` + leap + `00)-02-29)`
		// A time of the day with the offset of its zone, without leap seconds.
		time = hour + `:` + minute + `:` + minute + `(?:\.\d{1,6})?(?:Z|[+-]` + hour + `:` + minute + `)`
		// The parts of a URI's path, query or fragment.
		uriChars = `(?:[0-9A-Za-z._~!$&'()*+,;=:@-]|%[0-9A-F]{2})`
	)
	return map[string]string{
		// RFC 3339, full-date
		"date": date,
		// RFC 3339, full-time
		"time":      time,
		"date-time": date + `T` + time,
		// RFC 3339, appendix A
		"duration": `P(?:\d{1,3}W|(?:\d{1,3}D)(?:T\d{1,2}H(?:\d{1,2}M)?)?|T(?:\d{1,3}H(?:\d{1,2}M(?:\d{1,2}S)?)?|\d{1,3}M(?:\d{1,2}S)?|\d{1,3}S))`,
		// RFC 9562
		"uuid": `[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}`,
		// RFC 2673, dotted-quad
		"ipv4": v4,
		// RFC 4291
		"ipv6": `(?:` + hex4 + `:){7}` + hex4 + `|(?:` + hex4 + `(?::` + hex4 + `){0,2})?::(?:` + hex4 + `(?::` + hex4 + `){0,3})?`,
		// RFC 1123
		"hostname": domain,
		"email":    word + `(?:\.` + word + `){0,2}@` + domain,
		// RFC 3986
		"uri": `https?://` + domain + `(?::[1-9]\d{1,3})?(?:/` + uriChars + `*)*(?:\?(?:` + uriChars + `|[/?])*)?(?:#(?:` + uriChars + `|[/?])*)?`,
		// RFC 4648
		"base64": `(?:[0-9A-Za-z+/]{4})*(?:[0-9A-Za-z+/][AQgw]==|[0-9A-Za-z+/]{2}[AEIMQUYcgkosw048]=)?`,
		// Any string.
		"binary":   `(?s:.*)`,
		"password": `(?s:.*)`,
		"path":     `[^\x00]*`,
	}
}()

// mostFormatted is the most characters of a format that has a maxLength: there are rules for each length.
const mostFormatted = 256

// format is a string of lo to hi characters in the format that a keyword says.
func (b *builder) format(d, v *document, lo, hi int, path string) ([]element, error) {
	name, _ := v.text()
	if _, ok := formats[name]; !ok {
		known := strings.Join(slices.Sorted(maps.Keys(formats)), ", ")
		return nil, &SchemaError{path + "/format", fmt.Sprintf("%s is none of %s", v.raw, known)}
	}
	if d.get("pattern") != nil {
		return nil, &SchemaError{path, `the keyword "pattern" beside "format" is not supported`}
	}
	if hi > mostFormatted {
		hi = max(lo, mostFormatted)
	}
	var err error
	out := b.call(fmt.Sprint("format ", name, lo, hi), func() (form []element) {
		re, failed := syntax.Parse(formats[name], syntax.Perl)
		if err = failed; err == nil {
			form, err = b.pattern(re, nil, true, lo, hi)
		}
		return form
	})
	return seq(lit(`"`), out, lit(`"`)), err
}
