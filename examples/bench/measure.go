package main

import (
	"context"
	"math/rand/v2"
	"slices"

	"github.com/kompute-go/kompute-go/generate"
	"github.com/kompute-go/kompute-go/model"
)

// test is one measurement: tokens read at once (prompt) or made one by one.
type test struct {
	Name   string `json:"name"` // pp512, tg128, as llama-bench names them
	Tokens int    `json:"tokens"`
	Depth  int    `json:"depth"` // tokens in the cache before
	prompt bool
}

// row is the result of a test.
type row struct {
	test
	Median   float64       `json:"tokens_per_second"`
	Low      float64       `json:"low"`
	High     float64       `json:"high"`
	PerToken perToken      `json:"per_token"`
	Work     generate.Work `json:"-"`
}

// perToken is what the stream did for each token of a tg test.
type perToken struct {
	Dispatches       float64 `json:"dispatches"`
	Barriers         float64 `json:"barriers"`
	Submits          float64 `json:"submits"`
	DescriptorWrites float64 `json:"descriptor_writes"`
	RecordedCommands float64 `json:"recorded_commands"`
	HostNanos        float64 `json:"host_ns"`
}

// bench runs tests on one model.
type bench struct {
	folder  *generate.Folder
	model   model.Model
	options generate.Options
	reps    int
	rng     *rand.Rand
}

// run measures a test: one repetition that does not count, then reps that do.
func (b *bench) run(ctx context.Context, t test) (row, error) {
	r := row{test: t}
	var rates []float64
	for i := range b.reps + 1 {
		result, err := b.once(ctx, t)
		if err != nil {
			return r, err
		}
		if i == 0 {
			continue
		}
		rate := result.DecodeRate()
		if t.prompt {
			rate = result.PromptRate()
		}
		rates = append(rates, rate)
		r.Work = result.Work
	}
	slices.Sort(rates)
	r.Low, r.Median, r.High = rates[0], rates[len(rates)/2], rates[len(rates)-1]
	r.PerToken = perTokenOf(r.Work)
	return r, nil
}

// once fills the cache to the test's depth and runs the test behind it.
func (b *bench) once(ctx context.Context, t test) (*generate.Result, error) {
	s, err := generate.NewSession(b.model, b.folder.Tokenizer, t.Depth+t.Tokens+1)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	o := b.options
	prompt := b.tokens(t.Depth)
	if t.Depth > 0 && t.prompt {
		o.MaxTokens = 1
		if _, err := s.Generate(ctx, prompt, o); err != nil {
			return nil, err
		}
	}
	if t.prompt {
		o.MaxTokens = 1
		return s.Generate(ctx, append(prompt, b.tokens(t.Tokens)...), o)
	}
	o.MaxTokens = t.Tokens + 1 // the first comes with the prompt
	if t.Depth == 0 {
		prompt = b.tokens(1)
	}
	return s.Generate(ctx, prompt, o)
}

// tokens returns n random tokens.
func (b *bench) tokens(n int) []int {
	ids := make([]int, n, n+1)
	for i := range ids {
		ids[i] = b.rng.IntN(b.model.Config().VocabSize)
	}
	return ids
}

func perTokenOf(w generate.Work) perToken {
	n := float64(max(w.Tokens, 1))
	return perToken{
		Dispatches: float64(w.Dispatches) / n, Barriers: float64(w.Barriers) / n, Submits: float64(w.Submits) / n,
		DescriptorWrites: float64(w.DescriptorWrites) / n, RecordedCommands: float64(w.RecordedCommands) / n,
		HostNanos: float64(w.HostNanos) / n,
	}
}
