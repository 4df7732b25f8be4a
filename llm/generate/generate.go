// Package generate turns prompts into text: it opens a model folder with its
// tokenizer and chat template, and runs the decode loop.
//
//	folder, err := generate.Open("path/to/model")
//	prompt, err := folder.EncodeChat(ctx, generate.Turn("", "Hi"))
//	m, err := folder.Load(ctx, device, model.Options{})
//	session, err := generate.NewSession(m, folder.Tokenizer, 1024)
//	result, err := session.Generate(ctx, prompt, generate.Options{EOS: folder.EOS()})
package generate

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"slices"
	"strings"

	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/ops"
)

// The reasons why a generation ends.
const (
	FinishStop      = "stop"      // the model ended its turn
	FinishLength    = "length"    // the limit of tokens, or the end of the context
	FinishCancelled = "cancelled" // the context was cancelled, or its deadline has passed
	FinishError     = "error"     // anything else went wrong, or the caller stopped
)

// Result is the outcome of a generation.
type Result struct {
	IDs    []int  // generated tokens, including the one that ended the turn
	Text   string // their text, without special tokens
	Finish string // FinishStop, FinishLength, FinishCancelled or FinishError
	// Logprobs has one entry for each token, if they were asked for.
	Logprobs []Logprob
}

// Logprob is the natural logarithm of a token's probability.
type Logprob struct {
	ID    int
	Value float64
	Top   []Logprob // the likeliest tokens in its place, the likeliest first
	Of    []Logprob // the tokens that were asked for, in their order
}

// Token is one token as it is generated.
type Token struct {
	ID   int
	Text string // the text that the token completes, in whole characters; often ""
	// Finish is FinishStop or FinishLength at the last token, else "".
	Finish string
	// Stop is the stop string before which the answer ends, "" if it does not end with one.
	Stop string
	// Logprob is the token's, if it was asked for.
	Logprob *Logprob
}

// Generate continues the prompt, token by token, until the model ends its turn,
// MaxTokens are there or the context is full. Tokens at the beginning of the
// prompt that the session still remembers are not fed again.
//
// If ctx is cancelled, it returns the result so far and the context's error. It
// does the same for any other error that ends a generation: [sample.ErrLogits] if
// there is nothing to choose from, OnText's own, and those of the device. The
// session remains usable.
//
// It returns no result and PromptError for an empty prompt, one beyond the
// model's context or with tokens outside its vocabulary; the errors of the
// sampling parameters, and kompute.ErrInvalid for other options that are wrong;
// kompute.ErrClosed on a closed session; kompute.ErrInvalid if called by OnText
// or in a loop over Tokens, during another generation; and the errors of the device if it cannot even begin,
// such as kompute.ErrOutOfMemory where the prompt does not fit.
func (s *Session) Generate(ctx context.Context, prompt []int, o Options) (*Result, error) {
	return s.generate(ctx, prompt, o, func(Token) error { return nil })
}

// errBreak ends a generation whose consumer has left the loop.
var errBreak = errors.New("the caller has left the loop")

// Tokens is Generate as an iterator over the tokens. An error comes last, with
// the zero token. Leaving the loop ends the generation, and the session remains
// usable. Each use of the iterator is a new generation.
func (s *Session) Tokens(ctx context.Context, prompt []int, o Options) iter.Seq2[Token, error] {
	return func(yield func(Token, error) bool) {
		_, err := s.generate(ctx, prompt, o, func(t Token) error {
			if !yield(t, nil) {
				return errBreak
			}
			return nil
		})
		if err != nil && !errors.Is(err, errBreak) {
			yield(Token{}, err)
		}
	}
}

// generate gives each token to onToken, after its text to OnText.
func (s *Session) generate(ctx context.Context, prompt []int, o Options, onToken func(Token) error) (*Result, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	s.busy = true
	defer func() { s.busy = false }()
	if err := errors.Join(o.fill(s.model.Device()), o.Sampling.Validate(), o.Penalties.Validate()); err != nil {
		return nil, err
	}
	limits := s.model.Limits()
	if err := CheckPrompt(limits, prompt); err != nil {
		return nil, err
	}
	// The last token is not fed, and needs no place.
	limit := min(o.MaxTokens, limits.Context-len(prompt)+1)
	if err := s.prepare(ctx, min(len(prompt)+limit, limits.Context)); err != nil {
		return nil, err
	}
	if s.pieceLimit > 0 {
		o.PrefillStep = min(o.PrefillStep, s.pieceLimit)
	}
	g := &generation{
		Session: s, options: &o, onToken: onToken, answer: NewAnswer(s.tokenizer, o.EOS, limit, o.Stop),
		limit: limit, meter: s.newMeter(),
	}
	err := g.runInMemory(ctx, prompt)
	for err != nil && s.host != nil {
		if err = g.replace(ctx, err, len(prompt)); err == nil {
			err = g.runInMemory(ctx, prompt)
		} else {
			break
		}
	}
	switch {
	case errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		g.finish = FinishCancelled
	case err != nil:
		g.finish = FinishError
	}
	if g.finish == FinishCancelled || g.finish == FinishError {
		g.all.WriteString(g.answer.Rest())
	}
	s.stats = g.meter.stats(len(g.ids))
	return &Result{IDs: g.ids, Text: g.all.String(), Finish: g.finish}, err
}

// generation is one run of a session.
type generation struct {
	*Session
	options *Options
	onToken func(Token) error
	limit   int                     // the most tokens to generate
	params  *kompute.Tensor[uint32] // how to sample what is not replayed; nil is greedy
	applied *penalties              // the session's, if there are any
	answer  *Answer
	ids     []int
	first   int             // how many of them there were when run began
	reading bool            // run has not read all of the prompt
	all     strings.Builder // the text so far
	finish  string
	meter   *meter
}

// replace replaces a lost device.
func (g *generation) replace(ctx context.Context, cause error, prompt int) error {
	g.meter.leave()
	if err := g.replaceLost(ctx, g.model, cause, prompt+g.limit); err != nil {
		return err
	}
	g.meter.moved()
	return nil
}

// runInMemory runs the generation from its last token on. If there is no memory for the
// prompt, it tries again with nothing captured, and with ever smaller pieces.
func (g *generation) runInMemory(ctx context.Context, prompt []int) error {
	for again := false; ; again = true {
		tokens := slices.Concat(prompt, g.ids)
		err := g.run(ctx, tokens)
		short := errors.Is(err, kompute.ErrOutOfMemory) || errors.Is(err, kompute.ErrTooLarge)
		step := min(g.options.PrefillStep, len(tokens))
		smaller := max(step/2, fewestRows)
		if !short || !g.reading || ctx.Err() != nil || again && smaller >= step {
			return err
		}
		if smaller < step {
			g.options.PrefillStep, g.pieceLimit = smaller, smaller
		}
		g.meter.leave()
		if failed := g.restart(g.state.Capacity()); failed != nil {
			return errors.Join(err, failed)
		}
		g.meter.restarted()
		d := g.model.Device()
		d.Logger().Warn("there was no memory for a prompt: the session starts again",
			slog.Int("tokens at once", g.options.PrefillStep), slog.String("reason", err.Error()), slog.String("device", d.Info().Name))
	}
}

// run feeds the prompt, whose last tokens may have been generated earlier, and
// passes on the tokens that follow.
func (g *generation) run(ctx context.Context, prompt []int) (err error) {
	g.first = len(g.ids)
	if !g.options.Sampling.Greedy() {
		if g.params, err = kompute.New(g.model.Device(), g.options.Sampling.Encode(uint64(g.first)), ops.SampleParamsSize); err != nil {
			return err
		}
		defer g.params.Close()
	}
	g.reading = true
	if err := g.beginPenalties(prompt); err != nil {
		return err
	}
	token, err := g.read(ctx, prompt)
	if err != nil {
		return err
	}
	g.reading = false
	src, err := g.source(token)
	if err != nil {
		return errors.Join(err, token.Close())
	}
	defer func() { err = errors.Join(err, src.close()) }() // also if the consumer of the tokens panics
	return g.decode(ctx, src)
}

// beginPenalties prepares the penalties of a run.
func (g *generation) beginPenalties(prompt []int) (err error) {
	g.applied = nil
	if g.options.Penalties.None() {
		return nil
	}
	if g.penalties == nil {
		if g.penalties, err = newPenalties(g.model.Device(), g.model.Limits().Vocabulary); err != nil {
			return err
		}
	}
	g.applied = g.penalties
	asked := len(prompt) - g.first // what follows was generated by earlier runs
	return g.applied.begin(g.stream, g.options.Penalties, prompt[:asked], prompt[asked:])
}

// decode passes tokens on until the generation ends.
func (g *generation) decode(ctx context.Context, src source) error {
	for {
		id, err := src.next(ctx)
		if err != nil {
			return err
		}
		g.ids = append(g.ids, id)
		if len(g.ids) == g.first+1 {
			g.meter.firstToken(len(g.ids))
		}
		token := g.answer.Add(id)
		g.finish = token.Finish
		var failed error
		if g.finish == "" && ctx.Err() == nil {
			failed = src.ahead()
		}
		// Its text would be lost otherwise: the answer does not return it again.
		if err := g.emit(token); err != nil {
			return err
		}
		if failed != nil {
			return failed
		}
		if g.finish != "" {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// emit passes a token on.
func (g *generation) emit(token Token) error {
	g.all.WriteString(token.Text)
	if token.Text != "" && g.options.OnText != nil {
		if err := g.options.OnText(token.Text); err != nil {
			return err
		}
	}
	return g.onToken(token)
}
