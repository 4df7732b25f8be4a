package kompute

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestTransientsShareMemory(t *testing.T) {
	d := openTest(t, "cpu")
	s := newStream(t, d)
	x := tensor(t, d, upTo(1000))
	var out *Tensor[float32]
	r := captureTest(t, s, func(s *Stream) {
		y := x
		for range 9 {
			y = run(s, "neg", y)
		}
		out = closing(t, Result(s, run(s, "neg", y)))
	})
	require.EqualValues(t, 2*4032, r.Stats().TransientBytes)
	require.EqualValues(t, 9*4032, r.Stats().TransientBytesUnplanned)
	replayN(t, r, 2)
	require.Equal(t, upTo(1000), read(t, out))
}

// Transients that are alive at the same time never share bytes.
func TestPlannedTransientsAreApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := make([]transient, rapid.IntRange(0, 12).Draw(t, "tensors"))
		first := 0
		for i := range list {
			first += rapid.IntRange(0, 2).Draw(t, "gap")
			list[i] = transient{
				bytes: rapid.IntRange(1, 300).Draw(t, "bytes"), first: first,
				last: first + rapid.IntRange(0, 5).Draw(t, "length"),
			}
		}
		bytes, unplanned := planTransients(list, true)
		require.LessOrEqual(t, bytes, unplanned)
		for i, a := range list {
			require.LessOrEqual(t, a.offset+a.bytes, bytes)
			for _, b := range list[:i] {
				together := a.first <= b.last && b.first <= a.last
				apart := a.offset+a.bytes <= b.offset || b.offset+b.bytes <= a.offset
				require.True(t, !together || apart, fmt.Sprint(a, b))
			}
		}
	})
}
