package engine_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/engine"
	"github.com/kompute-go/kompute-go/llm/sample"
)

// Several answers to a prompt are the same as when it is asked repeatedly with the next
// seeds, and the prompt is computed only once, except for the tokens that do not fill a
// page. The same holds for simultaneous requests whose prompts begin alike.
func TestChoices(t *testing.T) {
	eachSmall(t, func(d demo) {
		c := engine.Config{Sequences: 6, Context: 128, PageTokens: 8, ChunkTokens: 16}
		r := rand.New(rand.NewPCG(5, 1))
		prompt := make([]int, 41)
		for i := range prompt {
			prompt[i] = r.IntN(smallVocabulary)
		}
		request := engine.Request{Prompt: prompt, MaxTokens: 12, Sampling: sample.Params{Temperature: 1, Seed: 70}}
		alone := d.engine(engine.Config{Sequences: 1, Context: 128})
		defer d.close(alone)
		e := d.engine(c)
		defer d.close(e)
		d.requireChoices(alone, e, request, 4)
		require.EqualValues(d, 41+3*1, e.Stats().PromptTokens)
		require.EqualValues(d, 3*40, e.Stats().SharedTokens)
		again, err := e.Submit(d.Context(), request)
		require.NoError(d, err)
		_, err = again.Result(d.Context())
		require.NoError(d, err)
		require.Equal(d, 40, again.Cached())
		for _, n := range []int{0, -1, 257} {
			_, err := e.SubmitChoices(d.Context(), request, n)
			require.ErrorIs(d, err, kompute.ErrInvalid)
		}
		// The device counts the tokens of shared pages for each answer.
		request.RepetitionPenalty, request.PresencePenalty = 1.7, 0.5
		d.requireChoices(alone, e, request, 4)
		request.RepetitionPenalty, request.PresencePenalty = 0, 0
		// The grammar is followed by each answer alone.
		request.Grammar = engine.SmallGrammar(d)
		request.LogitBias = map[int]float64{65: 3, 66: math.Inf(-1)}
		d.requireChoices(alone, e, request, 4)
		request.Grammar, request.LogitBias = nil, nil
		// Here a token is chosen after most rows of the first steps, but not after all.
		request.Prompt = prompt[:2]
		for _, c := range []engine.Config{{Sequences: 32, Context: 128}, {Sequences: 32, Context: 128, ChunkTokens: 15}} {
			e := d.engine(c)
			d.requireChoices(alone, e, request, 6)
			d.close(e)
		}
	})
}

// requireChoices checks that n answers of e are those that alone gives with one seed after
// the other.
func (d demo) requireChoices(alone, e *engine.Engine, request engine.Request, n int) {
	d.Helper()
	streams, err := e.SubmitChoices(d.Context(), request, n)
	require.NoError(d, err)
	for i, s := range streams {
		got, err := s.Result(d.Context())
		require.NoError(d, err)
		one := request
		one.Sampling.Seed += uint64(i)
		s, err := alone.Submit(d.Context(), onHost(one))
		require.NoError(d, err)
		want, err := s.Result(d.Context())
		require.NoError(d, err)
		requireSame(d, want, got)
	}
}
