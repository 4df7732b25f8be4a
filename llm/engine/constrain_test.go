package engine

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/llm/grammar"
	"github.com/kompute-go/kompute-go/llm/tokenizer"
)

// The rest of a token that completes GrammarAfter is part of the constrained text if the
// grammar allows it.
func TestRestOfATokenBeforeTheGrammar(t *testing.T) {
	tok, err := tokenizer.Load([]byte(`{"model":{"type":"BPE","vocab":{"A":0,":{":1,":x":2,"{":3,"}":4},"merges":[]},
		"pre_tokenizer":{"type":"ByteLevel","use_regex":false},"decoder":{"type":"ByteLevel"}}`))
	require.NoError(t, err)
	g, err := grammar.Compile([]byte(`{"type":"object","additionalProperties":false}`), grammar.NewVocabulary(tok, 5), grammar.Options{})
	require.NoError(t, err)
	for rest, allowed := range map[int]uint64{1: 1 << 4, 2: 1 << 3} {
		c := newConstraint(&Request{Grammar: g, GrammarAfter: "A:"}, tok)
		require.False(t, c.accept(0))
		require.False(t, c.accept(rest))
		require.Equal(t, []uint64{allowed}, c.matcher.Mask())
		if rest == 2 {
			require.False(t, c.accept(3))
		}
		require.True(t, c.accept(4))
	}
}
