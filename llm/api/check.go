package api

import (
	"cmp"
	"fmt"
	"math"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/kompute-go/kompute-go/llm/engine"
)

// Limits of one request.
const (
	maxChoices = 32
	maxStops   = 16
	maxStop    = 1 << 10 // bytes of all of them
	maxBiases  = 1 << 10
	maxEnds    = 1 << 10 // tokens that end an answer
)

// check rejects values out of range and unsupported fields.
func (c *common) check(m *loaded) error {
	if unlimited(c.MaxTokens) {
		c.MaxTokens = new(math.MaxInt)
	}
	switch {
	case c.Model != "" && m.checkName(c.Model) != nil:
		return m.checkName(c.Model)
	case c.MaxTokens != nil && *c.MaxTokens < 1:
		return bad("max_tokens", "%d is less than 1", *c.MaxTokens)
	case c.N != nil && (*c.N < 1 || *c.N > maxChoices):
		return bad("n", "%d is not in [1, %d]", *c.N, maxChoices)
	case c.Temperature != nil && !(*c.Temperature >= 0 && *c.Temperature <= 100):
		return bad("temperature", "%v is not in [0, 100]", *c.Temperature)
	case c.TopP != nil && !(*c.TopP >= 0 && *c.TopP <= 1):
		return bad("top_p", "%v is not in [0, 1]", *c.TopP)
	case c.MinP != nil && !(*c.MinP >= 0 && *c.MinP <= 1):
		return bad("min_p", "%v is not in [0, 1]", *c.MinP)
	case c.TopK != nil && *c.TopK < -1:
		return bad("top_k", "%d is less than -1", *c.TopK)
	case len(c.Stop) > maxStops || len(strings.Join(c.Stop, "")) > maxStop:
		return bad("stop", "more than %d texts, or %d bytes", maxStops, maxStop)
	case !within(c.PresencePenalty, 2):
		return bad("presence_penalty", "%v is not in [-2, 2]", c.PresencePenalty)
	case !within(c.FrequencyPenalty, 2):
		return bad("frequency_penalty", "%v is not in [-2, 2]", c.FrequencyPenalty)
	case c.RepetitionPenalty != 0 && !(c.RepetitionPenalty >= 0.01 && c.RepetitionPenalty <= 100):
		return bad("repetition_penalty", "%v is not in [0.01, 100]", c.RepetitionPenalty)
	case c.RepeatPenalty != 0 && c.RepetitionPenalty != 0 && c.RepeatPenalty != c.RepetitionPenalty:
		return bad("repeat_penalty", "%v is not repetition_penalty, %v", c.RepeatPenalty, c.RepetitionPenalty)
	case c.RepeatPenalty != 0 && !(c.RepeatPenalty >= 0.01 && c.RepeatPenalty <= 100):
		return bad("repeat_penalty", "%v is not in [0.01, 100]", c.RepeatPenalty)
	case len(c.StopTokens) > maxEnds:
		return bad("stop_token_ids", "more than %d tokens", maxEnds)
	case c.MinTokens < 0 || c.MaxTokens != nil && c.MinTokens > *c.MaxTokens:
		return bad("min_tokens", "%d is not in [0, max_tokens]", c.MinTokens)
	case len(c.LogitBias) > maxBiases:
		return bad("logit_bias", "more than %d tokens", maxBiases)
	}
	for _, stop := range c.Stop {
		if stop == "" {
			return bad("stop", "an empty text")
		}
	}
	vocabulary := m.folder.Limits().Vocabulary
	for _, id := range c.StopTokens {
		if id < 0 || id >= vocabulary {
			return bad("stop_token_ids", "%d: there are %d tokens", id, vocabulary)
		}
	}
	for id, bias := range c.LogitBias {
		if id < 0 || id >= vocabulary || !within(bias, 100) {
			return bad("logit_bias", "%v for token %d: there are %d tokens, and a bias is in [-100, 100]", bias, id, vocabulary)
		}
	}
	c.RepetitionPenalty = cmp.Or(c.RepetitionPenalty, c.RepeatPenalty)
	penalizes := c.PresencePenalty != 0 || c.FrequencyPenalty != 0 || cmp.Or(c.RepetitionPenalty, 1) != 1
	if n := c.RepeatLastN; n != nil && *n != -1 && penalizes {
		return unsupported("repeat_last_n", "penalties are for all tokens")
	}
	others := c.Others
	c.Others = nil // they may be as long as the body, and the request may run for long
	return checkForeign(others, foreignFields)
}

// unlimited reports whether a number of tokens says that there is no limit, as for llama.cpp's server and LM Studio.
func unlimited(n *int) bool { return n != nil && *n == -1 }

// within reports whether v is in [-limit, limit].
func within(v, limit float64) bool { return -limit <= v && v <= limit }

// checkTop checks how many of the likeliest tokens are asked for.
func checkTop(param string, n int) error {
	if n < 0 || n > engine.MaxTopLogprobs {
		return bad(param, "%d is not in [0, %d]", n, engine.MaxTopLogprobs)
	}
	return nil
}

// check rejects values out of range and unsupported fields.
func (q *chatRequest) check(m *loaded) error {
	if n := q.MaxCompletionTokens; n != nil {
		if *n < 1 && !unlimited(n) {
			return bad("max_completion_tokens", "%d is less than 1", *n)
		}
		q.MaxTokens = n
	}
	if err := q.common.check(m); err != nil {
		return err
	}
	switch {
	case len(q.Messages) == 0:
		return bad("messages", "there are none")
	case q.TopLogprobs != 0 && !q.Logprobs:
		return bad("top_logprobs", "without logprobs")
	case given(q.Functions):
		return unsupported("functions", "use tools")
	case given(q.Audio):
		return unsupported("audio", "this model writes text")
	case q.toolChoice() == "none":
		q.Tools = nil
	}
	if len(q.Tools) > 0 && !m.tools {
		return unsupported("tools", "this model's chat template does not show tools to the model")
	}
	if err := checkTop("top_logprobs", q.TopLogprobs); err != nil {
		return err
	}
	for i, raw := range q.Tools {
		var t tool
		if json.Unmarshal(raw, &t) != nil || t.Function.Name == "" {
			return bad(fmt.Sprintf("tools.%d", i), "no function with a name")
		}
	}
	return nil
}

// check rejects values out of range and unsupported fields.
func (q *textRequest) check(m *loaded) error {
	switch {
	case q.Echo:
		return unsupported("echo", "the answer contains only what follows the prompt")
	case q.Suffix != "":
		return unsupported("suffix", "this model writes forwards only")
	case q.BestOf != nil && *q.BestOf != 1:
		return unsupported("best_of", "use n")
	case len(q.Prompt.texts)+len(q.Prompt.ids) == 0:
		return bad("prompt", "there is none")
	}
	if err := checkTop("logprobs", first(q.Logprobs, nil, 0)); err != nil {
		return err
	}
	if err := q.common.check(m); err != nil {
		return err
	}
	if n, prompts := first(q.N, nil, 1), len(q.Prompt.texts)+len(q.Prompt.ids); n*prompts > maxChoices {
		return bad("n", "%d for each of %d prompts are more than %d", n, prompts, maxChoices)
	}
	return nil
}
