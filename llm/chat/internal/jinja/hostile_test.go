package jinja

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/testlimit"
)

// hostile are templates that would take all memory or all time.
var hostile = map[string]string{
	"indent":               `{{ "x\n"|indent(100000000000) }}`,
	"indent many lines":    `{{ ("\n" * 1000000)|indent(1000000) }}`,
	"indent at returns":    `{{ ("a\r" * 100000)|indent(100000) }}`,
	"repeat":               `{{ "x"*10**10 }}`,
	"repeat the most":      `{{ "x" * 9223372036854775807 }}`,
	"repeat nothing":       `{{ "" * 9223372036854775807 }}`,
	"repeat a list":        `{{ [1] * 10**10 }}`,
	"repeat lists":         `{{ [[]] * 10000000 * 10000000 }}`,
	"repeat 2^31 times":    `{{ "a" * 2147483648 }}`,
	"repeat [1] 2^32":      `{{ [1] * 4294967296 }}`,
	"powers":               `{{ 10**10**10 }}`,
	"list in itself":       `{% set l = [] %}{% set _ = l.append(l) %}{{ l }}`,
	"list in itself, ==":   `{% set a = [] %}{% set b = [] %}{% set _ = a.append(b) %}{% set _ = b.append(a) %}{{ a == b }}`,
	"list in itself, <":    `{% set a = [] %}{% set b = [] %}{% set _ = a.append(a) %}{% set _ = b.append(b) %}{{ [a, b]|sort }}`,
	"list in itself, JSON": `{% set l = [] %}{% set _ = l.append(l) %}{{ l|tojson }}`,
	"namespace in itself":  `{% set ns = namespace() %}{% set ns.a = ns %}{{ ns }}`,
	"dict in itself":       `{% set d = {} %}{% set _ = d.update({"d": d}) %}{{ d|string }}`,
	"doubling by ~":        `{% set ns = namespace(x="x") %}{% for i in range(99) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}{{ ns.x }}`,
	"doubling by +":        `{% set ns = namespace(x=[1]) %}{% for i in range(99) %}{% set ns.x = ns.x + ns.x %}{% endfor %}{{ ns.x }}`,
	"doubling by join":     `{% set ns = namespace(x="xx") %}{% for i in range(99) %}{% set ns.x = [ns.x, ns.x]|join(ns.x) %}{% endfor %}{{ ns.x }}`,
	"doubling by .join":    `{% set ns = namespace(x="xx") %}{% for i in range(99) %}{% set ns.x = ns.x.join([ns.x, ns.x]) %}{% endfor %}{{ ns.x }}`,
	"doubling by replace":  `{% set ns = namespace(x="xx") %}{% for i in range(99) %}{% set ns.x = ns.x|replace("x", ns.x) %}{% endfor %}{{ ns.x }}`,
	"doubling by .replace": `{% set ns = namespace(x="xx") %}{% for i in range(99) %}{% set ns.x = ns.x.replace("", ns.x) %}{% endfor %}{{ ns.x }}`,
	"doubling by format":   `{% set ns = namespace(x="x") %}{% for i in range(99) %}{% set ns.x = "%s%s" % (ns.x, ns.x) %}{% endfor %}{{ ns.x }}`,
	"doubling by .format":  `{% set ns = namespace(x="x") %}{% for i in range(99) %}{% set ns.x = "{0}{0}".format(ns.x) %}{% endfor %}{{ ns.x }}`,
	"doubling by set":      `{% set ns = namespace(x="x") %}{% for i in range(99) %}{% set y %}{{ ns.x }}{{ ns.x }}{% endset %}{% set ns.x = y %}{% endfor %}{{ ns.x }}`,
	"doubling by repr":     `{% set ns = namespace(x="'\\\"") %}{% for i in range(99) %}{% set ns.x = [ns.x, ns.x]|string %}{% endfor %}{{ ns.x }}`,
	"doubling by JSON":     `{% set ns = namespace(x='"') %}{% for i in range(99) %}{% set ns.x = ns.x|tojson %}{% endfor %}{{ ns.x }}`,
	"doubling by batch":    `{% set ns = namespace(x=[1]) %}{% for i in range(99) %}{% set ns.x = ns.x|batch(1)|list + ns.x %}{% endfor %}{{ ns.x|length }}`,
	"shared lists":         `{% set ns = namespace(x=[]) %}{% for i in range(99) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}`,
	"shared lists, ==":     `{% set ns = namespace(x=[], y=[]) %}{% for i in range(99) %}{% set ns.x = [ns.x, ns.x] %}{% set ns.y = [ns.y, ns.y] %}{% endfor %}{{ ns.x == ns.y }}`,
	"nested ranges":        `{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}`,
	"nested printing":      `{% for a in range(100000) %}{% for b in range(100000) %}xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx{% endfor %}{% endfor %}`,
	"ranges in filters":    `{% for a in range(100000) %}{{ range(100000)|sum }}{% endfor %}`,
	"ranges in tests":      `{% for a in range(100000) %}{{ -1 in range(100000)|list }}{% endfor %}`,
	"scans":                `{% set s = "a" * 1000000 %}{% for a in range(100000) %}{{ s.count("b") }}{{ "b" in s }}{{ s|replace("b", "") == s }}{% endfor %}`,
	"appending":            `{% set l = [] %}{% for a in range(100000) %}{% for b in range(1000) %}{% set _ = l.append("x") %}{% endfor %}{% endfor %}`,
	"inserting":            `{% set l = [] %}{% for a in range(100000) %}{% set _ = l.insert(0, a) %}{% endfor %}`,
	"growing while looped": `{% set l = [1] %}{% for a in l %}{% set _ = l.append(a) %}{% for a in l %}{% set _ = l.append(a) %}{% endfor %}{% endfor %}{{ "x" * 10**12 }}`,
	"centre":               `{{ "x"|center(10**12) }}`,
	"zeros":                `{{ "1".zfill(10**12) }}`,
	"columns":              `{{ [1]|slice(10**12)|list|length }}`,
	"2^32 columns":         `{{ [1]|slice(4294967296)|list|length }}`,
	"batches of 2^32":      `{{ [1]|batch(4294967296, 0)|list|length }}`,
	"centre in 2^32":       `{{ "x"|center(4294967296) }}`,
	"batches":              `{{ [1]|batch(10**12, 0)|list|length }}`,
	"width":                `{{ "%1000000000000d" % 1 }}`,
	"precision":            `{{ "%.1000000000000f" % 1 }}`,
	"macro":                `{% macro r(n) %}{{ r(n) }}{% endmacro %}{{ r(1) }}`,
	"macros of each other": `{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}{{ a() }}`,
	"macro by default":     `{% macro r(n=r()) %}{% endmacro %}{{ r() }}`,
	"wide macros":          `{% macro r(n) %}{% if n %}{{ r(n-1) }}{{ r(n-1) }}{% endif %}{% endmacro %}{{ r(60) }}`,
	"caller":               `{% macro r() %}{% call r() %}{{ caller() }}{% endcall %}{{ caller() }}{% endmacro %}{% call r() %}x{% endcall %}`,
	"recursive loop":       `{% set l = [1] %}{% set _ = l.append(l) %}{% for x in l recursive %}{{ loop(l) }}{% endfor %}`,
	"long sum":             `{{ ` + strings.Repeat("1+", 50_000) + `1 }}`,
	"long chain":           `{{ a` + strings.Repeat(".b", 50_000) + ` }}`,
	"long filters":         `{{ a` + strings.Repeat("|e", 50_000) + ` }}`,
	"long not":             `{{ ` + strings.Repeat("not ", 50_000) + `1 }}`,
	"long minus":           `{{ ` + strings.Repeat("-", 50_000) + `1 }}`,
	"long if":              `{{ ` + strings.Repeat("1 if 1 else ", 20_000) + `1 }}`,
	"long brackets":        `{{ ` + strings.Repeat("(", 400_000) + strings.Repeat(")", 400_000) + ` }}`,
	"many ifs":             strings.Repeat("{% if 1 %}", 100_000),
	"many opens":           strings.Repeat("{{", 500_000),
	"many comments":        strings.Repeat("{#", 500_000),
	"many raws":            "{% raw %}" + strings.Repeat("{% ", 300_000),
	"many spaces":          "{%" + strings.Repeat(" ", 1_000_000),
	"many quotes":          "{{ " + strings.Repeat("'", 1_000_000-1),
	"digits":               "{{ 1" + strings.Repeat("0", 1_000_000) + " }}",
	"spread":               `{% macro m() %}{{ varargs|length }}{% endmacro %}{% for i in range(100000) %}{{ m(*range(100000)) }}{% endfor %}`,
	"kwargs":               `{% macro m() %}{{ kwargs|length }}{% endmacro %}{% set d = dict(range(8)|map("string")|batch(2)|list) %}{% for i in range(100000) %}{{ dict(**d) }}{% for j in range(100000) %}{{ m(**d) }}{% endfor %}{% endfor %}`,
	"urlencode":            `{{ ("é" * 1000000)|urlencode }}`,
	"characters":           `{% for c in "x" * 1000000 %}{% endfor %}`,
	"reverse":              `{{ ("x" * 1000000)|reverse }}`,
	"slices":               `{% set s = "x" * 10000 %}{% for a in range(100000) %}{{ s[::-1]|length }}{% endfor %}`,
	"one character":        `{% set s = "x" * 1000000 %}{% for a in range(10000) %}{{ s[-1] }}{% endfor %}`,
}

// TestHostile: each ends with an error, in bounded time and memory. The limits are a
// sixty-fourth of those of chat templates, so that the test is quick.
func TestHostile(t *testing.T) {
	for name, source := range hostile {
		t.Run(name, func(t *testing.T) {
			testlimit.Run(t, 5*time.Second, 200<<20, func() {
				_, err := renderText(t.Context(), source)
				require.Error(t, err)
				t.Logf("%.100v", err)
			})
		})
	}
}

// Memory that a growing text has left is garbage that counts too.
func TestGarbageCounts(t *testing.T) {
	template, err := Parse(`{{ ("a\r" * 10000)|indent(10000) }}`)
	require.NoError(t, err)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err = template.Render(t.Context(), nil, Limits{Bytes: 64 << 20})
	runtime.ReadMemStats(&after)
	require.ErrorIs(t, err, ErrLimit)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(72<<20))
}

func renderText(ctx context.Context, source string) (string, error) {
	template, err := Parse(source)
	if err != nil {
		return "", err
	}
	return template.Render(ctx, nil, Limits{Steps: 20_000_000 / 64, Bytes: 4 << 20, Output: 1 << 20, Depth: 2_000})
}

// Each limit ends a rendering by itself, and says so.
func TestEachLimit(t *testing.T) {
	for reason, c := range map[string]struct {
		source string
		limits Limits
	}{
		"more than 1000 steps":           {"{% for i in range(2000) %}{% endfor %}", Limits{Steps: 1000}},
		"values of more than 1000 bytes": {"{{ 'x' * 1001 }}", Limits{Bytes: 1000}},
		"text of more than 1000 bytes":   {"{% for i in range(101) %}0123456789{% endfor %}", Limits{Output: 1000}},
		"nested deeper than 100":         {"{% macro r() %}{{ r() }}{% endmacro %}{{ r() }}", Limits{Depth: 100}},
	} {
		template, err := Parse(c.source)
		require.NoError(t, err)
		_, err = template.Render(t.Context(), nil, c.limits)
		require.ErrorIs(t, err, ErrLimit)
		require.ErrorContains(t, err, reason)
	}
	template, err := Parse("{{ 'x' * 900 }}")
	require.NoError(t, err)
	text, err := template.Render(t.Context(), nil, Limits{Steps: 1000, Bytes: 2000, Output: 1000, Depth: 100})
	require.NoError(t, err)
	require.Len(t, text, 900)
}

// Arguments by name keep their order.
func TestNamedArgumentsKeepTheirOrder(t *testing.T) {
	text, err := renderText(t.Context(), `{% macro m() %}{{ kwargs }}{{ "%s"|format(z=1, y=2, x=3) }}{{ caller() }}{% endmacro %}`+
		`{% call m(z=1, y=2, x=3, w=4) %}!{% endcall %}{{ "+1".zfill(-9223372036854775807 - 1) }}`)
	require.NoError(t, err)
	require.Equal(t, "{'z': 1, 'y': 2, 'x': 3, 'w': 4}{'z': 1, 'y': 2, 'x': 3}!+1", text)
}

// A bug that would end the program is an error.
func TestPanicsAreErrors(t *testing.T) {
	template, err := Parse("{{ f() }}")
	require.NoError(t, err)
	f := &Function{Name: "f", Call: func(*Call) (Value, error) { panic("oh") }}
	_, err = template.Render(t.Context(), map[string]Value{"f": f}, Limits{})
	require.ErrorIs(t, err, ErrPanic)
	require.ErrorContains(t, err, "oh")
	var e *PanicError
	require.ErrorAs(t, err, &e)
	require.Contains(t, string(e.Stack), "TestPanicsAreErrors")
}
