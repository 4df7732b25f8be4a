package engine_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/llm/engine"
)

// A profile has each kind of step once, also those that were only ever the second step in flight.
func TestProfileOfAllSteps(t *testing.T) {
	eachSmall(t, func(d demo) {
		e := d.engine(engine.Config{Sequences: 2, Context: 128, PageTokens: 8})
		defer d.close(e)
		for _, prompt := range []int{1, 60, 1, 1} { // a step for each, and every other one in the same slot
			s, err := e.Submit(d.Context(), engine.Request{Prompt: make([]int, prompt), MaxTokens: 1})
			require.NoError(d, err)
			_, err = s.Result(d.Context())
			require.NoError(d, err)
		}
		require.EqualValues(d, 4, e.Stats().Steps)
		s, err := e.Submit(d.Context(), engine.Request{Prompt: []int{0}, MaxTokens: 1, MinTokens: 1, EOS: []int{1}})
		require.NoError(d, err)
		_, err = s.Result(d.Context())
		require.NoError(d, err)
		profiles, err := e.Profile(d.Context(), 1)
		require.NoError(d, err)
		var rows []int
		apart := 0
		for _, p := range profiles {
			rows = append(rows, p.Rows)
			if p.Choice != nil {
				require.Equal(d, 1, p.Rows)
				apart++
			}
		}
		require.Equal(d, []int{1, 1, 64}, rows)
		require.Equal(d, 1, apart, "the choice of tokens of the request with MinTokens")
	})
}
