package engine

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLookup(t *testing.T) {
	l := &lookup{}
	tokens := []int32{1, 2, 3, 4, 5, 6, 7, 1, 2, 3}
	l.accept(tokens)
	require.Equal(t, 3, l.guess, "4 followed 1, 2, 3")
	require.Empty(t, l.draft(tokens, 4), "no guess has come true yet")
	for _, id := range []int32{4, 5} {
		tokens = append(tokens, id)
		l.accept(tokens)
	}
	require.Equal(t, []int32{6, 7, 1, 2}, l.draft(tokens, 4))
	tokens = append(tokens, 9)
	l.accept(tokens)
	require.Empty(t, l.draft(tokens, 4))
	var none *lookup
	require.False(t, none.drafts())
}
