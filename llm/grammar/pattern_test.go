package grammar

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"sync"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// expression draws a regular expression of what Go and ECMA-262 both have.
func expression(depth int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		atoms := []string{"a", "b", "ä", "_", "-", " ", `\n`, `"`, `\\`, "[ab]", "[^a]", `[a-z_"]`, `[^\n]`, `\w`, `\W`, `\d`, "[é-ü]", "^", "$", `\b`, `\B`, "x?"}
		n := rapid.IntRange(0, 6).Draw(t, "form")
		if depth == 0 || n < 2 {
			return rapid.SampledFrom(atoms).Draw(t, "atom")
		}
		inner := expression(depth - 1)
		switch n {
		case 2:
			return "(" + inner.Draw(t, "inner") + ")"
		case 3:
			return inner.Draw(t, "a") + "|" + inner.Draw(t, "b")
		case 4:
			return "(?:" + inner.Draw(t, "inner") + ")" + rapid.SampledFrom([]string{"*", "+", "?", "{2}", "{1,3}", "*?"}).Draw(t, "repeat")
		}
		return inner.Draw(t, "a") + inner.Draw(t, "b")
	})
}

// Texts match, as a whole and as patterns in schemas, if they do so by Go's package regexp.
func TestPatterns(t *testing.T) {
	text := rapid.StringOfN(rapid.SampledFrom([]rune("aabbz_- \n\"\\äé€\x01")), 0, 7, -1)
	rapid.Check(t, func(t *rapid.T) {
		e := expression(3).Draw(t, "expression")
		whole, part := regexp.MustCompile(`^(?:`+e+`)$`), regexp.MustCompile(e)
		low, high := rapid.IntRange(0, 3).Draw(t, "low"), rapid.IntRange(3, 6).Draw(t, "high")
		bounded := rapid.Bool().Draw(t, "bounded")
		schema := map[string]any{"pattern": e}
		if bounded {
			schema["minLength"], schema["maxLength"] = low, high
		}
		encoded, err := json.Marshal(schema)
		require.NoError(t, err)
		all, err := CompileRegexp(e, nil, Options{})
		if err != nil { // such as that of a^
			require.ErrorContains(t, err, "no finite value")
		}
		some, err := Compile(encoded, nil, Options{})
		if err != nil {
			require.ErrorContains(t, err, "no finite value")
		}
		for range 20 {
			s := text.Draw(t, "text")
			quoted, _ := json.Marshal(s)
			if all != nil {
				require.Equal(t, whole.MatchString(s), accepts(all, s) || s == "" && all.Matcher().Complete(), "%s: %q", e, s)
			}
			n := utf8.RuneCountInString(s)
			want := part.MatchString(s) && (!bounded || n >= low && n <= high)
			takes := some != nil && accepts(some, string(quoted))
			if n == len(s) || takes { // of other texts it may not take all that match
				require.Equal(t, want, takes, "%s: %s, %v", e, quoted, bounded)
			}
		}
	})
}

// Patterns of schemas are those of ECMA-262 where these differ from Go's.
func TestPatternsOfECMA(t *testing.T) {
	for e, texts := range map[string][2][]string{
		`^[A-Z]{2}\d{4}$`:      {{"AB1234"}, {"AB123", "xAB1234", "AB12345"}},
		`^\u0041\x42\cJ\u{e9}`: {{"AB\né"}, {"AB\n"}},
		`^.$`:                  {{"a", "\u0085"}, {"\n", "\r", "\u2028", "\u2029", ""}},
		`^\s[\s]$`:             {{"\v\u00a0", "\u2003\u3000", "  "}, {" a", "\u200b ", " \ufeff"}},
		`^\S[\S]$`:             {{"ab", "\u200b\u2030"}, {" a", "a\u00a0", "\ufeffa", "a\u2029", "a\t", "a\u0085"}},
		`^\w\W[^\d\W]\D[^\w]$`: {{"a-b-.", "_€x-€"}, {"é-b-.", "aéb-.", "a-é-.", "a-b٣.", "a-b-é"}},
		`(^|\b)new\B`:          {{"newer", "a newer", "-new_"}, {"énewer", "new", "newé", "new-"}},
		`^[[:alpha:]]$`:        {{"[]", "a]", ":]"}, {"b", "b]"}},
		`^[\b]\/\-$`:           {{"\b/-"}, {"b/-"}},
		`(?i:^straße|ſ$)`:      {{"STRAßE", "s", "xS"}, {"strase"}},
		`^(?<year>\d+)\0$`:     {{"12\x00"}, {"12"}},
		`\p{Lu}`:               {{"É", "aBc"}, {"é"}},
		"\U0001f600":           {{"\U0001f600"}, {"\U0001f601"}},
	} {
		schema, err := json.Marshal(map[string]any{"type": "string", "pattern": e})
		require.NoError(t, err)
		g := compile(t, string(schema), Options{})
		form := func(text string) string {
			var out strings.Builder
			for _, r := range text {
				if r < ' ' || r == '"' || r == '\\' {
					out.WriteString(escape(r))
				} else {
					out.WriteRune(r)
				}
			}
			return `"` + out.String() + `"`
		}
		for _, text := range texts[0] {
			require.True(t, accepts(g, form(text)), "%s should match %q", e, text)
		}
		for _, text := range texts[1] {
			require.False(t, accepts(g, form(text)), "%s should not match %q", e, text)
		}
	}
	for e, reason := range map[string]string{
		`a(?<!b)`: "lookbehinds are not supported", `(a)\1`: "not supported", `\A`: "not supported", `[]`: "empty class", `[^]`: "empty class", `[a`: "without ]",
		`a\`: "at the end", `(?s:.)`: "(?s", `a{2000}`: "repeat count", `(`: "missing", strings.Repeat(`(abc|d){300}`, 200): "larger than", `\k<a>`: "not supported", `[b-a]`: "range",
	} {
		schema, err := json.Marshal(map[string]any{"pattern": e})
		require.NoError(t, err)
		_, err = Compile(schema, nil, Options{})
		require.ErrorIs(t, err, ErrSchema, e)
		require.ErrorContains(t, err, "#/pattern: ", e)
		require.ErrorContains(t, err, reason, e)
	}
}

// The tokens that may follow are those after which the text can still come to match.
func TestTokensOfRegexp(t *testing.T) {
	v := bytesAlone("2024", "-1", "-19", "20241", "ab")
	g, err := CompileRegexp(`\d{4}-(0[1-9]|1[0-2])`, v, Options{})
	require.NoError(t, err)
	m := g.Matcher()
	for _, step := range []struct {
		allowed string
		take    int
	}{{"0123456789 2024", 257}, {"- -1", 258}, {"012", '1'}, {"", 0}} {
		mask, err := m.Mask()
		require.NoError(t, err)
		var allowed string
		for id := range v.Size() {
			if mask[id/64]>>(id%64)&1 == 1 {
				if id > 256 {
					allowed += " "
				}
				allowed += v.text(id)
			}
		}
		require.Equal(t, step.allowed, allowed)
		require.Equal(t, step.take != 0, m.Accept(step.take))
	}
	require.True(t, m.Ended())
	empty, err := CompileRegexp("", v, Options{})
	require.NoError(t, err)
	require.True(t, empty.Matcher().Ended())
	for _, bad := range []string{"(", "a)(b", `\1`, "a{1001}"} {
		_, err := CompileRegexp(bad, v, Options{})
		require.ErrorIs(t, err, ErrSyntax)
	}
	_, err = CompileRegexp(strings.Repeat("a", mostElements+1), v, Options{})
	require.ErrorIs(t, err, ErrSyntax)
	require.ErrorContains(t, err, "bytes are more than")
	_, err = CompileAny(v, Alternative{Regexp: "a", Schema: []byte("true")})
	require.ErrorContains(t, err, "one form")
}

// Several goroutines may compile patterns, whose classes are shared.
func TestConcurrent(t *testing.T) {
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			_, err := Compile([]byte(`{"pattern": "^[^\\w\\s]\\W\\b\\S$"}`), nil, Options{})
			assert.NoError(t, err)
		})
	}
	all.Wait()
}

// A long pattern is compiled soon, or refused.
func TestLongPatterns(t *testing.T) {
	for e, works := range map[string]bool{`^[a-z]{1000}$`: true, `^\p{L}{1000}$`: true, `^(\w+,){900}$`: true, `(a|b|c){1000}\b`: true, `^(.{100}){10}x{1000}`: true, strings.Repeat("x{1000}", 200): false} {
		_, err := Compile(fmt.Appendf(nil, `{"pattern": %q}`, e), nil, Options{})
		require.Equal(t, works, err == nil, "%s: %v", e, err)
	}
	_, err := Compile([]byte(`{"pattern": "^\\w+(-\\w+)*$", "minLength": 3, "maxLength": 2000}`), nil, Options{})
	require.NoError(t, err)
}

// Sets of many ranges of characters take little of the work that a mask may take.
func TestWorkOfLetters(t *testing.T) {
	letters := tables(unicode.L)()
	random := rand.New(rand.NewPCG(1, 2))
	words := make([]string, 20000)
	for i := range words {
		for range 1 + random.IntN(5) {
			at := 2 * random.IntN(len(letters)/2)
			words[i] += string(letters[at] + random.Int32N(letters[at+1]-letters[at]+1))
		}
	}
	v := bytesAlone(words...)
	for _, e := range []string{`^\\p{Lu}\\p{L}{1,30}$`, `\\bnew\\b`, `^(\\p{L}|\\p{N}|-){3,40}$`, `^\\W\\S+$`} {
		g, err := Compile([]byte(`{"pattern": "`+e+`"}`), v, Options{})
		require.NoError(t, err)
		m := g.Matcher()
		require.True(t, m.AcceptText(`"`))
		_, err = m.Mask()
		require.NoError(t, err, e)
		require.Less(t, g.automaton.work, mostWork/4, e)
	}
}
