package generate

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/array"
	"github.com/kompute-go/kompute-go/internal/testmodel"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/chat"
	"github.com/kompute-go/kompute-go/llm/checkpoint"
	"github.com/kompute-go/kompute-go/llm/model"
	"github.com/kompute-go/kompute-go/llm/models"
	"github.com/kompute-go/kompute-go/llm/sample"
	"github.com/kompute-go/kompute-go/llm/tokenizer"
)

func openDemo(t *testing.T) *Folder {
	t.Helper()
	f, err := OpenFS(models.Mote(), models.MoteName)
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

// Greedy output equals every golden, and no op leaves the device for it.
func TestGoldenGreedy(t *testing.T) {
	cases, _ := testmodel.Goldens(t)
	f := openDemo(t)
	testmodel.EachDevice(t, func(t *testing.T, d *kompute.Device) {
		withSession(t, f, d, model.Options{}, func(s *Session) {
			for _, c := range cases {
				prompt, err := f.EncodeChat(Turn("", c.Prompt))
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
	}, kompute.WithStrict())
}

// The most important cases hold in 16 bits as well: their margins are wide.
func TestGreedyNarrow(t *testing.T) {
	cases, _ := testmodel.Goldens(t)
	f := openDemo(t)
	testmodel.EachDevice(t, func(t *testing.T, d *kompute.Device) {
		for _, dtype := range []kompute.DType{array.Float16, array.BFloat16} {
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

// A prompt fed in steps of any size, and one that the cache holds in part, give
// the same tokens.
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

// The second turn of a conversation feeds only what is new, and gives what one
// long prompt gives.
func TestConversation(t *testing.T) {
	cases, _ := testmodel.Goldens(t)
	f := openDemo(t)
	testmodel.EachDevice(t, func(t *testing.T, d *kompute.Device) {
		withSession(t, f, d, model.Options{}, func(s *Session) {
			history := Turn("", cases[0].Prompt)
			first, err := f.EncodeChat(history)
			require.NoError(t, err)
			r, err := s.Generate(t.Context(), first, Options{EOS: f.EOS()})
			require.NoError(t, err)
			history = append(history, chat.Message{Role: "assistant", Content: r.Text}, chat.Message{Role: "user", Content: cases[2].Prompt})
			second, err := f.EncodeChat(history)
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

// A cancelled generation returns what it reached and the context's error, and the
// session works on.
func TestCancel(t *testing.T) {
	cases, _ := testmodel.Goldens(t)
	f := openDemo(t)
	testmodel.EachDevice(t, func(t *testing.T, d *kompute.Device) {
		withSession(t, f, d, model.Options{}, func(s *Session) {
			for _, eager := range []bool{false, true} {
				ctx, cancel := context.WithCancel(t.Context())
				n := 0
				r, err := s.Generate(ctx, cases[0].PromptIDs, Options{Eager: eager, OnText: func(string) error {
					if n++; n == 3 {
						cancel()
					}
					return nil
				}})
				require.ErrorIs(t, err, context.Canceled)
				require.Equal(t, FinishCancelled, r.Finish)
				require.GreaterOrEqual(t, len(r.IDs), 3)
				require.Equal(t, cases[0].GeneratedIDs[:len(r.IDs)], r.IDs)
				require.NotEmpty(t, r.Text)
				require.Equal(t, len(r.IDs)-1, s.Stats().Work.Tokens)

				r, err = s.Generate(ctx, cases[1].PromptIDs, Options{Eager: eager, PrefillStep: 2})
				require.ErrorIs(t, err, context.Canceled)
				require.Equal(t, &Result{Finish: FinishCancelled}, r)
				late, stop := context.WithTimeout(t.Context(), 0)
				r, err = s.Generate(late, cases[1].PromptIDs, Options{Eager: eager})
				stop()
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.Equal(t, FinishCancelled, r.Finish)

				r, err = s.Generate(t.Context(), cases[1].PromptIDs, Options{Eager: eager, EOS: f.EOS()})
				require.NoError(t, err)
				require.Equal(t, cases[1].GeneratedIDs, r.IDs, "the session works on after a cancelled one")
			}
		})
	})
}

func TestCallerStops(t *testing.T) {
	cases, _ := testmodel.Goldens(t)
	f := openDemo(t)
	d, err := kompute.Open("cpu")
	require.NoError(t, err)
	defer d.Close()
	full := errors.New("disk full")
	withSession(t, f, d, model.Options{}, func(s *Session) {
		r, err := s.Generate(t.Context(), cases[0].PromptIDs, Options{OnText: func(string) error { return full }})
		require.ErrorIs(t, err, full)
		require.Equal(t, FinishError, r.Finish)
		require.Equal(t, cases[0].GeneratedIDs[:1], r.IDs)
	})
}

// Tokens gives one by one what Generate gives at once.
func TestTokens(t *testing.T) {
	cases, _ := testmodel.Goldens(t)
	c := cases[0]
	f := openDemo(t)
	testmodel.EachDevice(t, func(t *testing.T, d *kompute.Device) {
		withSession(t, f, d, model.Options{}, func(s *Session) {
			want, err := s.Generate(t.Context(), c.PromptIDs, Options{EOS: f.EOS()})
			require.NoError(t, err)
			for _, o := range []Options{{EOS: f.EOS()}, {EOS: f.EOS(), Eager: true}, {MaxTokens: 3}} {
				var ids []int
				text, finish := "", ""
				for token, err := range s.Tokens(t.Context(), c.PromptIDs, o) {
					require.NoError(t, err)
					require.Empty(t, finish, "only the last token has it")
					ids, text, finish = append(ids, token.ID), text+token.Text, token.Finish
				}
				if o.MaxTokens == 0 {
					require.Equal(t, want, &Result{IDs: ids, Text: text, Finish: finish})
				} else {
					require.Equal(t, want.IDs[:3], ids)
					require.Equal(t, FinishLength, finish)
				}
			}
			for n := 1; n < 6; n++ { // leaving the loop
				var ids []int
				for token, err := range s.Tokens(t.Context(), c.PromptIDs, Options{EOS: f.EOS()}) {
					require.NoError(t, err)
					if ids = append(ids, token.ID); len(ids) == n {
						break
					}
				}
				require.Equal(t, c.GeneratedIDs[:n], ids)
				require.Len(t, s.seen, s.state.Len())
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var ids []int
			var last error
			for token, err := range s.Tokens(ctx, c.PromptIDs, Options{}) {
				if last = err; err == nil {
					ids = append(ids, token.ID)
					cancel()
				}
			}
			require.ErrorIs(t, last, context.Canceled)
			require.Equal(t, c.GeneratedIDs[:len(ids)], ids)
			for _, err := range s.Tokens(t.Context(), nil, Options{}) {
				require.ErrorIs(t, err, ErrPrompt)
			}
		})
	})
}

// What is nil, zero or closed gives errors and does not panic.
func TestNilAndClosed(t *testing.T) {
	f := openDemo(t)
	d, err := kompute.Open("cpu")
	require.NoError(t, err)
	defer d.Close()
	_, err = NewSession(nil, f.Tokenizer, 1)
	require.ErrorIs(t, err, kompute.ErrInvalid)
	m, err := f.Load(t.Context(), d, model.Options{})
	require.NoError(t, err)
	_, err = NewSession(m, nil, 1)
	require.ErrorIs(t, err, kompute.ErrInvalid)
	closed, err := NewSession(m, f.Tokenizer, 1)
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	for _, s := range []*Session{nil, {}, closed} {
		_, err := s.Generate(t.Context(), []int{1}, Options{})
		require.ErrorIs(t, err, kompute.ErrClosed)
		n := 0
		for _, err := range s.Tokens(t.Context(), []int{1}, Options{}) {
			require.ErrorIs(t, err, kompute.ErrClosed)
			n++
		}
		require.Equal(t, 1, n)
		require.Nil(t, s.Region())
		require.Nil(t, s.Stream())
		require.Zero(t, s.Stats())
		require.NoError(t, s.Close())
	}
	require.NoError(t, m.Close())
	require.NoError(t, m.Close())
	for _, f := range []*Folder{nil, {}} {
		_, err = f.EncodeText("hi")
		require.Error(t, err)
		_, err = f.EncodeChat(Turn("", "hi"))
		require.Error(t, err)
		require.Error(t, f.CheckPrompt([]int{1}))
		_, err = f.Load(t.Context(), d, model.Options{})
		require.Error(t, err)
		require.Empty(t, f.Name())
		require.Empty(t, f.EOS())
		require.Zero(t, f.Limits())
		require.NoError(t, f.Close())
	}
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
		_, err = s.Generate(t.Context(), []int{1}, Options{MaxTokens: -1})
		require.ErrorIs(t, err, kompute.ErrInvalid)
		require.NoError(t, s.Close())
		require.NoError(t, m.Close())
	})
}

func TestEncode(t *testing.T) {
	f := openDemo(t)
	_, err := f.EncodeText("")
	require.ErrorIs(t, err, ErrPrompt)
	_, err = f.EncodeChat(nil)
	require.ErrorIs(t, err, ErrPrompt)
	_, err = f.EncodeChat(Turn("be brief", ""))
	require.ErrorIs(t, err, ErrPrompt)
	_, err = f.EncodeText("a\xffb")
	require.ErrorIs(t, err, tokenizer.ErrEncoding)
	_, err = f.EncodeChat(Turn("", "a\xffb"))
	require.Error(t, err)
	ids, err := f.EncodeChat(Turn("be brief", "hi"))
	require.NoError(t, err)
	require.NoError(t, f.CheckPrompt(ids))
	require.ErrorIs(t, f.CheckPrompt(slices.Repeat(ids, 1000)), ErrPrompt)
	plain := *f
	plain.Template = nil
	_, err = plain.EncodeChat(Turn("", "hi"))
	require.ErrorIs(t, err, ErrPrompt)
}
