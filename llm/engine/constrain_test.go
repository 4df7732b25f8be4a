package engine

import (
	"encoding/json"
	"fmt"
	"strings"
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
		mask, err := c.matcher.Mask()
		require.NoError(t, err)
		require.Equal(t, []uint64{allowed}, mask)
		if rest == 2 {
			require.False(t, c.accept(3))
		}
		require.True(t, c.accept(4))
	}
}

// A token of EOS that has a text is allowed only where the constrained text may end, and is no
// part of it.
func TestEndsWithText(t *testing.T) {
	tok, err := tokenizer.Load([]byte(`{"model":{"type":"BPE","vocab":{"1":0,"2":1,"x":2},"merges":[]},
		"pre_tokenizer":{"type":"ByteLevel","use_regex":false},"decoder":{"type":"ByteLevel"}}`))
	require.NoError(t, err)
	g, err := grammar.Compile([]byte(`{"enum":[1,12,21]}`), grammar.NewVocabulary(tok, 3), grammar.Options{})
	require.NoError(t, err)
	a := newGuide(&Request{Grammar: g, EOS: []int{1, 2, -1, 3}}, 3, tok)
	never := impossible
	for i, want := range [][]float32{{1, never, never}, {never, 2, 3}} {
		logits := []float32{1, 2, 3}
		require.NoError(t, a.process(&sequence{}, logits))
		require.Equal(t, want, logits)
		require.False(t, a.accept(i))
	}
	require.False(t, a.constraint.matcher.Ended())
}

// An answer cannot end before its constrained text has begun.
func TestNoEndBeforeTheGrammar(t *testing.T) {
	tok, err := tokenizer.Load([]byte(`{"model":{"type":"BPE","vocab":{"A:":0,"1":1,"x":2},"merges":[]},
		"pre_tokenizer":{"type":"ByteLevel","use_regex":false},"decoder":{"type":"ByteLevel"}}`))
	require.NoError(t, err)
	g, err := grammar.Compile([]byte(`{"enum":[1,11]}`), grammar.NewVocabulary(tok, 3), grammar.Options{})
	require.NoError(t, err)
	a := newGuide(&Request{Grammar: g, GrammarAfter: "A:", EOS: []int{2, -1, 3}}, 3, tok)
	never := impossible
	for _, step := range []struct {
		want []float32
		next int
	}{
		{[]float32{1, 2, never}, 1}, // the beginning has not come, so all but the end is free
		{[]float32{1, 2, never}, 0},
		{[]float32{never, 2, never}, 1},
		{[]float32{never, 2, 3}, 2},
	} {
		logits := []float32{1, 2, 3}
		require.NoError(t, a.process(&sequence{}, logits))
		require.Equal(t, step.want, logits)
		require.False(t, a.accept(step.next))
	}
}

// With a trigger, an answer is free and may end, except after each appearance of it; one before GrammarAfter is text.
func TestGrammarTrigger(t *testing.T) {
	tok, err := tokenizer.Load([]byte(`{"model":{"type":"BPE","vocab":{"A:":0,"1":1,"x":2,"B":3},"merges":[]},
		"pre_tokenizer":{"type":"ByteLevel","use_regex":false},"decoder":{"type":"ByteLevel"}}`))
	require.NoError(t, err)
	g, err := grammar.Compile([]byte(`{"enum":[11]}`), grammar.NewVocabulary(tok, 4), grammar.Options{})
	require.NoError(t, err)
	never := impossible
	free, noEnd, one := []float32{1, 2, 3, 4}, []float32{1, 2, never, 4}, []float32{never, 2, never, never}
	type step struct {
		want []float32
		next int
	}
	for after, steps := range map[string][]step{
		"":  {{free, 1}, {free, 0}, {one, 1}, {one, 1}, {free, 3}, {free, 0}, {one, 1}, {one, 1}, {free, 2}},
		"B": {{noEnd, 1}, {noEnd, 0}, {noEnd, 1}, {noEnd, 3}, {free, 1}, {free, 0}, {one, 1}, {one, 1}, {free, 2}},
	} {
		a := newGuide(&Request{Grammar: g, GrammarAfter: after, GrammarTrigger: "A:", EOS: []int{2}}, 4, tok)
		for i, s := range steps {
			logits := []float32{1, 2, 3, 4}
			require.NoError(t, a.process(&sequence{}, logits))
			require.Equal(t, s.want, logits, "%q, step %d", after, i)
			require.False(t, a.accept(s.next))
		}
	}
	// One token with both texts.
	a := newGuide(&Request{Grammar: g, GrammarAfter: "A", GrammarTrigger: ":"}, 4, tok)
	require.False(t, a.accept(0))
	logits := []float32{1, 2, 3, 4}
	require.NoError(t, a.process(&sequence{}, logits))
	require.Equal(t, one, logits)
}

// A grammar with which a mask takes too much work ends its request, and no other.
func TestGrammarOfTooMuchWork(t *testing.T) {
	m, folder := small(t)
	vocabulary, properties := map[string]int{}, map[string]any{}
	for i := range 1000 {
		properties[fmt.Sprintf("p%d", i)] = map[string]any{"type": "integer"}
	}
	for token := range m.Limits().Vocabulary {
		text := "{"
		for i := range 12 {
			text += fmt.Sprintf(`"p%d":1,`, 12*token%900+i)
		}
		vocabulary[text+strings.Repeat(" ", token)] = token
	}
	words, err := json.Marshal(vocabulary)
	require.NoError(t, err)
	schema, err := json.Marshal(map[string]any{"type": "object", "properties": properties})
	require.NoError(t, err)
	tok, err := tokenizer.Load([]byte(`{"model":{"type":"BPE","vocab":` + string(words) + `,"merges":[]},
		"pre_tokenizer":{"type":"ByteLevel","use_regex":false},"decoder":{"type":"ByteLevel"}}`))
	require.NoError(t, err)
	g, err := grammar.Compile(schema, grammar.NewVocabulary(tok, len(vocabulary)), grammar.Options{})
	require.NoError(t, err)
	e, err := New(m, folder.Tokenizer, Config{Sequences: 2, Context: 64})
	require.NoError(t, err)
	request := Request{Prompt: []int{1, 2}, MaxTokens: 20, Logprobs: true}
	other, err := e.Submit(t.Context(), request)
	require.NoError(t, err)
	for _, hook := range []func([]int32, []float32) error{nil, func([]int32, []float32) error { return nil }} {
		request.Grammar, request.Logits = g, hook
		s, err := e.Submit(t.Context(), request)
		require.NoError(t, err)
		_, err = s.Result(t.Context())
		require.ErrorIs(t, err, grammar.ErrWork)
	}
	_, err = other.Result(t.Context())
	require.NoError(t, err)
	require.Zero(t, e.Stats().Restarted)
	require.NoError(t, e.Close(t.Context()))
}
