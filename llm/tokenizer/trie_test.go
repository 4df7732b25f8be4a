package tokenizer_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/kompute-go/kompute-go/llm/tokenizer"
)

// TestAddedTokensOneByOne compares how added tokens are found with looking for each of them at
// each place.
func TestAddedTokensOneByOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		contents := rapid.SliceOfNDistinct(rapid.StringMatching("[ab]{2,6}|c[abc]{1,3}"), 1, 8, rapid.ID).Draw(t, "added")
		var added []string
		for i, content := range contents {
			added = append(added, fmt.Sprintf(`{"id":%d,"content":"%s","normalized":true,"special":%t}`, 10+i, content, i%2 == 0))
		}
		tok, err := tokenizer.Load([]byte(small("added_tokens", "["+strings.Join(added, ",")+"]",
			"model", `{"type":"BPE","vocab":{"a":0,"b":1,"c":2},"merges":[]}`)))
		require.NoError(t, err)
		text := rapid.StringMatching("[abc]{0,40}").Draw(t, "text")

		var all []tokenizer.Added
		var special, ids []int
		past := 0
		for at := range len(text) {
			var here []tokenizer.Added // the longest first
			for i, content := range contents {
				if strings.HasPrefix(text[at:], content) {
					here = append(here, tokenizer.Added{ID: 10 + i, Start: at, End: at + len(content), Special: i%2 == 0})
				}
			}
			slices.SortFunc(here, func(a, b tokenizer.Added) int { return b.End - a.End })
			all = append(all, here...)
			if slices.ContainsFunc(here, func(a tokenizer.Added) bool { return a.Special }) {
				special = append(special, at)
			}
			switch {
			case at < past:
			case len(here) > 0:
				ids, past = append(ids, here[0].ID), here[0].End
			default:
				ids = append(ids, int(text[at]-'a'))
			}
		}
		require.Equal(t, all, slices.Collect(tok.AddedIn(text)))
		require.Equal(t, special, tok.SpecialAt(text))
		got, err := tok.Encode(text)
		require.NoError(t, err)
		require.Equal(t, append([]int{}, ids...), got)
	})
}
