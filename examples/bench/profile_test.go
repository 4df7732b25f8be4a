package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Where the context ends before the tokens to profile, the numbers are still those of one token.
func TestProfileAtTheEndOfTheContext(t *testing.T) {
	r := measure(t, "--shape", "demo", "--device", "cpu", "-p", "0", "-n", "2", "-d", "0,4094", "-r", "1", "--profile", "4")
	require.Len(t, r.Profiles, 2)
	for i, tokens := range []int{4, 2} {
		require.Equal(t, tokens, r.Profiles[i].Tokens)
		calls := make(map[string]float64)
		for _, o := range r.Profiles[i].EagerOps {
			calls[o.Op] = o.Calls
		}
		require.EqualValues(t, 6, calls["sdpa"])
		require.EqualValues(t, 1, calls["quantized_gather"])
	}
}
