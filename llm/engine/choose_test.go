package engine

import (
	"errors"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/sample"
)

// Processors change logits as their fields document, at whatever point of a
// sequence they begin.
func TestProcessors(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const vocabulary = 6
		tokens := rapid.SliceOfN(rapid.Int32Range(0, vocabulary-1), 1, 8).Draw(t, "tokens")
		r := Request{
			RepetitionPenalty: rapid.Float64Range(0.5, 2).Draw(t, "repetition"),
			PresencePenalty:   rapid.Float64Range(-1, 1).Draw(t, "presence"),
			FrequencyPenalty:  rapid.Float64Range(-1, 1).Draw(t, "frequency"),
			LogitBias:         map[int]float64{2: rapid.Float64Range(-3, 3).Draw(t, "bias")},
			MinTokens:         rapid.IntRange(0, 4).Draw(t, "least"),
			EOS:               []int{1, -1, vocabulary},
		}
		q := &sequence{tokens: tokens, prompt: rapid.IntRange(1, len(tokens)).Draw(t, "prompt"), request: &r}
		for _, id := range tokens[:q.prompt] {
			r.Prompt = append(r.Prompt, int(id))
		}
		logits := rapid.SliceOfN(rapid.Float32Range(-4, 4), vocabulary, vocabulary).Draw(t, "logits")
		got := slices.Clone(logits)
		r.Logits = func([]int32, []float32) error { return nil }
		for _, p := range newChooser(&r, newPenalties(&r), newGuide(&r, vocabulary, nil)).processors {
			require.NoError(t, p(q, got))
		}
		for id, v := range logits {
			want, count := float64(v), 0
			if slices.Contains(tokens, int32(id)) {
				want = max(want, 0)/float64(float32(r.RepetitionPenalty)) + min(want, 0)*float64(float32(r.RepetitionPenalty))
			}
			for _, other := range tokens[q.prompt:] {
				if other == int32(id) {
					count++
				}
			}
			if count > 0 {
				want -= r.PresencePenalty + r.FrequencyPenalty*float64(count)
			}
			want += r.LogitBias[id]
			if id == 1 && q.generated() < r.MinTokens {
				want = math.Inf(-1)
			}
			require.InDelta(t, want, float64(got[id]), 1e-5, "token %d", id)
		}
	})
}

// The hook for logits sees what all fields above it have done, and may undo it.
func TestTheHookComesAfterTheFieldsAbove(t *testing.T) {
	never := float32(math.Inf(-1))
	r := Request{EOS: []int{1}, MinTokens: 2, LogitBias: map[int]float64{0: 3}, Logits: func(tokens []int32, logits []float32) error {
		require.Equal(t, []int32{7}, tokens)
		require.Equal(t, []float32{4, never, 1}, logits)
		logits[1] = 5
		return nil
	}}
	id, err := newChooser(&r, newPenalties(&r), newGuide(&r, 10, nil)).choose(&sequence{request: &r, tokens: []int32{7}, prompt: 1}, []float32{1, 9, 1})
	require.NoError(t, err)
	require.EqualValues(t, 1, id)
}

// Log-probabilities are those of the unchanged logits, and the likeliest tokens
// are in order, with the lower ID first among equals.
func TestLogprobs(t *testing.T) {
	r := Request{
		Logprobs: true, TopLogprobs: 3, LogprobsOf: []int{2, 0}, LogitBias: map[int]float64{4: 100},
		Logits: func([]int32, []float32) error { return nil },
	}
	logits := []float32{1, 3, 2, 3, -1}
	var got choice
	(&piece{sequence: &sequence{request: &r, chooser: newChooser(&r, nil, nil)}}).complete(&got, logits)
	require.NoError(t, got.err)
	require.EqualValues(t, 4, got.id, "the bias decides")
	about := got.about
	require.Equal(t, 4, about.ID)
	sum := 0.0
	for _, v := range logits {
		sum += math.Exp(float64(v))
	}
	require.InDelta(t, -1-math.Log(sum), about.Value, 1e-6)
	var ids []int
	for _, l := range about.Top {
		ids = append(ids, l.ID)
		require.InDelta(t, float64(logits[l.ID])-math.Log(sum), l.Value, 1e-6)
	}
	require.Equal(t, []int{1, 3, 2}, ids)
	require.Equal(t, []int{2, 0}, []int{about.Of[0].ID, about.Of[1].ID})
	require.InDelta(t, 2-math.Log(sum), about.Of[0].Value, 1e-6)
	require.InDelta(t, 1-math.Log(sum), about.Of[1].Value, 1e-6)
}

// Logits that nothing can be chosen from are an error, and so are an error and a panic of a hook.
func TestChoiceFails(t *testing.T) {
	own := errors.New("own")
	r := Request{Logits: func([]int32, []float32) error { return own }}
	_, err := newChooser(&r, nil, nil).choose(&sequence{request: &r}, []float32{1, 2})
	require.ErrorIs(t, err, own)
	r = Request{Logits: func([]int32, []float32) error { panic(own) }}
	_, err = newChooser(&r, nil, nil).choose(&sequence{request: &r}, []float32{1, 2})
	require.ErrorIs(t, err, ErrLogitsPanic)
	require.ErrorContains(t, err, "own")
	r = Request{LogitBias: map[int]float64{0: math.Inf(-1), 1: math.Inf(-1)}, Logits: func([]int32, []float32) error { return nil }}
	_, err = newChooser(&r, nil, nil).choose(&sequence{request: &r}, []float32{1, 2})
	require.ErrorIs(t, err, sample.ErrLogits)
	r = Request{EOS: []int{1}, RepetitionPenalty: 1.5, MinTokens: 2, LogitBias: map[int]float64{1: 2}, Logprobs: true}
	require.Nil(t, newChooser(&r, newPenalties(&r), newGuide(&r, 10, nil)), "the device can choose")
}

// A hook that ends its goroutine, as FailNow of a test does, has chosen no token.
func TestHookEndsItsGoroutine(t *testing.T) {
	r := Request{Logits: func([]int32, []float32) error { runtime.Goexit(); return nil }}
	q := &sequence{request: &r, chooser: newChooser(&r, nil, nil)}
	d, err := kompute.Open("cpu")
	require.NoError(t, err)
	defer d.Close()
	logits, err := kompute.NewMapped[float32](d, 1, 2)
	require.NoError(t, err)
	defer logits.Close()
	f := &pendingStep{pieces: []piece{{sequence: q, chosen: 1}}, onHost: 1, tokens: []uint32{0}}
	all, err := look(f, logits, 2)
	require.NoError(t, err)
	require.ErrorIs(t, all[0].err, errNotChosen)
	// Logits that cannot be read are no choice of a request, but a step that has failed.
	require.NoError(t, logits.Close())
	all, err = look(f, logits, 2)
	require.ErrorIs(t, err, kompute.ErrClosed)
	require.NoError(t, all[0].err)
}

// BenchmarkLook measures what the host does with a row of logits of a large vocabulary.
func BenchmarkLook(b *testing.B) {
	logits := make([]float32, 151936)
	for i := range logits {
		logits[i] = float32(rand.NormFloat64() * 3)
	}
	tokens := make([]int32, 500)
	for i := range tokens {
		tokens[i] = int32(rand.IntN(len(logits)))
	}
	hook := func([]int32, []float32) error { return nil }
	for name, r := range map[string]Request{
		"logits greedy": {Logits: hook, RepetitionPenalty: 1.1},
		"logits topk":   {Logits: hook, RepetitionPenalty: 1.1, Sampling: sample.Params{Temperature: 0.7, TopP: 0.8, TopK: 20}},
		"logits temp":   {Logits: hook, RepetitionPenalty: 1.1, Sampling: sample.Params{Temperature: 0.7}},
		"logprobs":      {Logprobs: true},
		"logprobs 5":    {Logprobs: true, TopLogprobs: 5},
	} {
		b.Run(name, func(b *testing.B) {
			r.Prompt = make([]int, 100)
			q := &sequence{request: &r, tokens: tokens, prompt: len(r.Prompt), chooser: newChooser(&r, newPenalties(&r), nil)}
			p := &piece{sequence: q}
			for b.Loop() {
				var c choice
				if p.complete(&c, logits); c.err != nil {
					b.Fatal(c.err)
				}
			}
		})
	}
}
