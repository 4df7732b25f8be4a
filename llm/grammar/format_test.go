package grammar

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestFormats(t *testing.T) {
	for format, texts := range map[string][2][]string{
		"time":      {{"00:00:00Z", "23:59:59.123456-23:59", "09:10:19+01:00"}, {"24:00:00Z", "09:60:00Z", "09:00:00", "9:00:00Z", "09:00:00.Z", "09:00:00+1:00"}},
		"date-time": {{"2024-02-29T12:00:00Z", "1999-12-31T23:59:59.5+05:30"}, {"2023-02-29T12:00:00Z", "2024-02-29 12:00:00Z", "2024-02-29"}},
		"uuid":      {{"123e4567-e89b-12d3-A456-426614174000"}, {"123e4567e89b12d3a456426614174000", "123e4567-e89b-12d3-a456-42661417400", "g23e4567-e89b-12d3-a456-426614174000"}},
		"ipv4":      {{"0.0.0.0", "255.249.199.99", "10.1.20.100"}, {"256.0.0.0", "1.2.3", "01.2.3.4", "1.2.3.4.5", "300.1.1.1"}},
		"ipv6":      {{"::", "::1", "fe80::1:2", "1:2:3:4:5:6:7:8", "a:b:c::d:e:f:1"}, {":1", "1::2::3", "12345::", "1:2:3:4:5:6:7", "1:2:3:4:5:6:7:8:9"}},
		"hostname":  {{"example.com", "a-b.c1.de"}, {"-a.de", "a-.de", "a..de", "a b.de"}},
		"uri":       {{"https://example.com", "http://a.b.de:8080/x%20y/?q=1&r=/?#top"}, {"example.com", "ftp//x.de", "https://", "http://a.de/ x", "http://a.de/%2"}},
		"duration":  {{"P3D", "PT5M", "P1DT2H", "PT1H2M3S", "P2W"}, {"P", "PT", "P1DT", "3D", "P1M3D2", "-P2W"}},
		"base64":    {{"", "QUJD", "QUI=", "QQ=="}, {"QUJ", "QU==", "QUJ=", "Q==="}},
		"binary":    {{"", "a b", "ä"}, {}},
		"password":  {{"x"}, {}},
		"path":      {{"/tmp/ü x"}, {"\\u0000"}},
		"email":     {{"a@b.de", "first.last+tag@mail.example.com", "a_b-c.d.e@x1.y2.z3.org"}, {"a@b", "@b.de", "a..b@c.de", "a@b.d", "a b@c.de", ".a@b.de"}},
	} {
		g := compile(t, fmt.Sprintf(`{"type": "string", "format": %q}`, format), Options{})
		for _, text := range texts[0] {
			require.True(t, accepts(g, `"`+text+`"`), "%s should take %s", format, text)
		}
		for _, text := range texts[1] {
			require.False(t, accepts(g, `"`+text+`"`), "%s should not take %s", format, text)
		}
	}
}

// A format may have lengths as well.
func TestFormatsWithLengths(t *testing.T) {
	g := compile(t, `{"type": "string", "format": "uri", "minLength": 15, "maxLength": 16}`, Options{})
	for text, is := range map[string]bool{"https://abcd.de": true, "https://abcde.de": true, "https://abc.de": false, "https://abcdef.de": false} {
		require.Equal(t, is, accepts(g, `"`+text+`"`), text)
	}
	for name := range formats {
		compile(t, fmt.Sprintf(`{"format": %q, "minLength": 1, "maxLength": 2083}`, name), Options{})
	}
}

// Dates are those of the calendar.
func TestDates(t *testing.T) {
	g := compile(t, `{"format": "date"}`, Options{})
	for _, year := range []int{1000, 1100, 1200, 1900, 1904, 2000, 2001, 2002, 2003, 2008, 2012, 2096, 2100, 9600, 9999} {
		for month := range 14 {
			for day := range 33 {
				text := fmt.Sprintf("%d-%02d-%02d", year, month, day)
				_, err := time.Parse(time.DateOnly, text)
				require.Equal(t, err == nil, accepts(g, `"`+text+`"`), text)
			}
		}
	}
	require.False(t, accepts(g, `"0999-01-01"`))
}
