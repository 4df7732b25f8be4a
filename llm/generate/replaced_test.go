package generate

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/testmodel"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/model"
	"github.com/kompute-go/kompute-go/llm/sample"
)

// A generation that goes on after some of its tokens, as when a device was lost, draws what
// it would have drawn, whether it is enqueued op by op or replayed.
func TestDrawsContinue(t *testing.T) {
	cases, _ := testmodel.Goldens(t)
	f := openDemo(t)
	testmodel.EachDevice(t, func(t *testing.T, d *kompute.Device) {
		withSession(t, f, d, model.Options{}, func(s *Session) {
			prompt := cases[4].PromptIDs
			o := Options{MaxTokens: 10, Sampling: sample.Params{Temperature: 3, Seed: 5}, Penalties: sample.Penalties{Repetition: 1.4, Frequency: 0.2}}
			require.NoError(t, o.fill(d))
			whole, err := s.Generate(t.Context(), prompt, o)
			require.NoError(t, err)
			require.Len(t, whole.IDs, 10)
			for behind := 1; behind < 10; behind++ {
				o.Eager = behind%3 == 0
				forget(t, s)
				g := &generation{
					Session: s, options: &o, onToken: func(Token) error { return nil }, ids: slices.Clone(whole.IDs[:behind]),
					answer: NewAnswer(s.tokenizer, nil, 10-behind, nil), limit: 10, meter: s.newMeter(),
				}
				require.NoError(t, g.run(t.Context(), slices.Concat(prompt, g.ids)))
				require.Equal(t, whole.IDs, g.ids)
			}
			require.Equal(t, d.Backend() != "cpu", len(capturedRows(s)) > 0, "some were replayed; on the CPU backend, each length came once")
		})
	})
}

// An answer that begins again in the middle, and fills the state, has the same last token: no replay comes after the one
// that it needs, since those would have no place.
func TestResumedAnswerFillsTheState(t *testing.T) {
	f := openDemo(t)
	d, err := kompute.Open("cpu")
	require.NoError(t, err)
	m, err := f.Load(t.Context(), d, model.Options{})
	require.NoError(t, err)
	s, err := NewSession(m, f.Tokenizer, 1)
	require.NoError(t, err)
	const tokens = 20
	prompt := longPrompt(t, f, s.state.Capacity()-tokens+1)
	o := Options{MaxTokens: tokens}
	require.NoError(t, o.fill(d))
	var whole []int
	for behind := range tokens {
		forget(t, s)
		g := &generation{
			Session: s, options: &o, onToken: func(Token) error { return nil }, ids: slices.Clone(whole[:behind]),
			answer: NewAnswer(s.tokenizer, nil, tokens-behind, nil), limit: tokens, meter: s.newMeter(),
		}
		require.NoError(t, g.run(t.Context(), slices.Concat(prompt, g.ids)))
		if behind == 0 {
			whole = g.ids
		}
		require.Len(t, g.ids, tokens)
		require.Equal(t, whole, g.ids, "resumed behind %d tokens", behind)
	}
	require.NoError(t, s.Close())
	require.NoError(t, m.Close())
	require.NoError(t, d.Close())
}
