package generate

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/kompute-go/kompute-go/llm/tokenizer"
)

// However the text is divided into pieces, exactly the text before the first place where a
// stop string appears passes.
func TestStopper(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		letters := rapid.SampledFrom([]string{"a", "b", "ab", "ba"})
		stops := rapid.SliceOfN(rapid.StringOfN(rapid.RuneFrom([]rune("ab")), 1, 4, -1), 0, 3).Draw(t, "stops")
		requireStopped(t, stops, rapid.SliceOfN(letters, 0, 12).Draw(t, "pieces"))
	})
	for _, stops := range [][]string{{"aa", "a"}, {"a", "aa"}} {
		for _, pieces := range [][]string{{"aa"}, {"a", "a"}} {
			requireStopped(t, stops, pieces)
		}
	}
	// One that appears within another, which may come or not.
	for _, text := range []string{"xabcdy", "xabcey", "xabc"} {
		for ends := range 1 << len(text) {
			pieces := []string{""}
			for i, c := range text {
				pieces[len(pieces)-1] += string(c)
				if ends>>i&1 != 0 {
					pieces = append(pieces, "")
				}
			}
			requireStopped(t, []string{"abcd", "c"}, pieces)
		}
	}
}

// requireStopped checks what passes of a text, whether it is stopped, and that what is held
// back is shorter than the longest stop string.
func requireStopped(t require.TestingT, stops, pieces []string) {
	whole := strings.Join(pieces, "")
	first, longest, appears, which := len(whole), 1, false, ""
	for _, stop := range stops {
		longest = max(longest, len(stop))
		if i := strings.Index(whole, stop); i >= 0 && (i < first || i == first && len(stop) < len(which)) {
			first, appears, which = i, true, stop
		}
	}
	s := stopper{stops: stops}
	got, out, stopped := "", "", false
	for i := 0; i < len(pieces) && !stopped; i++ {
		out, stopped = s.push(pieces[i])
		got += out
		require.Less(t, len(s.held), longest)
	}
	if !stopped {
		out, stopped = s.flush()
		got += out
	}
	require.Equal(t, whole[:first], got, "%q in %q", stops, pieces)
	require.Equal(t, appears, stopped, "%q in %q", stops, pieces)
	if appears {
		require.Equal(t, which, s.found, "%q in %q", stops, pieces)
	}
}

// What a token adds after the stop string that it completes is not part of the text.
func TestNothingIsLeftBehindAStop(t *testing.T) {
	f := openDemo(t)
	seen := 0
	for id := range f.Limits().Vocabulary {
		d := f.Tokenizer.NewDecoder(tokenizer.SkipSpecial)
		text := d.Push(id)
		if text == "" || d.Flush() == "" {
			continue // not whole characters and a part of another
		}
		seen++
		a := NewAnswer(f.Tokenizer, nil, 10, []string{text})
		require.Equal(t, Token{ID: id, Finish: FinishStop, Stop: text}, a.Add(id))
		require.Empty(t, a.Rest())
	}
	require.Positive(t, seen)
}
