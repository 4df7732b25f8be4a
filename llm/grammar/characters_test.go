package grammar

import (
	"encoding/json"
	"slices"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// A set of characters allows those, as UTF-8 and in JSON strings, and no other bytes.
func TestCharacters(t *testing.T) {
	edges := []rune{0, 9, 0x1f, ' ', '"', '[', '\\', 0x7e, 0x7f, 0x80, 0x81, 0xbf, 0xc0, 0x7ff, 0x800, 0x801, 0x83f, 0x840, 0xfff, 0x1000,
		0xd7ff, 0xd800, 0xdfff, 0xe000, 0xffff, 0x10000, 0x1003f, 0x10040, 0x10fff, 0x11000, 0x3ffff, 0x40000, 0x10ffff}
	rapid.Check(t, func(t *rapid.T) {
		edge := rapid.Custom(func(t *rapid.T) rune {
			return min(max(rapid.SampledFrom(edges).Draw(t, "edge")+rapid.Int32Range(-2, 2).Draw(t, "offset"), 0), utf8.MaxRune)
		})
		var set runes
		for range rapid.IntRange(1, 4).Draw(t, "ranges") {
			a, b := edge.Draw(t, "a"), edge.Draw(t, "b")
			set = append(set, min(a, b), max(a, b))
		}
		set = sorted(set)
		for _, quoted := range []bool{false, true} {
			b := newBuilder()
			g, err := b.grammar(b.or(b.characters(set, quoted), lit("end")), bytesAlone())
			require.NoError(t, err)
			for range 30 {
				r := edge.Draw(t, "r")
				has := false
				for i := 0; i < len(set); i += 2 {
					has = has || set[i] <= r && r <= set[i+1]
				}
				require.Equal(t, has, set.has(r))
				text := string(r)
				if quoted {
					value, err := json.Marshal(text)
					require.NoError(t, err)
					text = string(value[1 : len(value)-1])
					if slices.Contains([]rune{'<', '>', '&', 0x2028, 0x2029}, r) {
						continue // encoding/json escapes these as well
					}
				}
				surrogate := r >= 0xd800 && r <= 0xdfff
				require.Equal(t, has && !surrogate, accepts(g, text) && !surrogate, "%x in %x, quoted: %v", r, set, quoted)
			}
			for range 30 {
				text := string(rapid.SliceOfN(rapid.Byte(), 1, 4).Draw(t, "bytes"))
				if accepts(g, text) && !quoted {
					require.True(t, utf8.ValidString(text), "%x", text)
					require.Equal(t, 1, utf8.RuneCountInString(text))
				}
			}
		}
	})
}

func TestSetsOfCharacters(t *testing.T) {
	require.Equal(t, runes{1, 5, 9, 12}, sorted(runes{9, 12, 1, 3, 4, 5, 2, 2}))
	require.Equal(t, runes{4, 5, 9, 9}, runes{1, 5, 9, 12}.and(runes{4, 9}))
	require.Equal(t, runes{1, 3, 10, 12}, runes{1, 5, 9, 12}.without(runes{4, 9}))
	require.Equal(t, allRunes, allRunes.without(nil))
	require.Empty(t, allRunes.without(allRunes))
}
