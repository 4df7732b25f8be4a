package generate

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// However the text is divided into pieces, exactly the text before the first
// stop string passes.
func TestStopper(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		letters := rapid.SampledFrom([]string{"a", "b", "ab", "ba"})
		stops := rapid.SliceOfN(rapid.StringOfN(rapid.RuneFrom([]rune("ab")), 1, 4, -1), 0, 3).Draw(t, "stops")
		pieces := rapid.SliceOfN(letters, 0, 12).Draw(t, "pieces")
		whole := strings.Join(pieces, "")
		// The text up to the end of the piece in which the first stop string ends.
		s := stopper{stops: stops}
		got, seen, stopped := "", "", false
		for _, piece := range pieces {
			var out string
			seen += piece
			out, stopped = s.push(piece)
			got += out
			if stopped {
				break
			}
		}
		if !stopped {
			got += s.flush()
			for _, stop := range stops {
				require.NotContains(t, whole, stop)
			}
			require.Equal(t, whole, got)
			return
		}
		first := len(seen)
		for _, stop := range stops {
			if i := strings.Index(seen, stop); i >= 0 {
				first = min(first, i)
			}
		}
		require.Equal(t, seen[:first], got)
	})
}
