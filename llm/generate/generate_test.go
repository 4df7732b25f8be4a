package generate

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/testmodel"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/chat"
	"github.com/kompute-go/kompute-go/llm/checkpoint"
	"github.com/kompute-go/kompute-go/llm/demomodel"
	"github.com/kompute-go/kompute-go/llm/model"
	"github.com/kompute-go/kompute-go/llm/sample"
	"github.com/kompute-go/kompute-go/llm/tokenizer"
)

func openDemo(t *testing.T) *Folder {
	t.Helper()
	f, err := OpenFS(demomodel.FS(), demomodel.Name)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	return f
}

// withSession runs fn with a session of the folder's model on d.
func withSession(t *testing.T, f *Folder, d *kompute.Device, o model.Options, fn func(s *Session)) {
	t.Helper()
	m, err := f.Load(t.Context(), d, o)
	require.NoError(t, err)
	s, err := NewSession(m, f.Tokenizer, 1)
	require.NoError(t, err)
	fn(s)
	require.NoError(t, s.Close())
	require.NoError(t, m.Close())
}

// Greedy output equals every golden, and no op leaves the device.
func TestGoldenGreedy(t *testing.T) {
	cases, _ := testmodel.Goldens(t)
	f := openDemo(t)
	testmodel.EachDevice(t, func(t *testing.T, d *kompute.Device) {
		withSession(t, f, d, model.Options{}, func(s *Session) {
			for _, c := range cases {
				prompt, err := f.EncodeChat(t.Context(), Turn("", c.Prompt))
				require.NoError(t, err)
				require.Equal(t, c.PromptIDs, prompt)
				var text strings.Builder
				r, err := s.Generate(t.Context(), prompt, Options{
					MaxTokens: len(c.GeneratedIDs), EOS: f.EOS(),
					OnText: func(s string) error { text.WriteString(s); return nil },
				})
				require.NoError(t, err)
				require.Equal(t, c.GeneratedIDs, r.IDs)
				want, ended := strings.CutSuffix(c.Text, "<|im_end|>")
				require.Equal(t, want, r.Text)
				require.Equal(t, want, text.String())
				require.Equal(t, map[bool]string{true: FinishStop, false: FinishLength}[ended], r.Finish)
				require.Equal(t, len(c.GeneratedIDs)-1, s.Stats().Work.Tokens)
				require.Empty(t, s.Stats().Fallbacks)
				require.NotNil(t, s.Stats().Fallbacks)
				require.Positive(t, s.Stats().PromptRate())
				require.Positive(t, s.Stats().DecodeRate())
			}
			require.Empty(t, s.Stream().Stats().Fallbacks)
		})
	})
}

// The most important cases, which have wide margins, also hold in 16 bits.
func TestGreedyNarrow(t *testing.T) {
	cases, _ := testmodel.Goldens(t)
	f := openDemo(t)
	testmodel.EachDevice(t, func(t *testing.T, d *kompute.Device) {
		for _, dtype := range testmodel.Some(d, array.Float16, array.BFloat16) {
			withSession(t, f, d, model.Options{DType: dtype}, func(s *Session) {
				for _, c := range cases[:2] {
					r, err := s.Generate(t.Context(), c.PromptIDs, Options{EOS: f.EOS()})
					require.NoError(t, err)
					require.Equal(t, c.GeneratedIDs, r.IDs, dtype)
				}
				require.Empty(t, s.Stream().Stats().Fallbacks)
			})
		}
	})
}

// A seed gives the same tokens again, and on every device.
func TestSamplingReproducible(t *testing.T) {
	cases, _ := testmodel.Goldens(t)
	f := openDemo(t)
	runs := map[uint64][]int{}
	testmodel.EachDevice(t, func(t *testing.T, d *kompute.Device) {
		withSession(t, f, d, model.Options{}, func(s *Session) {
			for _, seed := range []uint64{1, 2, 3, 1} {
				r, err := s.Generate(t.Context(), cases[4].PromptIDs, Options{
					MaxTokens: 40, EOS: f.EOS(),
					Sampling: sample.Params{Temperature: 1.3, TopP: 0.98, TopK: 40, MinP: 0.002, Seed: seed},
				})
				require.NoError(t, err)
				if runs[seed] == nil {
					runs[seed] = r.IDs
				}
				require.Equal(t, runs[seed], r.IDs, "seed %d", seed)
			}
		})
	})
	require.NotEqual(t, runs[1], runs[2])
	require.NotEqual(t, runs[2], runs[3])
}

// A prompt fed in steps of any size, or partly in the cache already, gives the
// same tokens.
func TestPrefillSteps(t *testing.T) {
	cases, _ := testmodel.Goldens(t)
	c := cases[2]
	f := openDemo(t)
	d, err := kompute.Open("cpu")
	require.NoError(t, err)
	defer d.Close()
	withSession(t, f, d, model.Options{}, func(s *Session) {
		for _, step := range []int{1, 2, 3, 5, 17, 18, 100} {
			var seen []int
			_, err := s.Generate(t.Context(), cases[1].PromptIDs, Options{MaxTokens: 1}) // something else in the cache
			require.NoError(t, err)
			r, err := s.Generate(t.Context(), c.PromptIDs, Options{
				MaxTokens: 5, PrefillStep: step,
				OnPrefill: func(done, total int) { seen = append(seen, done) },
			})
			require.NoError(t, err)
			require.Equal(t, c.GeneratedIDs[:5], r.IDs)
			require.Len(t, seen, (s.Stats().Fed-1)/step)
		}
		r, err := s.Generate(t.Context(), c.PromptIDs, Options{MaxTokens: 5})
		require.NoError(t, err)
		require.Equal(t, 1, s.Stats().Fed, "the cache holds all of the prompt")
		require.Equal(t, c.GeneratedIDs[:5], r.IDs)
	})
}

// The second turn of a conversation feeds only new tokens, and gives the same
// as one long prompt.
func TestConversation(t *testing.T) {
	cases, _ := testmodel.Goldens(t)
	f := openDemo(t)
	testmodel.EachDevice(t, func(t *testing.T, d *kompute.Device) {
		withSession(t, f, d, model.Options{}, func(s *Session) {
			history := Turn("", cases[0].Prompt)
			first, err := f.EncodeChat(t.Context(), history)
			require.NoError(t, err)
			r, err := s.Generate(t.Context(), first, Options{EOS: f.EOS()})
			require.NoError(t, err)
			history = append(history, chat.Message{Role: "assistant", Content: r.Text}, chat.Message{Role: "user", Content: cases[2].Prompt})
			second, err := f.EncodeChat(t.Context(), history)
			require.NoError(t, err)
			r, err = s.Generate(t.Context(), second, Options{EOS: f.EOS()})
			require.NoError(t, err)
			require.Less(t, s.Stats().Fed, len(second)-len(first))
			withSession(t, f, d, model.Options{}, func(fresh *Session) {
				whole, err := fresh.Generate(t.Context(), second, Options{EOS: f.EOS()})
				require.NoError(t, err)
				require.Equal(t, len(second), fresh.Stats().Fed)
				require.Equal(t, whole.IDs, r.IDs)
			})
		})
	})
}

// The context bounds prompt and answer.
func TestContextEnd(t *testing.T) {
	spec := testmodel.Small()
	spec.MaxPositions = 16
	dir := t.TempDir()
	spec.Write(t, dir)
	c, err := checkpoint.Open(dir)
	require.NoError(t, err)
	defer c.Close()
	words := openDemo(t).Tokenizer
	testmodel.EachDevice(t, func(t *testing.T, d *kompute.Device) {
		m, err := model.Load(t.Context(), d, c, model.Options{})
		require.NoError(t, err)
		s, err := NewSession(m, words, 100)
		require.NoError(t, err)
		r, err := s.Generate(t.Context(), []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, Options{})
		require.NoError(t, err)
		require.Equal(t, FinishLength, r.Finish)
		require.Len(t, r.IDs, 7, "six more tokens fit, and the last of them still has a successor")

		r, err = s.Generate(t.Context(), make([]int, 16), Options{})
		require.NoError(t, err)
		require.Len(t, r.IDs, 1)

		for _, prompt := range [][]int{nil, make([]int, 17), {1, 96}, {-1}} {
			_, err = s.Generate(t.Context(), prompt, Options{})
			var bad *PromptError
			require.ErrorAs(t, err, &bad)
			require.ErrorIs(t, err, ErrPrompt)
		}
		_, err = s.Generate(t.Context(), []int{1}, Options{Sampling: sample.Params{Temperature: -1}})
		require.ErrorIs(t, err, sample.ErrParams)
		for want, o := range map[string]Options{
			"MaxTokens -1 is negative": {MaxTokens: -1}, "PrefillStep -2 is negative": {PrefillStep: -2},
		} {
			_, err = s.Generate(t.Context(), []int{1}, o)
			require.ErrorIs(t, err, kompute.ErrInvalid)
			require.ErrorContains(t, err, want)
		}
		require.NoError(t, s.Close())
		require.NoError(t, m.Close())
	})
}

func TestEncode(t *testing.T) {
	f := openDemo(t)
	_, err := f.EncodeText(t.Context(), "")
	require.ErrorIs(t, err, ErrPrompt)
	_, err = f.EncodeChat(t.Context(), nil)
	require.ErrorIs(t, err, ErrPrompt)
	_, err = f.EncodeChat(t.Context(), Turn("be brief", ""))
	require.ErrorIs(t, err, ErrPrompt)
	_, err = f.EncodeText(t.Context(), "a\xffb")
	require.ErrorIs(t, err, tokenizer.ErrEncoding)
	_, err = f.EncodeChat(t.Context(), Turn("", "a\xffb"))
	require.Error(t, err)
	_, err = f.EncodeText(t.Context(), strings.Repeat("x", 100<<20))
	require.ErrorIs(t, err, ErrPrompt)
	require.ErrorContains(t, err, "104857600 bytes exceed what the model's context of")
	_, err = f.EncodeChat(t.Context(), Turn("", strings.Repeat("x", 100<<20)))
	require.ErrorIs(t, err, ErrPrompt)
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = f.EncodeText(cancelled, "hi")
	require.ErrorIs(t, err, context.Canceled)
	_, err = f.EncodeChat(cancelled, Turn("", "hi"))
	require.ErrorIs(t, err, context.Canceled)
	ids, err := f.EncodeChat(t.Context(), Turn("be brief", "hi"))
	require.NoError(t, err)
	require.NoError(t, f.CheckPrompt(ids))
	require.ErrorIs(t, f.CheckPrompt(slices.Repeat(ids, 1000)), ErrPrompt)
	quick, err := f.EncodeChatWith(t.Context(), Turn("be brief", "hi"), chat.Options{Variables: map[string]any{"enable_thinking": false}})
	require.NoError(t, err)
	require.Equal(t, "<think>\n\n</think>\n\n", f.Tokenizer.Decode(quick[len(ids):], tokenizer.KeepSpecial))
	_, err = f.EncodeChatWith(t.Context(), []chat.Message{{Role: "tool", Extra: map[string]any{"tool_call_id": "1"}}}, chat.Options{})
	require.NoError(t, err)
	plain := *f
	plain.Template = nil
	_, err = plain.EncodeChat(t.Context(), Turn("", "hi"))
	require.ErrorIs(t, err, ErrPrompt)
}
