package engine

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/generate"
	"github.com/kompute-go/kompute-go/llm/grammar"
	"github.com/kompute-go/kompute-go/llm/sample"
)

// ErrBusy reports that a request is refused because too many are waiting.
var ErrBusy = errors.New("too many requests are waiting")

// ErrLogitsPanic reports that Request.Logits panicked. The error also has the panic's value and stack.
var ErrLogitsPanic = errors.New("engine: Logits panicked")

// MaxTopLogprobs is the maximum of Request.TopLogprobs, and of the number of Request.LogprobsOf.
const MaxTopLogprobs = 20

// Request is a prompt and how to continue it.
//
// Tokens are chosen on the device, and the next step is enqueued while one runs. Only those of
// requests with Logits are chosen on the host, which waits for each step that has such a request.
// The tokens are the same either way, and where the device allows it (see
// [kompute.WithoutBatchInvariance]) they do not depend on other requests. A request whose logits
// hold a NaN, +Inf or nothing finite ends with [sample.ErrLogits].
type Request struct {
	Prompt    []int // token ids
	MaxTokens int   // most tokens to generate; 0 is generate.DefaultMaxTokens
	Sampling  sample.Params
	// EOS are the tokens that end the turn, usually those of [generate.Folder.EOS].
	// Without any, only the limit of tokens, Stop or Grammar ends it.
	EOS []int
	// Stop ends the text before the first place where one of these appears.
	Stop []string

	RepetitionPenalty, PresencePenalty, FrequencyPenalty float64 // see [sample.Penalties]

	// MinTokens is how many tokens come before one of EOS may be chosen. Stop, and
	// Grammar where nothing can follow, still end the text earlier.
	MinTokens int
	// LogitBias is added to the logits of these tokens. math.Inf(-1) forbids one.
	LogitBias map[int]float64
	// Logits, if not nil, may change the logits before a token is chosen, after the
	// fields above. tokens are the prompt and the answer so far, and must not be
	// changed. An error ends the request with it, and a panic with ErrLogitsPanic. It is called by goroutines of the
	// engine, which waits for it, once for each token; with SubmitChoices, by several of them
	// at once for different choices. It must not use logits after it has returned.
	Logits func(tokens []int32, logits []float32) error
	// Grammar, if not nil, allows only tokens that follow it, after all fields above,
	// and those of EOS only where the text may end; the answer ends when nothing can
	// follow. If it takes too much work to find out what may follow, the request may end with
	// [grammar.ErrWork]. It begins after the text GrammarAfter, such as "</think>", or at once
	// if that is empty; before it, all tokens but those of EOS are free, so that no answer ends
	// without what the grammar requires, unless Stop or MaxTokens cut it off. If the token that
	// completes GrammarAfter has further text after it, that text counts as the beginning of
	// the constrained text if the grammar allows it there, and is free otherwise. The grammar's
	// vocabulary must be the model's.
	//
	// With GrammarTrigger, such as "<tool_call>", the answer is free, also to end, except for the
	// text after each appearance of it, which follows the grammar until nothing can follow there.
	// GrammarAfter comes before the first appearance that counts.
	Grammar                      *grammar.Grammar
	GrammarAfter, GrammarTrigger string
	// Logprobs adds to each token the logarithm of its probability, and the
	// TopLogprobs likeliest tokens with theirs; at most MaxTopLogprobs. They are the
	// model's own, at temperature 1, before any other field has changed them.
	Logprobs    bool
	TopLogprobs int
	// LogprobsOf are at most MaxTopLogprobs tokens whose log-probabilities each token has, too, as
	// its Of, such as those of "yes" and "no" for a model that judges; with Logprobs.
	LogprobsOf []int
}

// check rejects a request that cannot run, fills in defaults, and copies slices
// that the caller may change.
func (e *Engine) check(r *Request) error {
	if e.headless != nil {
		return e.headless
	}
	if r.MaxTokens == 0 {
		r.MaxTokens = generate.DefaultMaxTokens
	}
	if r.MaxTokens < 0 {
		return fmt.Errorf("%w: MaxTokens %d is negative", kompute.ErrInvalid, r.MaxTokens)
	}
	if err := r.Sampling.Validate(); err != nil {
		return err
	}
	if err := generate.CheckStops(r.Stop); err != nil {
		return err
	}
	r.EOS, r.Stop, r.LogitBias = slices.Clone(r.EOS), slices.Clone(r.Stop), maps.Clone(r.LogitBias)
	r.LogprobsOf = slices.Clone(r.LogprobsOf)
	vocabulary := e.limits.Vocabulary
	if err := r.checkChoice(vocabulary); err != nil {
		return err
	}
	return e.checkPrompt(r.Prompt)
}

// checkChoice checks what changes how tokens are chosen.
func (r *Request) checkChoice(vocabulary int) error {
	// Logits are float32.
	finite := func(v float64) bool { return v >= -math.MaxFloat32 && v <= math.MaxFloat32 }
	switch {
	case r.MinTokens < 0 || r.MinTokens > r.MaxTokens:
		return fmt.Errorf("%w: MinTokens %d is not in 0 … MaxTokens, %d", kompute.ErrInvalid, r.MinTokens, r.MaxTokens)
	case r.TopLogprobs < 0 || r.TopLogprobs > MaxTopLogprobs:
		return fmt.Errorf("%w: TopLogprobs %d is not in 0 … %d", kompute.ErrInvalid, r.TopLogprobs, MaxTopLogprobs)
	case r.Grammar != nil && r.Grammar.Vocabulary().Size() != vocabulary:
		return fmt.Errorf("%w: Grammar is for a vocabulary of %d, not of %d", kompute.ErrInvalid, r.Grammar.Vocabulary().Size(), vocabulary)
	case r.Grammar == nil && r.GrammarAfter+r.GrammarTrigger != "":
		return fmt.Errorf("%w: GrammarAfter or GrammarTrigger without Grammar", kompute.ErrInvalid)
	case (r.TopLogprobs > 0 || len(r.LogprobsOf) > 0) && !r.Logprobs:
		return fmt.Errorf("%w: TopLogprobs or LogprobsOf without Logprobs", kompute.ErrInvalid)
	case len(r.LogprobsOf) > MaxTopLogprobs:
		return fmt.Errorf("%w: LogprobsOf %d tokens, of at most %d", kompute.ErrInvalid, len(r.LogprobsOf), MaxTopLogprobs)
	}
	for _, id := range r.LogprobsOf {
		if id < 0 || id >= vocabulary {
			return fmt.Errorf("%w: LogprobsOf token %d, outside the vocabulary of %d", kompute.ErrInvalid, id, vocabulary)
		}
	}
	for id, bias := range r.LogitBias {
		switch {
		case id < 0 || id >= vocabulary:
			return fmt.Errorf("%w: LogitBias of token %d, outside the vocabulary of %d", kompute.ErrInvalid, id, vocabulary)
		case !finite(bias) && !math.IsInf(bias, -1):
			return fmt.Errorf("%w: LogitBias %v of token %d is neither -Inf nor a finite float32", kompute.ErrInvalid, bias, id)
		}
	}
	return r.penalties().Validate()
}

func (r *Request) penalties() sample.Penalties {
	return sample.Penalties{Repetition: r.RepetitionPenalty, Presence: r.PresencePenalty, Frequency: r.FrequencyPenalty}
}

func (e *Engine) checkPrompt(prompt []int) error {
	limits := e.limits
	limits.Context = e.config.Context
	return generate.CheckPrompt(limits, prompt)
}
