package generate

import (
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/model"
	"github.com/kompute-go/kompute-go/llm/sample"
)

// ErrPrompt is wrapped by every [PromptError].
var ErrPrompt = errors.New("invalid prompt")

// PromptError reports why a prompt cannot be answered.
type PromptError struct{ Reason string }

// Error gives the reason.
func (e *PromptError) Error() string { return fmt.Sprintf("%v: %s", ErrPrompt, e.Reason) }

// Unwrap returns ErrPrompt.
func (e *PromptError) Unwrap() error { return ErrPrompt }

// DefaultMaxTokens is the default of [Options].MaxTokens.
const DefaultMaxTokens = 256

// DefaultPrefillStep returns the default of [Options].PrefillStep for a device: 2,048 on
// a discrete GPU, which computes many rows faster than few, and 512 elsewhere, where the
// device would be busy for long with one submission, also after a cancellation.
func DefaultPrefillStep(d *kompute.Device) int {
	if d.Info().Type == "discrete" {
		return 2048
	}
	return 512
}

// Options are the options of a generation. The zero value is greedy, with the
// defaults.
type Options struct {
	MaxTokens   int // maximum number of tokens to generate; 0 is DefaultMaxTokens
	Sampling    sample.Params
	Penalties   sample.Penalties // for tokens that the prompt or the answer contains already
	PrefillStep int              // maximum number of prompt tokens to feed at once, fewer without memory for them; 0 is that of [DefaultPrefillStep]
	// EOS are the tokens that end the turn, usually those of [Folder.EOS]. Without any,
	// only the limit of tokens or Stop ends it.
	EOS []int
	// Stop ends the text before the first place where one of these appears.
	Stop []string
	// Eager enqueues the ops of the prompt and of each token one by one, and waits for
	// each token. Otherwise prompts replay a region for each size that has come before,
	// and decoding replays one that was captured once; the host reads tokens while the
	// next ones are computed. Both give the same tokens,
	// but the last bits of a prompt's logits may differ.
	Eager bool
	// OnText, if not nil, gets the text as it is generated, in whole
	// characters. If it returns an error, the generation ends with that error.
	OnText func(text string) error
	// OnPrefill, if not nil, is told how much of a long prompt has been fed. Without memory
	// for it, the prompt is fed again from its first token on.
	OnPrefill func(done, total int)
}

func (o *Options) fill(d *kompute.Device) error {
	if o.MaxTokens == 0 {
		o.MaxTokens = DefaultMaxTokens
	}
	if o.PrefillStep == 0 {
		o.PrefillStep = DefaultPrefillStep(d)
	}
	if o.MaxTokens < 0 {
		return fmt.Errorf("%w: MaxTokens %d is negative", kompute.ErrInvalid, o.MaxTokens)
	}
	if o.PrefillStep < 0 {
		return fmt.Errorf("%w: PrefillStep %d is negative", kompute.ErrInvalid, o.PrefillStep)
	}
	return CheckStops(o.Stop)
}

// CheckStops rejects stop strings that are empty or not valid UTF-8, with
// kompute.ErrInvalid.
func CheckStops(stops []string) error {
	for _, stop := range stops {
		if stop == "" || !utf8.ValidString(stop) {
			return fmt.Errorf("%w: the stop string %q is empty or not valid UTF-8", kompute.ErrInvalid, stop)
		}
	}
	return nil
}

// CheckPrompt rejects, with PromptError, tokens that a model with these limits cannot be
// fed: none, more than the context, or some outside the vocabulary.
func CheckPrompt(l model.Limits, prompt []int) error {
	switch {
	case len(prompt) == 0:
		return &PromptError{"empty"}
	case len(prompt) > l.Context:
		return &PromptError{fmt.Sprintf("%d tokens exceed the context of %d", len(prompt), l.Context)}
	}
	for i, id := range prompt {
		if id < 0 || id >= l.Vocabulary {
			return &PromptError{fmt.Sprintf("token %d, at %d, is outside the model's vocabulary of %d", id, i, l.Vocabulary)}
		}
	}
	return nil
}
