package engine

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A step with prompts never has twice the rows that it needs where its time is
// proportional to them.
func TestSizes(t *testing.T) {
	s := &stepper{config: &Config{Sequences: 32, ChunkTokens: 1024}}
	rows := func(n, chosen int) int {
		z := s.sizeFor(&pendingStep{rows: n, chosen: chosen})
		require.GreaterOrEqual(t, z.rows, n)
		require.GreaterOrEqual(t, z.chosen, chosen)
		return z.rows
	}
	for n, want := range map[int]int{2: 16, 17: 64, 65: 256, 257: 512, 512: 512, 513: 1024, 1024: 1024, 1025: 1056} {
		require.Equal(t, want, rows(n, 1), "%d rows", n)
	}
	for n, want := range map[int]int{1: 1, 3: 4, 17: 32, 32: 32} {
		require.Equal(t, want, rows(n, n), "%d tokens", n)
	}
}
