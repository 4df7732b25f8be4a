// Package generate turns prompts into text: it opens a model folder with its
// tokenizer and chat template, and runs the decode loop.
//
//	folder, err := generate.Open("path/to/model")
//	prompt, err := folder.EncodeChat(generate.Turn("", "Hi"))
//	m, err := folder.Load(device, model.Options{})
//	session, err := generate.NewSession(m, folder.Tokenizer, 1024)
//	result, err := session.Generate(ctx, prompt, generate.Options{EOS: folder.EOS()})
package generate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/model"
	"github.com/kompute-go/kompute-go/llm/sample"
	"github.com/kompute-go/kompute-go/llm/tokenizer"
	"github.com/kompute-go/kompute-go/ops"
)

// ErrPrompt is what a [PromptError] wraps.
var ErrPrompt = errors.New("invalid prompt")

// PromptError says why a prompt cannot be answered.
type PromptError struct{ Reason string }

// Error gives the reason.
func (e *PromptError) Error() string { return fmt.Sprintf("%v: %s", ErrPrompt, e.Reason) }

// Unwrap returns ErrPrompt.
func (e *PromptError) Unwrap() error { return ErrPrompt }

// Defaults of [Options].
const (
	DefaultMaxTokens   = 256
	DefaultPrefillStep = 512
)

// Options says how to generate. The zero value is greedy, with the defaults.
type Options struct {
	MaxTokens   int // most tokens to generate; 0 is DefaultMaxTokens
	Sampling    sample.Params
	PrefillStep int   // most tokens of the prompt to feed at once; 0 is DefaultPrefillStep
	EOS         []int // tokens that end the turn
	// Eager enqueues the ops of each token one by one, and waits for each token.
	// Otherwise decoding replays a region that was captured once, and the host
	// reads tokens while the next ones are computed. Both give the same tokens.
	Eager bool
	// OnText, if not nil, gets the text as it comes, in whole characters. An
	// error ends the generation, and Generate returns it.
	OnText func(text string) error
	// OnPrefill, if not nil, is told how much of a long prompt has been fed.
	OnPrefill func(done, total int)
}

func (o *Options) fill() error {
	if o.MaxTokens == 0 {
		o.MaxTokens = DefaultMaxTokens
	}
	if o.PrefillStep == 0 {
		o.PrefillStep = DefaultPrefillStep
	}
	if o.MaxTokens < 0 || o.PrefillStep < 0 {
		return fmt.Errorf("%w: MaxTokens %d and PrefillStep %d must not be negative", kompute.ErrInvalid, o.MaxTokens, o.PrefillStep)
	}
	return nil
}

// Generate continues the prompt, token by token, until the model ends its turn,
// MaxTokens are there, the context is full or ctx is cancelled; the last is no
// error, and the result holds what was reached. What the prompt has in common
// with the tokens already in the cache is not fed again.
//
// It fails with PromptError for an empty prompt, one beyond the model's context
// or with tokens outside its vocabulary, with the errors of the sampling
// parameters, with [sample.ErrLogits] where sampling finds nothing to choose from,
// and with those of the device.
func (s *Session) Generate(ctx context.Context, prompt []int, o Options) (*Result, error) {
	if err := errors.Join(o.fill(), o.Sampling.Validate()); err != nil {
		return nil, err
	}
	if err := checkPrompt(s.model.Config(), prompt); err != nil {
		return nil, err
	}
	if err := s.cache.Reserve(s.stream, min(len(prompt)+o.MaxTokens, s.model.Config().MaxPositions)); err != nil {
		return nil, err
	}
	before := s.stream.Stats()
	r := &run{Session: s, options: &o, text: s.words.NewDecoder(true), result: &Result{}}
	err := r.run(ctx, prompt)
	if tail := r.text.Flush(); tail != "" && err == nil {
		err = r.emit(tail)
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		err, r.result.Finish = nil, FinishCancelled
	}
	if err != nil {
		return nil, err
	}
	r.result.Text = r.all.String()
	r.result.Fallbacks = fallbacks(before, s.stream.Stats())
	return r.result, nil
}

// run is one generation.
type run struct {
	*Session
	options *Options
	params  *kompute.Tensor[uint32] // how to sample the tokens that are not replayed; nil is greedy
	text    *tokenizer.Decoder
	all     strings.Builder // the text so far
	result  *Result
	enqueue time.Duration // host time, for tokens after the first
	idle    uint64        // waits for a token while the device had no other to work on
}

func (r *run) run(ctx context.Context, prompt []int) error {
	start := time.Now()
	piece, err := r.resume(prompt)
	if err != nil {
		return err
	}
	r.result.Fed = len(piece)
	if !r.options.Sampling.Greedy() {
		if r.params, err = kompute.New(r.model.Device(), r.options.Sampling.Words(0), ops.SampleWords); err != nil {
			return err
		}
		defer r.params.Close()
	}
	if piece, err = r.prefill(ctx, piece, r.options); err != nil {
		return err
	}
	tokens, err := r.upload(piece)
	if err != nil {
		return err
	}
	next, err := r.step(ctx, tokens, piece)
	if err != nil {
		return err
	}
	first := time.Now()
	r.result.FirstToken = first.Sub(start)
	before := r.counters()
	if r.replays() {
		err = r.replay(ctx)
	} else {
		next, err = r.decode(ctx, next)
	}
	r.result.Decode = time.Since(first)
	r.result.Work = work(before, r.counters(), len(r.result.IDs)-1)
	if next != nil {
		err = errors.Join(err, next.Close())
	}
	return err
}

// decode feeds each token back until something ends the generation. It returns
// the token that was not fed.
func (r *run) decode(ctx context.Context, next *kompute.Tensor[uint32]) (*kompute.Tensor[uint32], error) {
	for {
		id := r.result.IDs[len(r.result.IDs)-1]
		if slices.Contains(r.options.EOS, id) {
			r.result.Finish = FinishStop
			return next, nil
		}
		if err := r.emit(r.text.Push(id)); err != nil {
			return next, err
		}
		if len(r.result.IDs) >= r.options.MaxTokens || r.cache.Len() >= r.model.Config().MaxPositions {
			r.result.Finish = FinishLength
			return next, nil
		}
		if err := ctx.Err(); err != nil {
			return next, err
		}
		var err error
		if next, err = r.step(ctx, next, []int{id}); err != nil {
			return next, err
		}
	}
}

// step feeds tokens, whose numbers are ids, and chooses the next one, which it
// notes and returns on the device, as [1, 1]. It closes tokens.
func (r *run) step(ctx context.Context, tokens *kompute.Tensor[uint32], ids []int) (*kompute.Tensor[uint32], error) {
	sc := r.stream.Scope()
	start := time.Now()
	logits := r.model.Forward(r.stream, model.Pass{Tokens: tokens, Cache: r.cache})
	r.enqueue += time.Since(start)
	r.seen = append(r.seen, ids...)
	next, id, err := r.choose(ctx, sc, logits)
	sc.Close()
	if err = errors.Join(err, tokens.Close()); err != nil {
		if next != nil {
			err = errors.Join(err, next.Close())
		}
		return nil, err
	}
	r.result.IDs = append(r.result.IDs, id)
	return next, nil
}

// choose picks the next token from logits [1, 1, V] on the device, of which the
// host reads four bytes.
func (r *run) choose(ctx context.Context, sc *kompute.Scope, logits *kompute.Tensor[float32]) (*kompute.Tensor[uint32], int, error) {
	next := kompute.Keep(sc, choose(r.stream, logits, r.params, ops.At(len(r.result.IDs))))
	if err := r.start(next); err != nil {
		return next, 0, err
	}
	r.idle++
	var id [1]uint32
	if err := next.ReadInto(ctx, id[:]); err != nil {
		return next, 0, err
	}
	return next, int(id[0]), sample.Check(id[0])
}

// emit passes text on.
func (r *run) emit(text string) error {
	if text == "" {
		return nil
	}
	r.all.WriteString(text)
	if r.options.OnText == nil {
		return nil
	}
	return r.options.OnText(text)
}
