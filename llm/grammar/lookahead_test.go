package grammar

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Lookaheads hold if their expressions match at the beginning by Go's package regexp, or do not.
func TestLookaheads(t *testing.T) {
	text := rapid.StringOfN(rapid.SampledFrom([]rune("aabbz_- \n\"\\äé€")), 0, 7, -1)
	rapid.Check(t, func(t *rapid.T) {
		rest := "(" + expression(2).Draw(t, "rest") + ")"
		pattern, conditions := "^", map[*regexp.Regexp]bool{}
		for range rapid.IntRange(1, 2).Draw(t, "lookaheads") {
			inner := expression(2).Draw(t, "inner")
			negative := rapid.Bool().Draw(t, "negative")
			conditions[regexp.MustCompile("^(?:"+inner+")")] = !negative
			pattern += map[bool]string{true: "(?!", false: "(?="}[negative] + inner + ")"
		}
		pattern += rest
		conditions[regexp.MustCompile("^(?:"+rest+")")] = true
		schema, err := json.Marshal(map[string]any{"pattern": pattern, "maxLength": 6})
		require.NoError(t, err)
		g, err := Compile(schema, nil, Options{})
		if err != nil {
			require.ErrorContains(t, err, "no finite value")
		}
		for range 20 {
			s := text.Draw(t, "text")
			n := utf8.RuneCountInString(s)
			want := n <= 6
			for condition, is := range conditions {
				want = want && condition.MatchString(s) == is
			}
			quoted, _ := json.Marshal(s)
			takes := g != nil && accepts(g, string(quoted))
			if n == len(s) || takes { // of other texts it may not take all that match
				require.Equal(t, want, takes, "%s: %s", pattern, quoted)
			}
		}
	})
}

func TestPatternsWithLookaheads(t *testing.T) {
	for e, texts := range map[string][2][]string{
		`^(?!^[-+.]*$)[+-]?0*\d*\.?\d*$`:        {{"0", "-1.5", "+.5", "12.", "007"}, {"", "-", ".", "+.", "1.2.3", "a"}}, // pydantic's for decimals
		`^(?=.*[A-Z])(?=.*\d)(?!.*\s)[^x]{6,}$`: {{"abcD12", "A1----"}, {"abc123", "ABCDEF", "ab D12", "abcD1", "xbcD12"}},
		`^(?!con$|nul$)[a-z]+$`:                 {{"cons", "co", "xnul"}, {"con", "nul", ""}},
		`^(?=[(]|[\])])[()\]]x`:                 {{"(x", "]xy"}, {"ax"}},
		`^(?:x|(?=[\d.]{1,3}0*$)\d*\.\d*0*)$`:   {{"x", "1.2", "0.5000", ".12"}, {"12.34", "123", "1.234"}},
		`(?=a)\w(?!b)|^(?:(?=z)|q)+z$`:          {{"xac", "za", "a", "z", "qz"}, {"ab", "cab", "b", "zz"}},
		`^(a(?!a)|b(?=a|$))*$`:                  {{"", "a", "ba", "aba"[1:], "ab"}, {"aa", "bb", "abb"}},
		`^(?!.*\bé?new\b)[a-zé ]+$`:             {{"newer", "renew"}, {"a new", "énew", "new"}},
	} {
		schema, err := json.Marshal(map[string]any{"pattern": e})
		require.NoError(t, err)
		g := compile(t, string(schema), Options{})
		for _, text := range texts[0] {
			require.True(t, accepts(g, `"`+text+`"`), "%s should match %q", e, text)
		}
		for _, text := range texts[1] {
			require.False(t, accepts(g, `"`+text+`"`), "%s should not match %q", e, text)
		}
	}
	for _, e := range []string{`^(?=a)b`, `(?=a`, `(?<=a)b`, `(?=a(?=b))`, `\ud800`, `\u{d801}`, `\x{d800}`, strings.Repeat("(?=a)", 65)} {
		schema, err := json.Marshal(map[string]any{"pattern": e})
		require.NoError(t, err)
		_, err = Compile(schema, nil, Options{})
		require.ErrorIs(t, err, ErrSchema, e)
	}
}
