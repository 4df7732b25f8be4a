package engine

import (
	"errors"
	"fmt"

	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/generate"
	"github.com/kompute-go/kompute-go/llm/sample"
)

// ErrBusy says that so many requests wait that another one is refused.
var ErrBusy = errors.New("too many requests are waiting")

// Request is a prompt and how to continue it.
type Request struct {
	Prompt    []int // token ids
	MaxTokens int   // most tokens to generate; 0 is generate.DefaultMaxTokens
	Sampling  sample.Params
	EOS       []int // tokens that end the turn
	// Stop ends the text before the first place where one of these appears.
	Stop []string
}

// check refuses a request that cannot run, and fills in defaults.
func (e *Engine) check(r *Request) error {
	if r.MaxTokens == 0 {
		r.MaxTokens = generate.DefaultMaxTokens
	}
	if r.MaxTokens < 0 {
		return fmt.Errorf("%w: MaxTokens %d is negative", kompute.ErrInvalid, r.MaxTokens)
	}
	if err := r.Sampling.Validate(); err != nil {
		return err
	}
	for _, stop := range r.Stop {
		if stop == "" {
			return fmt.Errorf("%w: an empty stop string", kompute.ErrInvalid)
		}
	}
	switch n := len(r.Prompt); {
	case n == 0:
		return &generate.PromptError{Reason: "empty"}
	case n > e.config.Context:
		return &generate.PromptError{Reason: fmt.Sprintf("%d tokens exceed the context of %d", n, e.config.Context)}
	}
	for i, id := range r.Prompt {
		if id < 0 || id >= e.model.Limits().Vocabulary {
			return &generate.PromptError{Reason: fmt.Sprintf("token %d, at %d, is outside the model's vocabulary of %d", id, i, e.model.Limits().Vocabulary)}
		}
	}
	return nil
}
