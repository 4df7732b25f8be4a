package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/llm/generate"
	"github.com/kompute-go/kompute-go/llm/model"
	"github.com/kompute-go/kompute-go/llm/sample"
	"github.com/kompute-go/kompute-go/llm/tokenizer"
)

// Engine generates for many requests at once. Its methods may be called by any
// number of goroutines. One goroutine of its own runs the steps, and sleeps while
// there is nothing to do.
type Engine struct {
	model     model.Model
	tokenizer *tokenizer.Tokenizer
	config    Config
	steps     *stepper
	stop      context.CancelFunc // ends the step that is under way
	stopped   context.Context
	ended     chan struct{} // closed when the goroutine has ended
	free      sync.Once
	freeErr   error
	closed    chan struct{} // and when the memory is free
	closeErr  error         // of that

	mu        sync.Mutex
	wake      *sync.Cond
	scheduler *scheduler
	flights   flights
	working   time.Time // since when the host works on steps; zero: it waits
	closing   bool
	err       error // why no step can be run any more
	stats     Stats
}

// Stats is what an engine has done and does.
type Stats struct {
	Running, Waiting int // requests
	Pages, FreePages int // of the cache; those that only wait to be found again count as free

	Steps           uint64
	StepRequests    uint64        // requests in all steps: their mean is this by Steps
	HostTime        time.Duration // the host's own, on steps: planning, enqueueing, choosing, passing tokens on
	PromptTokens    uint64        // fed from prompts, or again
	GeneratedTokens uint64
	SharedTokens    uint64 // of prompts, that were in the cache already
	DraftedTokens   uint64 // guessed ahead
	AcceptedTokens  uint64 // of those, guessed right
	Preempted       uint64 // times a request gave its pages up and was computed again
}

// New returns an engine for a model, which must stay open until the engine is
// closed. tok decodes what is generated. It fails with kompute.ErrInvalid for a
// configuration that is wrong, and with the errors of the device.
func New(m model.Model, tok *tokenizer.Tokenizer, c Config) (*Engine, error) {
	if m == nil || tok == nil {
		return nil, fmt.Errorf("%w: an engine needs a model and a tokenizer", kompute.ErrInvalid)
	}
	if err := c.fill(m); err != nil {
		return nil, err
	}
	e := &Engine{model: m, tokenizer: tok, config: c, ended: make(chan struct{})}
	var err error
	if e.steps, err = newStepper(m, &e.config); err != nil {
		return nil, err
	}
	e.scheduler = newScheduler(&e.config)
	e.wake = sync.NewCond(&e.mu)
	e.stopped, e.stop = context.WithCancel(context.Background())
	e.resume()
	go e.loop()
	return e, nil
}

// Submit accepts a request and returns its answer as it comes. Cancelling ctx ends
// the request at the next step; its pages are free then.
//
// It fails with [ErrBusy] if Queue requests wait already, kompute.ErrClosed once
// the engine is closing, generate.PromptError for a prompt that cannot be fed,
// the errors of the sampling parameters, kompute.ErrInvalid for other fields, and
// with the error that has ended the engine.
func (e *Engine) Submit(ctx context.Context, r Request) (*Stream, error) {
	if e == nil {
		return nil, fmt.Errorf("engine: %w", kompute.ErrClosed)
	}
	if err := e.check(&r); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	own, cancel := context.WithCancel(ctx)
	q := &sequence{
		request: &r, ctx: own, stream: newStream(cancel), decoder: e.tokenizer.NewDecoder(tokenizer.SkipSpecial),
		stops: stopper{stops: r.Stop}, prompt: len(r.Prompt), chooser: newChooser(&r, e.tokenizer),
		// The last token is not fed, and needs no place.
		limit: min(r.MaxTokens, e.config.Context-len(r.Prompt)+1),
	}
	copy(q.params[:], r.Sampling.Encode(0))
	for _, id := range r.Prompt {
		q.tokens = append(q.tokens, int32(id))
	}
	if e.config.Draft > 0 && q.chooser == nil {
		q.lookup = &lookup{}
		q.lookup.accept(q.tokens)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.err != nil:
		cancel()
		return nil, e.err
	case e.closing:
		cancel()
		return nil, fmt.Errorf("engine: %w", kompute.ErrClosed)
	case len(e.scheduler.queue) >= e.config.Queue:
		cancel()
		return nil, ErrBusy
	}
	e.scheduler.queue = append(e.scheduler.queue, q)
	context.AfterFunc(own, e.wakeUp)
	e.wake.Signal()
	return q.stream, nil
}

func (e *Engine) wakeUp() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.wake.Signal()
}

// Stats returns what the engine has done so far, and does now.
func (e *Engine) Stats() Stats {
	if e == nil {
		return Stats{}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	out, s := e.stats, e.scheduler
	out.Running, out.Waiting = len(s.running), len(s.queue)
	out.Pages, out.FreePages = e.config.pagesFor(e.config.CacheTokens), s.pages.available()
	out.SharedTokens, out.Preempted, out.DraftedTokens = s.shared, s.preempted, s.drafted
	return out
}

// Err returns why the engine can run no step any more, such as a lost device; nil
// while it can.
func (e *Engine) Err() error {
	if e == nil {
		return fmt.Errorf("engine: %w", kompute.ErrClosed)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.err
}

// Close refuses new requests, waits until those that were accepted have their
// answers, and frees the memory. If ctx ends first, it cancels the rest, and
// returns the context's error as well. It returns the error that has ended the
// engine, if one has. Every call waits until the memory is free; closing a nil
// engine does nothing.
func (e *Engine) Close(ctx context.Context) error {
	if e == nil {
		return nil
	}
	e.mu.Lock()
	e.closing = true
	e.wake.Signal()
	e.mu.Unlock()
	var err error
	select {
	case <-e.ended:
	case <-ctx.Done():
		err = ctx.Err()
		e.stop()
		e.wakeUp()
		<-e.ended
	}
	e.free.Do(func() {
		e.stop()
		if e.freeErr = e.steps.close(); e.err != nil {
			e.freeErr = e.err // which the stream repeats
		}
	})
	return errors.Join(err, e.freeErr)
}

// loop runs steps until the engine is closed and nothing is left to do, or until a
// step fails.
func (e *Engine) loop() {
	defer close(e.ended)
	for {
		f, ok := e.next()
		if !ok {
			return
		}
		if f != nil {
			e.fail(e.steps.start(e.stopped, f))
			continue
		}
		f = e.flights.oldest()
		e.pause()
		err := e.steps.wait(e.stopped, f)
		e.resume()
		if err == nil {
			err = e.steps.read(e.stopped, f)
		}
		if err != nil {
			e.fail(err)
			continue
		}
		e.finish(f, chooseAll(f, e.model.Limits().Vocabulary))
	}
}

// pause counts the time that the host has worked on steps.
func (e *Engine) pause() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stats.HostTime += time.Since(e.working)
}

func (e *Engine) resume() { e.working = time.Now() }

// fail notes why no step can be run any more; nil and the end of the engine are no
// reason.
func (e *Engine) fail(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err != nil && e.err == nil && e.stopped.Err() == nil {
		e.err = fmt.Errorf("engine: %w", err)
	}
}

// next waits for work, and returns a step to start, or nil if the oldest one on its
// way has to end first; ok is false at the end.
func (e *Engine) next() (f *flight, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for {
		s := e.scheduler
		e.dropCancelled()
		if e.err != nil || e.stopped.Err() != nil {
			e.failAll()
			return nil, false
		}
		if f := e.flights.next(); f != nil && s.plan(f) {
			e.flights.started()
			return f, true
		}
		if e.flights.oldest() != nil {
			return nil, true
		}
		if e.closing && len(s.queue) == 0 && len(s.running) == 0 {
			return nil, false
		}
		e.stats.HostTime += time.Since(e.working)
		e.wake.Wait()
		e.resume()
	}
}

// dropCancelled ends the requests whose context has ended.
func (e *Engine) dropCancelled() {
	s := e.scheduler
	for _, all := range [][]*sequence{s.running, s.queue} {
		for i := len(all) - 1; i >= 0; i-- { // end takes them out
			if err := all[i].ctx.Err(); err != nil {
				e.end(all[i], generate.FinishCancelled, err)
			}
		}
	}
}

// end ends a request, with an error unless its last token was passed on.
func (e *Engine) end(q *sequence, finish string, err error) {
	q.ended = true
	e.scheduler.leave(q)
	if err != nil {
		q.abort(finish, err)
	}
	q.stream.cancel()
}

// failAll ends every request with the error that has ended the engine, or as
// cancelled.
func (e *Engine) failAll() {
	s, err, finish := e.scheduler, e.err, generate.FinishError
	if err == nil {
		err, finish = fmt.Errorf("engine: %w", kompute.ErrClosed), generate.FinishCancelled
	}
	for _, q := range slices.Concat(s.running, s.queue) {
		e.end(q, finish, err)
	}
}

// finish takes in what a step has given. Sequences that ended while it was on its
// way are left out.
func (e *Engine) finish(f *flight, host []choice) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.flights.landed()
	e.stats.Steps++
	e.stats.StepRequests += uint64(len(f.pieces))
	for i := range f.pieces {
		p := &f.pieces[i]
		if p.chosen == 0 || p.first < p.prompt {
			e.stats.PromptTokens += uint64(p.count)
		}
		if p.chosen == 0 {
			continue
		}
		p.sequence.pending -= p.chosen
		if p.ended {
			continue
		}
		e.take(f, p, host)
	}
}

// take passes on the tokens that were chosen behind a piece: one, or with a draft as
// many as follow from tokens that were guessed right.
func (e *Engine) take(f *flight, p *piece, host []choice) {
	for j := range p.chosen {
		c := choice{id: f.tokens[p.at+j]}
		if p.chooser != nil {
			c = host[p.at+j]
		}
		if c.err == nil {
			c.err = sample.Check(c.id)
		}
		if c.err != nil {
			e.end(p.sequence, generate.FinishError, c.err)
			return
		}
		e.stats.GeneratedTokens++
		if j > 0 {
			e.stats.AcceptedTokens++
		}
		if p.accept(int(c.id), c.about) {
			e.end(p.sequence, "", nil)
			return
		}
		if j < len(p.draft) && int32(c.id) != p.draft[j] {
			break
		}
	}
	if len(p.draft) > 0 && p.running { // what was fed of a wrong guess is fed anew
		p.fed = len(p.tokens) - 1
	}
}
