package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/internal/testmodel"
	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/checkpoint"
	"github.com/kompute-go/kompute-go/llm/demomodel"
	"github.com/kompute-go/kompute-go/llm/engine"
	"github.com/kompute-go/kompute-go/llm/generate"
	"github.com/kompute-go/kompute-go/llm/grammar"
	"github.com/kompute-go/kompute-go/llm/model"
	"github.com/kompute-go/kompute-go/llm/sample"
)

// demo is the demo model on one device.
type demo struct {
	*testing.T
	folder *generate.Folder
	model  model.Model
}

func eachDemo(t *testing.T, fn func(d demo), opts ...kompute.Option) {
	t.Helper()
	folder, err := generate.OpenFS(demomodel.FS(), demomodel.Name)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, folder.Close()) })
	eachModel(t, folder, folder.Checkpoint, fn, opts...)
}

// eachSmall gives the demo model's tokenizer a small random model instead, which is
// quick on every device.
func eachSmall(t *testing.T, fn func(d demo), opts ...kompute.Option) {
	t.Helper()
	folder, err := generate.OpenFS(demomodel.FS(), demomodel.Name)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, folder.Close()) })
	c, _ := testmodel.Small().Open(t)
	eachModel(t, folder, c, fn, opts...)
}

func eachModel(t *testing.T, folder *generate.Folder, c *checkpoint.Checkpoint, fn func(d demo), opts ...kompute.Option) {
	t.Helper()
	testmodel.EachDevice(t, func(t *testing.T, dev *kompute.Device) {
		m, err := model.Load(t.Context(), dev, c, model.Options{})
		require.NoError(t, err)
		defer func() { require.NoError(t, m.Close()) }()
		fn(demo{t, folder, m})
	}, opts...)
}

func (d demo) engine(c engine.Config) *engine.Engine {
	d.Helper()
	e, err := engine.New(d.model, d.folder.Tokenizer, c)
	require.NoError(d, err)
	return e
}

func (d demo) close(e *engine.Engine) {
	d.Helper()
	require.NoError(d, e.Close(d.Context()))
	require.NoError(d, e.Close(d.Context()))
}

// Many simultaneous requests get the same tokens as each of them alone from
// another implementation.
func TestGoldensTogether(t *testing.T) {
	cases, _ := testmodel.Goldens(t)
	eachDemo(t, func(d demo) {
		e := d.engine(engine.Config{Sequences: 4, Context: 256, PageTokens: 4, ChunkTokens: 24})
		defer d.close(e)
		d.together(e, append(cases[:len(cases):len(cases)], cases[0]))
		require.Positive(d, e.Stats().SharedTokens, "prompts begin alike, and the last one is the first one")
		whole := d.engine(engine.Config{Sequences: 1, Context: 256, PageTokens: 256, ChunkTokens: 24}) // in one page
		defer d.close(whole)
		d.together(whole, cases[:1])
	})
}

// together submits all cases before it waits for their results.
func (d demo) together(e *engine.Engine, cases []testmodel.Case) {
	d.Helper()
	var streams []*engine.Stream
	for _, c := range cases {
		s, err := e.Submit(d.Context(), engine.Request{Prompt: c.PromptIDs, MaxTokens: len(c.GeneratedIDs), EOS: d.folder.EOS()})
		require.NoError(d, err)
		streams = append(streams, s)
	}
	for i, s := range streams {
		got, err := s.Result(d.Context())
		require.NoError(d, err)
		require.Equal(d, cases[i].GeneratedIDs, got.IDs, "case %d", i)
	}
	require.Equal(d, e.Stats().Pages, e.Stats().FreePages)
}

// The engine draws the same tokens as a session.
func TestLikeASession(t *testing.T) {
	eachDemo(t, func(d demo) {
		prompt, err := d.folder.EncodeChat(d.Context(), generate.Turn("", "Tell me a story about a fox."))
		require.NoError(d, err)
		p := sample.Params{Temperature: 0.8, TopP: 0.9, Seed: 3}
		session, err := generate.NewSession(d.model, d.folder.Tokenizer, 256)
		require.NoError(d, err)
		defer session.Close()
		want, err := session.Generate(d.Context(), prompt, generate.Options{MaxTokens: 30, Sampling: p, EOS: d.folder.EOS()})
		require.NoError(d, err)
		e := d.engine(engine.Config{Sequences: 2})
		defer d.close(e)
		began := time.Now()
		s, err := e.Submit(d.Context(), engine.Request{Prompt: prompt, MaxTokens: 30, Sampling: p, EOS: d.folder.EOS()})
		require.NoError(d, err)
		text := ""
		for token, err := range s.Tokens() {
			require.NoError(d, err)
			text += token.Text
		}
		got, err := s.Result(d.Context())
		require.NoError(d, err)
		require.Equal(d, want, got)
		require.Equal(d, want.Text, text)
		n, first, last := s.Times()
		require.Equal(d, len(want.IDs), n)
		require.True(d, began.Before(first) && first.Before(last))
		// Again, up to one of its words.
		stop := want.Text[len(want.Text)/2 : len(want.Text)/2+3]
		s, err = e.Submit(d.Context(), engine.Request{Prompt: prompt, MaxTokens: 30, Sampling: p, Stop: []string{stop}})
		require.NoError(d, err)
		got, err = s.Result(d.Context())
		require.NoError(d, err)
		require.Equal(d, generate.FinishStop, got.Finish)
		require.Equal(d, want.Text[:len(got.Text)], got.Text)
		require.NotContains(d, got.Text, stop)
		d.requirePenaltiesAlike(e, session, prompt)
	})
}

// requirePenaltiesAlike checks that a session applies penalties as an engine does: op by op and in regions, greedily
// and not, and after other answers.
func (d demo) requirePenaltiesAlike(e *engine.Engine, session *generate.Session, prompt []int) {
	d.Helper()
	var before []int
	for i, p := range []sample.Penalties{{Repetition: 5}, {Presence: 9, Frequency: 0.5}, {}, {Repetition: 1.5, Frequency: -0.5}} {
		sampling := sample.Params{Temperature: float64(i%2) * 0.7, Seed: 5}
		s, err := e.Submit(d.Context(), engine.Request{
			Prompt: prompt, MaxTokens: 40, Sampling: sampling,
			RepetitionPenalty: p.Repetition, PresencePenalty: p.Presence, FrequencyPenalty: p.Frequency,
		})
		require.NoError(d, err)
		want, err := s.Result(d.Context())
		require.NoError(d, err)
		for _, eager := range []bool{false, true, false} {
			got, err := session.Generate(d.Context(), prompt, generate.Options{MaxTokens: 40, Sampling: sampling, Penalties: p, Eager: eager})
			require.NoError(d, err)
			require.Equal(d, want, got, "%+v", p)
		}
		require.NotEqual(d, before, want.IDs)
		before = want.IDs
	}
	_, err := session.Generate(d.Context(), prompt, generate.Options{Penalties: sample.Penalties{Repetition: -1}})
	require.ErrorIs(d, err, kompute.ErrInvalid)
}

// cpuDemo is the demo model on the CPU backend.
func cpuDemo(t *testing.T) demo {
	t.Helper()
	folder, err := generate.OpenFS(demomodel.FS(), demomodel.Name)
	require.NoError(t, err)
	dev, err := kompute.Open("cpu")
	require.NoError(t, err)
	m, err := folder.Load(t.Context(), dev, model.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, errors.Join(m.Close(), dev.Close(), folder.Close())) })
	return demo{t, folder, m}
}

func TestRefusals(t *testing.T) {
	d := cpuDemo(t)
	for want, c := range map[string]engine.Config{
		"Sequences is -1": {Sequences: -1}, "Sequences is 16385, not from 0 to 16384": {Sequences: 1<<14 + 1},
		"Context 1073741824 exceeds": {Context: 1 << 30}, "Context is -1": {Context: -1}, "Draft is -1": {Draft: -1},
		"CacheTokens 32 is less": {Context: 64, CacheTokens: 32}, "CacheTokens is": {CacheTokens: math.MaxInt32},
		"ChunkTokens is": {ChunkTokens: math.MaxInt}, "PageTokens is": {PageTokens: math.MaxInt}, "Queue is": {Queue: math.MaxInt},
	} {
		_, err := engine.New(d.model, d.folder.Tokenizer, c)
		require.ErrorIs(d, err, kompute.ErrInvalid, want)
		require.ErrorContains(d, err, want)
	}
	_, err := engine.New(nil, d.folder.Tokenizer, engine.Config{})
	require.ErrorIs(d, err, kompute.ErrInvalid)
	e := d.engine(engine.Config{Sequences: 1, Context: 64, Queue: 1})
	for want, r := range map[error][]engine.Request{
		generate.ErrPrompt: {{}, {Prompt: make([]int, 65)}, {Prompt: []int{-1}}, {Prompt: []int{1 << 30}}},
		kompute.ErrInvalid: {
			{Prompt: []int{1}, MaxTokens: -1}, {Prompt: []int{1}, Stop: []string{""}}, {Prompt: []int{1}, MinTokens: -1},
			{Prompt: []int{1}, MaxTokens: 2, MinTokens: 3}, {Prompt: []int{1}, RepetitionPenalty: -1}, {Prompt: []int{1}, PresencePenalty: math.NaN()},
			{Prompt: []int{1}, RepetitionPenalty: 1e-50}, {Prompt: []int{1}, PresencePenalty: -1e39}, {Prompt: []int{1}, LogitBias: map[int]float64{1: 1e39}},
			{Prompt: []int{1}, FrequencyPenalty: math.Inf(1)}, {Prompt: []int{1}, LogitBias: map[int]float64{-1: 1}},
			{Prompt: []int{1}, LogitBias: map[int]float64{1: math.Inf(1)}}, {Prompt: []int{1}, TopLogprobs: 1},
			{Prompt: []int{1}, Logprobs: true, TopLogprobs: engine.MaxTopLogprobs + 1}, {Prompt: []int{1}, LogprobsOf: []int{1}},
			{Prompt: []int{1}, Logprobs: true, LogprobsOf: []int{-1}}, {Prompt: []int{1}, Logprobs: true, LogprobsOf: make([]int, engine.MaxTopLogprobs+1)},
		},
		sample.ErrParams: {{Prompt: []int{1}, Sampling: sample.Params{Temperature: -1}}},
	} {
		for _, q := range r {
			_, err := e.Submit(d.Context(), q)
			require.ErrorIs(d, err, want, fmt.Sprintf("%+v", q))
		}
	}
	cancelled, cancel := context.WithCancel(d.Context())
	cancel()
	_, err = e.Submit(cancelled, engine.Request{Prompt: []int{1}})
	require.ErrorIs(d, err, context.Canceled)
	// More than one runs and one waits.
	var streams []*engine.Stream
	for err = nil; err == nil; {
		var s *engine.Stream
		if s, err = e.Submit(d.Context(), engine.Request{Prompt: []int{11, 12}, MaxTokens: 60}); err == nil {
			streams = append(streams, s)
		}
	}
	require.ErrorIs(d, err, engine.ErrBusy)
	// Closing waits until accepted requests are answered, and accepts no more.
	closed := make(chan error)
	go func() { closed <- e.Close(d.Context()) }()
	for _, s := range streams {
		got, err := s.Result(d.Context())
		require.NoError(d, err)
		require.Len(d, got.IDs, 60)
	}
	require.NoError(d, <-closed)
	_, err = e.Submit(d.Context(), engine.Request{Prompt: []int{1}})
	require.ErrorIs(d, err, kompute.ErrClosed)
	var none *engine.Engine
	require.NoError(d, none.Close(d.Context()))
	require.Zero(d, none.Stats())
	_, err = none.Submit(d.Context(), engine.Request{Prompt: []int{1}})
	require.ErrorIs(d, err, kompute.ErrClosed)
}

// As many requests as can run are accepted besides those that may wait, even if none of
// them runs yet.
func TestQueueBesidesPlaces(t *testing.T) {
	const sequences, queue = 5, 2
	d := cpuDemo(t)
	e := d.engine(engine.Config{Sequences: sequences, Context: 64, Queue: queue})
	// While one request holds up its step, no other is let run.
	held, release := make(chan struct{}), make(chan struct{})
	hold := func([]int32, []float32) error {
		close(held)
		<-release
		return nil
	}
	ask := func(r engine.Request) error {
		_, err := e.Submit(d.Context(), r)
		return err
	}
	require.NoError(d, ask(engine.Request{Prompt: []int{1}, MaxTokens: 1, Logits: hold}))
	<-held
	for range sequences - 1 + queue {
		require.NoError(d, ask(engine.Request{Prompt: []int{1}, MaxTokens: 1}))
	}
	require.ErrorIs(d, ask(engine.Request{Prompt: []int{1}, MaxTokens: 1}), engine.ErrBusy)
	close(release)
	d.close(e)
}

// A deadline for closing cancels the remaining requests.
func TestCloseInTime(t *testing.T) {
	d := cpuDemo(t)
	e := d.engine(engine.Config{Sequences: 1})
	s, err := e.Submit(d.Context(), engine.Request{Prompt: []int{11, 12}, MaxTokens: 1 << 20})
	require.NoError(d, err)
	ctx, cancel := context.WithCancel(d.Context())
	cancel()
	require.ErrorIs(d, e.Close(ctx), context.Canceled)
	got, err := s.Result(d.Context())
	require.ErrorIs(d, err, kompute.ErrClosed)
	require.Equal(d, generate.FinishCancelled, got.Finish)
	for range 20 {
		require.NoError(d, e.Close(ctx), "nothing is left to wait for")
	}
}

// Leaving the loop over the tokens cancels the request.
func TestLeavingTheLoop(t *testing.T) {
	d := cpuDemo(t)
	e := d.engine(engine.Config{})
	defer d.close(e)
	s, err := e.Submit(d.Context(), engine.Request{Prompt: []int{11, 12}, MaxTokens: 1 << 20})
	require.NoError(d, err)
	for _, err := range s.Tokens() {
		require.NoError(d, err)
		break
	}
	got, err := s.Result(d.Context())
	require.ErrorIs(d, err, context.Canceled)
	require.NotEmpty(d, got.IDs)
}

// An answer follows its grammar from the point where that begins, and ends with it.
func TestGrammar(t *testing.T) {
	d := cpuDemo(t)
	v := grammar.NewVocabulary(d.folder.Tokenizer, d.folder.Limits().Vocabulary)
	g, err := grammar.Compile([]byte(`{"type": "object", "properties": {"name": {"type": "string", "maxLength": 8}, "age": {"type": "integer"}}, "required": ["name", "age"]}`), v, grammar.Options{})
	require.NoError(t, err)
	e := d.engine(engine.Config{Sequences: 4, Context: 256})
	defer d.close(e)
	prompt, err := d.folder.EncodeChat(t.Context(), generate.Turn("", "Who are you?"))
	require.NoError(t, err)
	parse := func(text string) {
		t.Helper()
		var got struct {
			Name *string
			Age  *json.Number
		}
		require.NoError(t, json.Unmarshal([]byte(text), &got), text)
		require.NotNil(t, got.Name, text)
		require.NotNil(t, got.Age, text)
	}
	for seed := range uint64(4) {
		s, err := e.Submit(t.Context(), engine.Request{
			Prompt: prompt, MaxTokens: 200, Grammar: g, EOS: d.folder.EOS(), Sampling: sample.Params{Temperature: 1.5, Seed: seed},
		})
		require.NoError(t, err)
		got, err := s.Result(t.Context())
		require.NoError(t, err)
		require.Equal(t, generate.FinishStop, got.Finish)
		parse(got.Text)
	}
	s, err := e.Submit(t.Context(), engine.Request{Prompt: prompt, MaxTokens: 200, Grammar: g, GrammarAfter: "</think>"})
	require.NoError(t, err)
	got, err := s.Result(t.Context())
	require.NoError(t, err)
	before, after, found := strings.Cut(got.Text, "</think>")
	require.True(t, found)
	require.Contains(t, before, "<think>")
	parse(after)
	_, err = e.Submit(t.Context(), engine.Request{Prompt: prompt, GrammarTrigger: "x"})
	require.ErrorIs(t, err, kompute.ErrInvalid)
	_, err = e.Submit(t.Context(), engine.Request{Prompt: prompt, GrammarAfter: "x"})
	require.ErrorIs(t, err, kompute.ErrInvalid)
	other, err := grammar.Compile([]byte("true"), grammar.NewVocabulary(d.folder.Tokenizer, 10), grammar.Options{})
	require.NoError(t, err)
	_, err = e.Submit(t.Context(), engine.Request{Prompt: prompt, Grammar: other})
	require.ErrorIs(t, err, kompute.ErrInvalid)
}

// A profile of an idle engine contains the steps that it has run, and does not change
// later answers that reuse earlier pages.
func TestProfile(t *testing.T) {
	eachSmall(t, func(d demo) {
		e := d.engine(engine.Config{Sequences: 2, Context: 64, PageTokens: 4})
		answer := func() []int {
			s, err := e.Submit(d.Context(), engine.Request{Prompt: []int{5, 6, 7, 8, 9, 10, 11, 12, 13}, MaxTokens: 6})
			require.NoError(d, err)
			got, err := s.Result(d.Context())
			require.NoError(d, err)
			return got.IDs
		}
		want := answer()
		profiles, err := e.Profile(d.Context(), 1)
		require.NoError(d, err)
		require.NotEmpty(d, profiles)
		require.Equal(d, 1, profiles[0].Rows)
		require.NotEmpty(d, profiles[0].Dispatches)
		require.Equal(d, want, answer())
		require.NotZero(d, e.Stats().SharedTokens)
		d.close(e)
		_, err = e.Profile(d.Context(), 1)
		require.ErrorIs(d, err, kompute.ErrClosed)
	})
}
