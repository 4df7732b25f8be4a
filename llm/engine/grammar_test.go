package engine_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/llm/engine"
	"github.com/kompute-go/kompute-go/llm/generate"
	"github.com/kompute-go/kompute-go/llm/grammar"
	"github.com/kompute-go/kompute-go/llm/sample"
)

// An answer does not begin an optional property that nothing finite meets, which would only end
// with the limit of tokens.
func TestGrammarOfAnEndlessProperty(t *testing.T) {
	d := cpuDemo(t)
	v := grammar.NewVocabulary(d.folder.Tokenizer, d.folder.Limits().Vocabulary)
	g, err := grammar.Compile([]byte(`{"type": "object", "properties": {"name": {"type": "string", "maxLength": 5}, "parent": {"$ref": "#/$defs/node"}}, "required": ["name"],
		"$defs": {"node": {"type": "object", "properties": {"parent": {"$ref": "#/$defs/node"}}, "required": ["parent"]}}}`), v, grammar.Options{})
	require.NoError(t, err)
	e := d.engine(engine.Config{Sequences: 4, Context: 256})
	defer d.close(e)
	for seed := range uint64(6) {
		s, err := e.Submit(t.Context(), engine.Request{
			Prompt: []int{1, 2}, MaxTokens: 200, Grammar: g, EOS: d.folder.EOS(), Sampling: sample.Params{Temperature: 1.5, Seed: seed},
		})
		require.NoError(t, err)
		got, err := s.Result(t.Context())
		require.NoError(t, err)
		require.Equal(t, generate.FinishStop, got.Finish, got.Text)
		var answer map[string]string
		require.NoError(t, json.Unmarshal([]byte(got.Text), &answer), got.Text)
		require.Len(t, answer, 1)
	}
}
