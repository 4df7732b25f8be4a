package grammar

import (
	"math/big"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// A number with bounds is taken if and only if it is between them, and one with multipleOf if it is a multiple and has no
// more digits after the point.
func TestRanges(t *testing.T) {
	number := rapid.Custom(func(t *rapid.T) string {
		return strings.TrimSuffix(rapid.StringMatching(`-?(0|[1-9][0-9]{0,2})(\.[0-9]{1,3}|\.)`).Draw(t, "number"), ".")
	})
	rapid.Check(t, func(t *rapid.T) {
		keywords := []string{rapid.SampledFrom([]string{"minimum", "exclusiveMinimum"}).Draw(t, "least"), rapid.SampledFrom([]string{"maximum", "exclusiveMaximum"}).Draw(t, "greatest")}
		bounds := [2]string{number.Draw(t, "from"), number.Draw(t, "to")}
		kind := rapid.SampledFrom([]string{"number", "integer"}).Draw(t, "kind")
		value := number.Draw(t, "value")
		if rational(value).Sign() == 0 {
			value = strings.TrimPrefix(value, "-") // a negative zero is not needed, and taken only beside other negative numbers
		}
		given := [2]bool{rapid.Bool().Draw(t, "least"), rapid.Bool().Draw(t, "greatest")}
		members, want := []string{`"type": "` + kind + `"`}, kind == "number" || !strings.Contains(value, ".")
		for i, is := range given {
			if !is {
				continue
			}
			members = append(members, `"`+keywords[i]+`": `+bounds[i])
			order := rational(value).Cmp(rational(bounds[i])) * (1 - 2*i)
			want = want && (order > 0 || order == 0 && !strings.HasPrefix(keywords[i], "exclusive"))
		}
		if m := rapid.SampledFrom([]string{"", "", "1", "3", "7", "25", "100", "0.1", "0.05", "0.25", "2.5", "1e1"}).Draw(t, "multipleOf"); m != "" {
			members = append(members, `"multipleOf": `+m)
			_, fraction, _ := strings.Cut(value, ".")
			_, most, _ := strings.Cut(m, ".")
			want = want && new(big.Rat).Quo(rational(value), rational(m)).IsInt() && len(fraction) <= len(most)
		}
		g, err := Compile([]byte("{"+strings.Join(members, ", ")+"}"), nil, Options{})
		if err != nil {
			require.ErrorContains(t, err, "no finite value")
			require.False(t, want)
			return
		}
		require.Equal(t, want, accepts(g, value), "%s %s", members, value)
	})
}

func rational(text string) *big.Rat {
	r, _ := new(big.Rat).SetString(text)
	return r
}
