package engine

import (
	"math/rand/v2"
	"testing"

	"github.com/kompute-go/kompute-go/llm/sample"
)

func BenchmarkChoose(b *testing.B) {
	logits := make([]float32, 151936)
	for i := range logits {
		logits[i] = float32(rand.NormFloat64() * 3)
	}
	tokens := make([]int32, 500)
	for i := range tokens {
		tokens[i] = int32(rand.IntN(len(logits)))
	}
	for name, r := range map[string]Request{
		"greedy":          {RepetitionPenalty: 1.1},
		"topk":            {RepetitionPenalty: 1.1, Sampling: sample.Params{Temperature: 0.7, TopP: 0.8, TopK: 20}},
		"logprobs greedy": {Logprobs: true},
		"logprobs 5 topk": {Logprobs: true, TopLogprobs: 5, Sampling: sample.Params{Temperature: 0.7, TopP: 0.8, TopK: 20}},
		"temp":            {RepetitionPenalty: 1.1, Sampling: sample.Params{Temperature: 0.7}},
	} {
		b.Run(name, func(b *testing.B) {
			c := newChooser(&r, nil)
			q := &sequence{request: &r, tokens: tokens, prompt: 100}
			for b.Loop() {
				if _, _, err := c.choose(q, logits); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
