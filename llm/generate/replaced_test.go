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

// A generation that goes on behind some of its tokens, as after a lost device, draws what
// it would have drawn, whether it is enqueued op by op or replayed.
func TestDrawsContinue(t *testing.T) {
	cases, _ := testmodel.Goldens(t)
	f := openDemo(t)
	testmodel.EachDevice(t, func(t *testing.T, d *kompute.Device) {
		withSession(t, f, d, model.Options{}, func(s *Session) {
			prompt := cases[4].PromptIDs
			o := Options{MaxTokens: 10, Sampling: sample.Params{Temperature: 3, Seed: 5}}
			require.NoError(t, o.fill())
			whole, err := s.Generate(t.Context(), prompt, o)
			require.NoError(t, err)
			require.Len(t, whole.IDs, 10)
			for behind := 1; behind < 10; behind++ {
				o.Eager = behind%3 == 0
				forget(t, s)
				g := &generation{
					Session: s, options: &o, onToken: func(Token) error { return nil }, ids: slices.Clone(whole.IDs[:behind]),
					answer: NewAnswer(s.tokenizer, nil, 10-behind, nil), limit: 10 - behind, meter: s.newMeter(),
				}
				require.NoError(t, g.run(t.Context(), slices.Concat(prompt, g.ids)))
				require.Equal(t, whole.IDs, g.ids)
			}
			region, _ := s.PromptRegion(1)
			require.Equal(t, d.Backend() != "cpu", region != nil, "some were replayed; on the CPU backend, each length came once")
		})
	})
}
