package tokenizer

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/dlclark/regexp2"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// byRegex splits a text by the pattern itself.
func byRegex(t require.TestingT, re *regexp2.Regexp, text string) []string {
	pieces, err := splitRegex(context.Background(), re, nil, text)
	require.NoError(t, err)
	return pieces
}

// scanned are the patterns that have a scanner.
var scanned = []struct {
	pattern *regexp2.Regexp
	scan    splitter
}{
	{regexp2.MustCompile(longS.Replace(qwenPattern), regexp2.None), scanner(1)},
	{regexp2.MustCompile(longS.Replace(llamaPattern), regexp2.None), scanner(3)},
}

func checkScan(t require.TestingT, text string) {
	for _, s := range scanned {
		got, err := s.scan(context.Background(), nil, text)
		require.NoError(t, err)
		require.Equal(t, byRegex(t, s.pattern, text), got, "text %q, pattern %s", text, s.pattern)
	}
}

// TestScanEveryRune puts every character of the planes that Unicode uses into
// contexts in which each alternative of the pattern could take it.
func TestScanEveryRune(t *testing.T) {
	for _, plane := range []struct{ from, to rune }{{0, 0xd7ff}, {0xe000, 0xf8ff}, {0xf900, 0x323ff}, {0xe0000, 0xe01ff}} {
		for from := plane.from; from <= plane.to; from += 64 {
			if uniform(from) && from/64%16 != 0 {
				continue
			}
			for _, context := range []string{"%a", " %", "a%1", "'%", "\n%\n", "!%!", " % "} {
				var text strings.Builder // 64 characters in one text: fewer searches to start
				for r := from; r < from+64; r++ {
					text.WriteString(strings.ReplaceAll(context, "%", string(r)))
				}
				checkScan(t, text.String())
			}
		}
	}
}

// uniform reports whether the 64 characters from r on are all of one kind, as in the
// large blocks of ideographs, where testing every sixteenth row is enough.
func uniform(r rune) bool {
	for i := range rune(64) {
		if kindOf(r+i) != kindOf(r) {
			return false
		}
	}
	return true
}

// TestScanProperty compares the two on random mixtures of what the pattern
// tells apart.
func TestScanProperty(t *testing.T) {
	parts := rapid.SampledFrom([]string{
		" ", " ", "\n", "\r", "\t", "\u00a0", "\u3000", "\u0085", "a", "Z", "é", "中", "1", "23", "²", "Ⅻ", "'", "'s", "'LL", "'rE", "'v", "'ſ", "!", "…", "👍", "\u0301", "\u200d", "\x00",
	})
	rapid.Check(t, func(t *rapid.T) {
		text := ""
		for _, s := range rapid.SliceOfN(parts, 0, 40).Draw(t, "parts") {
			text += s
		}
		checkScan(t, text)
	})
}

// TestLongS has the pieces that Hugging Face tokenizers makes.
func TestLongS(t *testing.T) {
	const cl100k = `'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?\p{L}+|\s+`
	for _, pattern := range []string{qwenPattern, llamaPattern, qwenPattern + "|never", cl100k} {
		split, err := (&preTokenizer{Behavior: "Isolated", Pattern: struct{ Regex, String *string }{Regex: &pattern}}).split()
		require.NoError(t, err)
		got, err := split(context.Background(), nil, "a'ſab'S'ſ")
		require.NoError(t, err)
		require.Equal(t, []string{"a", "'ſ", "ab", "'S", "'ſ"}, got, "%s", pattern)
	}
}

// A match that takes too long is reported without the text, which may be private.
func TestTimeoutDoesNotQuoteTheText(t *testing.T) {
	re := regexp2.MustCompile(`b|(a+)+c`, regexp2.None)
	re.MatchTimeout = 20 * time.Millisecond
	_, err := splitRegex(context.Background(), re, nil, "bb"+strings.Repeat("a", 200))
	require.ErrorIs(t, err, ErrEncoding)
	require.ErrorContains(t, err, "took more than 20ms, at byte 2 of a part of 202 bytes")
	require.NotContains(t, err.Error(), "aaa")
}

// FuzzScan looks for a text on which a scanner and its pattern differ.
func FuzzScan(f *testing.F) {
	for _, s := range []string{"", "Hello, world!", "  two  spaces \n\n x", "don't WE'LL 'sa", "\r\n 12 12345 ab1\u00a0!\n", "'", " '", "\t\t!a"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		checkScan(t, string([]rune(text)))
	})
}
