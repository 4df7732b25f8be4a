package generate

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/testmodel"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/demomodel"
	"github.com/kompute-go/kompute-go/llm/model"
	"github.com/kompute-go/kompute-go/llm/tokenizer"
)

// A cancelled generation returns the result so far and the context's error, and
// the session remains usable.
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
		before := d.Stats().LiveTensors
		for _, eager := range []bool{false, true} {
			require.PanicsWithValue(t, full, func() {
				for range s.Tokens(t.Context(), cases[0].PromptIDs, Options{Eager: eager}) {
					panic(full)
				}
			})
			require.Equal(t, before, d.Stats().LiveTensors)
			require.Len(t, s.seen, s.state.Len())
		}
		r, err = s.Generate(t.Context(), cases[0].PromptIDs, Options{MaxTokens: 3})
		require.NoError(t, err)
		require.Equal(t, cases[0].GeneratedIDs[:3], r.IDs)
	})
}

// Tokens yields one by one the tokens that Generate returns at once.
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
			for _, err := range s.Tokens(t.Context(), c.PromptIDs, Options{MaxTokens: 2}) { // not inside the loop
				require.NoError(t, err)
				_, err = s.Generate(t.Context(), c.PromptIDs, Options{})
				require.ErrorIs(t, err, kompute.ErrInvalid)
				require.ErrorIs(t, s.Close(), kompute.ErrInvalid)
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

// Nil, zero and closed values return errors and do not panic.
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
		_, err = f.EncodeText(t.Context(), "hi")
		require.Error(t, err)
		_, err = f.EncodeChat(t.Context(), Turn("", "hi"))
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

// A stop string ends a session's text before it, and text that was held back is not lost.
func TestStopStrings(t *testing.T) {
	f, err := OpenFS(demomodel.FS(), demomodel.Name)
	require.NoError(t, err)
	defer f.Close()
	d, err := kompute.Open("cpu")
	require.NoError(t, err)
	defer d.Close()
	m, err := f.Load(t.Context(), d, model.Options{})
	require.NoError(t, err)
	defer m.Close()
	s, err := NewSession(m, f.Tokenizer, 64)
	require.NoError(t, err)
	defer s.Close()
	cases, _ := testmodel.Goldens(t)
	prompt := cases[0].PromptIDs
	whole, err := s.Generate(t.Context(), prompt, Options{EOS: f.EOS()})
	require.NoError(t, err)
	const stop = "tiny language"
	before, _, found := strings.Cut(whole.Text, stop)
	require.True(t, found)
	text := ""
	got, err := s.Generate(t.Context(), prompt, Options{EOS: f.EOS(), Stop: []string{"nowhere", stop}, OnText: func(more string) error { text += more; return nil }})
	require.NoError(t, err)
	require.Equal(t, []string{before, before, FinishStop}, []string{got.Text, text, got.Finish})
	// The longest end of the text that may be the beginning of one.
	n := 0
	for n < len(whole.IDs) && !strings.HasSuffix(f.Tokenizer.Decode(whole.IDs[:n], tokenizer.SkipSpecial), "tiny") {
		n++
	}
	got, err = s.Generate(t.Context(), prompt, Options{MaxTokens: n, Stop: []string{stop}})
	require.NoError(t, err)
	require.Equal(t, before+"tiny", got.Text)
	// A stop string that appears within what may be the beginning of another one, at the end.
	for !strings.HasSuffix(f.Tokenizer.Decode(whole.IDs[:n], tokenizer.SkipSpecial), stop) {
		n++
	}
	got, err = s.Generate(t.Context(), prompt, Options{MaxTokens: n, Stop: []string{stop + "!", "lang"}})
	require.NoError(t, err)
	require.Equal(t, []string{before + "tiny ", FinishStop}, []string{got.Text, got.Finish})
	require.Len(t, got.IDs, n)
	_, err = s.Generate(t.Context(), prompt, Options{Stop: []string{""}})
	require.ErrorIs(t, err, kompute.ErrInvalid)
}

// broken is a source that fails when it starts on what follows its last token.
type broken struct {
	ids   []int
	cause error
}

func (b *broken) next(context.Context) (id int, err error) {
	id, b.ids = b.ids[0], b.ids[1:]
	return id, nil
}

func (b *broken) ahead() error {
	if len(b.ids) == 0 {
		return b.cause
	}
	return nil
}

func (b *broken) close() error { return nil }

// A token that is known when the device fails is passed on, with its text.
func TestTokenBeforeAFailure(t *testing.T) {
	cases, _ := testmodel.Goldens(t)
	ids := cases[0].GeneratedIDs[:5]
	f := openDemo(t)
	d, err := kompute.Open("cpu")
	require.NoError(t, err)
	defer d.Close()
	withSession(t, f, d, model.Options{}, func(s *Session) {
		said, cause := "", errors.New("made up")
		var passed []int
		g := &generation{
			Session: s, answer: NewAnswer(s.tokenizer, nil, 10, nil), limit: 10, meter: s.newMeter(),
			options: &Options{OnText: func(text string) error { said += text; return nil }},
			onToken: func(token Token) error { passed = append(passed, token.ID); return nil },
		}
		require.ErrorIs(t, g.decode(t.Context(), &broken{ids, cause}), cause)
		require.Equal(t, ids, g.ids)
		require.Equal(t, ids, passed)
		require.Equal(t, s.tokenizer.Decode(ids, tokenizer.SkipSpecial), said)
		require.Equal(t, said, g.all.String())
	})
}
