package engine

import (
	"context"
	"fmt"

	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/generate"
)

// Submit accepts a request and returns the stream of its answer. Cancelling ctx
// ends the request at the next step, which frees its pages.
//
// It fails with [ErrBusy] if Queue requests are already waiting beyond those that can run
// at once, kompute.ErrClosed once the engine is closing, generate.PromptError for a prompt
// that cannot be fed, the errors of the sampling parameters, kompute.ErrInvalid
// for other fields, with the error that has ended the engine, and with that of [model.Model]'s
// Head for a model that only computes states.
func (e *Engine) Submit(ctx context.Context, r Request) (*Stream, error) {
	if !e.made() {
		return nil, engineError(kompute.ErrClosed)
	}
	if err := e.check(&r); err != nil {
		return nil, err
	}
	q := e.sequence(ctx, &r)
	if err := e.enqueue([]*sequence{q}); err != nil {
		return nil, err
	}
	return q.stream, nil
}

// SubmitChoices is Submit for n answers to one prompt, whose seeds count up from the
// request's: either all of them are accepted, or none. The prompt is computed once,
// except for its last tokens, which do not fill a page. It fails with kompute.ErrInvalid
// unless n is in 1 … Queue, and with the errors of Submit.
func (e *Engine) SubmitChoices(ctx context.Context, r Request, n int) ([]*Stream, error) {
	if !e.made() {
		return nil, engineError(kompute.ErrClosed)
	}
	if n < 1 || n > e.config.Queue {
		return nil, fmt.Errorf("%w: %d choices are not in 1 … Queue, %d", kompute.ErrInvalid, n, e.config.Queue)
	}
	if err := e.check(&r); err != nil {
		return nil, err
	}
	all, out := make([]*sequence, n), make([]*Stream, n)
	for i := range all {
		one := r
		one.Sampling.Seed += uint64(i)
		all[i] = e.sequence(ctx, &one)
		all[i].first = all[0]
		out[i] = all[i].stream
	}
	if err := e.enqueue(all); err != nil {
		return nil, err
	}
	return out, nil
}

// sequence makes the sequence of a valid request.
func (e *Engine) sequence(ctx context.Context, r *Request) *sequence {
	q := e.newSequence(ctx, r.Prompt)
	p := newPenalties(r)
	q.request, q.guide = r, newGuide(r, e.limits.Vocabulary, e.tokenizer)
	if q.chooser = newChooser(r, p, q.guide); q.chooser == nil {
		q.penalties, q.biased = p, len(r.LogitBias) > 0
	}
	q.limit = min(r.MaxTokens, e.config.Context-len(r.Prompt)+1) // the last token is not fed, and needs no place
	q.answer = generate.NewAnswer(e.tokenizer, r.EOS, q.limit, r.Stop)
	copy(q.params[:], r.Sampling.Encode(0))
	if e.config.Draft > 0 && q.chooser == nil {
		q.lookup = &lookup{}
		q.lookup.accept(q.tokens)
	}
	return q
}

// enqueue adds sequences to the queue, all of them or none.
func (e *Engine) enqueue(all []*sequence) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	err := all[0].ctx.Err()
	switch {
	case e.err != nil:
		err = e.err
	case e.closing:
		err = engineError(kompute.ErrClosed)
	case len(e.queue.waiting)+len(all) > e.config.Queue+e.queue.places():
		err = ErrBusy
	}
	for _, q := range all {
		if err != nil {
			q.stream.cancel()
			continue
		}
		e.queue.last(q)
		context.AfterFunc(q.ctx, func() { e.cancelled(q) })
	}
	e.wake.Broadcast()
	return err
}
