package kompute

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// A block serves every size of its class, and classes waste less than a quarter.
func TestClassesOfMemory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(leastRecycled, 1<<30).Draw(t, "bytes")
		class, size := classOf(n)
		require.GreaterOrEqual(t, size, n)
		require.Less(t, size-n, n/4+1)
		whole, again := classOf(size)
		require.Equal(t, class, whole)
		require.Equal(t, size, again)
		above, _ := classOf(size + 1)
		require.Equal(t, class+1, above)
		require.Less(t, above, len(freed))
	})
}

// Results may get the memory of closed ones with its old content, but memory that
// must be zero is zero.
func TestMemoryOfResultsIsUsedAgain(t *testing.T) {
	d := openTest(t, "cpu")
	s := newStream(t, d)
	x := tensor(t, d, upTo(1<<16))
	for range 20 {
		sc := s.Scope()
		got := read(t, run(s, "neg", x))
		require.EqualValues(t, -5, got[5])
		zeros, err := Zeros[float32](d, 1<<16)
		require.NoError(t, err)
		require.Zero(t, read(t, zeros)[5])
		require.NoError(t, zeros.Close())
		sc.Close()
	}
}
