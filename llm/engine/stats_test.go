package engine

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Tokens that are fed again count as a prompt's, also those of an answer whose prompt is in the cache;
// a token of an answer that is fed for the first time, or guessed, does not.
func TestPromptTokens(t *testing.T) {
	const prompt = 10
	for name, p := range map[string]struct {
		piece
		want uint64
	}{
		"a prompt":                              {piece{first: 0, count: 10, chosen: 1}, 10},
		"a prompt's beginning":                  {piece{first: 0, count: 4}, 4},
		"a prompt's end":                        {piece{first: 8, count: 2, chosen: 1}, 2},
		"a prompt's last token, with guesses":   {piece{first: 9, count: 4, chosen: 4, draft: make([]int32, 3)}, 1},
		"a token of an answer":                  {piece{first: 12, count: 1, chosen: 1}, 0},
		"one with guesses":                      {piece{first: 12, count: 4, chosen: 4, draft: make([]int32, 3)}, 0},
		"all again, and a new token":            {piece{first: 0, count: 16, chosen: 1}, 15},
		"a part of an answer again":             {piece{first: 12, count: 8}, 8},
		"the rest of it again, and a new token": {piece{first: 12, count: 8, chosen: 1}, 7},
	} {
		e := &Engine{}
		p.sequence = &sequence{prompt: prompt}
		p.ended.Store(true)
		(&replica{engine: e}).finish(&pendingStep{pieces: []piece{p.piece}}, nil)
		require.Equal(t, p.want, e.stats.PromptTokens, name)
	}
}
