package jinja

import (
	"fmt"
	"math"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// builders are expressions whose work grows with a text s, a list l or dictionaries d
// and n. Together they use every function that builds something.
var builders = strings.Split(strings.TrimSpace(`
s ~ s
s + s
s * 3
l + l
l * 3
s[::-1]
l[::-1]
s|capitalize
s|center(20000)
s|e
s|float
s|format(1)
s|fromjson
s|indent
s|indent(9, true, true)
s|indent(s)
s|int
s|int(0, 16)
s|length
s|list
s|lower
s|replace("a", "bcd")
s|replace("", "b")
s|reverse|length
s|string
s|title
s|tojson
s|tojson(true)
[s]|tojson(indent=s)
[s]|tojson(separators=(s, s))
s|trim
s|trim(s)
s|truncate(999)
s|truncate(9, true, s)
s|upper
s|urlencode
s|wordcount
s is upper
s in s
s < s
s == s ~ ""
"%s" % s
"%r" % s
"%.9s" % s
"{}".format(s)
[s]|string
[s]|tojson
{s: 1}|tojson(sort_keys=true)
[s, s]|join(s)
l|join(s)
s.join([s, s])
s.join(s)
s.capitalize()
s.center(20000)
s.count("a")
s.count("a", 1, -1)
s.startswith(s, 1)
s[1:-1]
s.find(s)
s.partition("b")
s.replace("a", "bcd")
s.rsplit()
s.rsplit("a")
s.rsplit("a", 9999999)
s.rsplit(none, 9999999)
s.split()
s.split("a")
s.split("a", 9999999)
s.split(none, 9999999)
s.splitlines()
s.splitlines(true)
s.strip(s)
s.swapcase()
s.title()
s.upper()
s.zfill(20000)
l|batch(2)
l|batch(2000000, 0)
l|dictsort
l|groupby(0)
l|groupby(0, 1)
l|list
l|map("default", *l)
l|map("string")
l|map(attribute=s)
l|min
l|reverse
l|select
l|select("in", *l)
l|slice(2)
l|slice(2000000)
l|sort
l|sort(attribute=s)
l|sort(attribute="a,b,c,d")
l|sum(start=s)
l|tojson
l|unique
l.insert(0, 1)
l.pop(0)
d.pop(0)
d.keys()
d.items()|list
d.values()
d|list
d|tojson
d|tojson(sort_keys=true)
dict(d)
dict(**n)
range(100000)
`), "\n")

const textSize = 1 << 14

// texts have textSize bytes; each is a bad case for some function.
var texts = map[string]string{
	"words":   strings.Repeat("a b ", textSize/4),
	"returns": strings.Repeat("a\r", textSize/2),
	"escapes": strings.Repeat("\x01<", textSize/2),
	"ffff":    strings.Repeat("\xff", textSize),
	"growing": strings.Repeat("\u0390\u023a", textSize/4),
	"digits":  strings.Repeat("1", textSize),
}

// used is the cost of an expression.
type used struct {
	allocated, paid, steps int64
	err                    error
}

// measureAll evaluates every builder within limits, with every text that it may use.
func measureAll(t *testing.T, limits Limits, check func(what string, u used)) {
	t.Helper()
	variables := func(text string) map[string]Value {
		list, dict, named := NewList(), NewDict(), NewDict()
		for i := range int64(1000) {
			list.Items = append(list.Items, i)
			dict.Set(i, i)
			named.Set(fmt.Sprint("a", i), i)
		}
		return map[string]Value{"s": text, "l": list, "d": dict, "n": named}
	}
	usesText := regexp.MustCompile(`\bs\b`)
	for _, expression := range builders {
		template, err := Parse("{% set x = " + expression + " %}")
		require.NoError(t, err)
		for name, text := range texts {
			if name != "words" && !usesText.MatchString(expression) {
				continue
			}
			r := newRender(t.Context(), variables(text), limits)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err = r.run(template.body)
			runtime.ReadMemStats(&after)
			check(expression+" of "+name, used{int64(after.TotalAlloc - before.TotalAlloc), r.bytes, r.steps, err})
		}
	}
}

// Work that costs more than is left is not begun, except for values of constant size.
func TestPaysFirst(t *testing.T) {
	measureAll(t, Limits{Steps: 1_000_000, Bytes: 1 << 10, Depth: 100}, func(what string, u used) {
		assert.LessOrEqual(t, u.allocated, 64*u.steps+12<<10, "%s: %.99v", what, u.err)
	})
}

// Allocations have been counted, up to constant factors: values of constant size,
// buffers that grow, and garbage of Go's own functions.
func TestPaysForAll(t *testing.T) {
	measureAll(t, Limits{Steps: 4_000_000, Bytes: 1 << 20, Depth: 100}, func(what string, u used) {
		assert.LessOrEqual(t, u.allocated, 8*u.paid+64*u.steps+6<<10, "%s: %.99v", what, u.err)
	})
}

// Counts are refused before they are converted to an int, which may have 32 bits.
func TestTakesManyOrNone(t *testing.T) {
	for _, limits := range []Limits{{}, {Bytes: 1 << 20}} {
		m := &meter{ctx: t.Context(), limits: limits}
		for _, size := range []int64{0, 1, 3, math.MaxInt64} {
			for _, count := range []int64{math.MaxInt32 + 1, math.MaxInt64/2 + 1, math.MaxInt64} {
				m.bytes = 0
				if err := m.takeMany(size, count); err != nil {
					require.ErrorIs(t, err, ErrLimit)
					require.Zero(t, m.bytes)
					continue
				}
				require.Zero(t, limits.Bytes)
				require.Positive(t, int(count))
				require.Positive(t, int(count)*int(max(size, 1)))
			}
		}
		m.bytes = 0
		require.NoError(t, m.takeMany(3, 4))
		require.EqualValues(t, 12, m.bytes)
	}
}
