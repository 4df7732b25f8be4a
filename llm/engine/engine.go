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
	"github.com/kompute-go/kompute-go/llm/tokenizer"
)

// Engine generates for many requests at once. Its methods may be called by any
// number of goroutines. Each of its models has a goroutine that runs the steps,
// and sleeps while there is nothing to do.
type Engine struct {
	limits    model.Limits
	headless  error // of a model that computes no logits: why; nil otherwise
	tokenizer *tokenizer.Tokenizer
	config    Config
	replicas  []*replica
	outbox    *outbox
	stop      context.CancelFunc // cancels the steps in flight
	stopped   context.Context
	ended     chan struct{} // closed when the replicas have ended, and their memory is free

	mu      sync.Mutex
	wake    *sync.Cond
	queue   queue
	idling  bool // whileIdle has the replicas to itself
	closing bool
	err     error // why no more steps can be run
	stats   Stats
}

// Stats describes what an engine has done and is doing, on all of its devices.
type Stats struct {
	Running, Waiting int // requests
	Pages, FreePages int // of the cache; unused ones that are kept for reuse count as free
	Devices          int // that can run steps; one that is being replaced cannot
	Places           int // requests that can run at once on all devices, also on those that are being replaced

	Steps           uint64
	DeviceSteps     []uint64      // of each device, in the order of the hosts
	StepRequests    uint64        // sum over all steps of the requests in them: divided by Steps, their mean
	HostTime        time.Duration // of the host on steps: planning, enqueueing, grammars and log-probabilities, but not passing tokens on, which happens concurrently
	PromptTokens    uint64        // fed from prompts, or fed again
	GeneratedTokens uint64
	SharedTokens    uint64 // of prompts that were already in the cache
	DraftedTokens   uint64 // guessed ahead
	AcceptedTokens  uint64 // those of them that were right
	Preempted       uint64 // how often a request gave up its pages and was computed again
	Replaced        uint64 // how often a lost device was replaced
	Restarted       uint64 // how often steps failed for other reasons, and their requests were computed again
}

var errIncomplete = fmt.Errorf("%w: an engine needs a model and a tokenizer", kompute.ErrInvalid)

// New returns an engine for a model, which must stay open until the engine is closed. tok decodes what is generated. If
// the device is lost, the engine ends with that error; after another error of the device, such as
// kompute.ErrOutOfMemory, it computes the requests again on the same device, at most three times in a row. A request
// that has been computed again three times without getting another token ends with the next such error, if other steps
// finish in between; failures in a row count against the device. New fails with kompute.ErrInvalid for a configuration
// that is wrong, with kompute.ErrDType for a CacheType that keys and values cannot have, and with the errors of the
// device.
func New(m model.Model, tok *tokenizer.Tokenizer, c Config) (*Engine, error) {
	if m == nil || tok == nil {
		return nil, errIncomplete
	}
	return start([]*model.Host{nil}, []model.Model{m}, tok, c)
}

// NewHosted is New with the models of hosts, which must stay open instead. If a device
// is lost, or fails again after New would have given up, its host replaces it, and its
// requests continue where they were: their tokens so far are computed again, which
// repeats or changes no token. A device that is lost already is replaced at once. Once a
// host has used up its replacements, the other hosts take over its requests; when the last
// host fails, the engine ends.
//
// Several hosts, each on a device of its own, are replicas behind one queue: a request
// runs on the device that has the least to do, counting both its present work and what of
// the request's prompt is not in its cache yet. Config applies to each device, except Queue.
// The models must be the same, and so should be the kind of device: a request has the
// same tokens wherever it runs only if the devices round alike.
func NewHosted(hosts []*model.Host, tok *tokenizer.Tokenizer, c Config) (*Engine, error) {
	models := make([]model.Model, len(hosts))
	for i, h := range hosts {
		if h == nil || h.Model() == nil {
			return nil, errIncomplete
		}
		models[i] = h.Model()
		if models[i].Limits() != models[0].Limits() || models[i].DType() != models[0].DType() {
			return nil, fmt.Errorf("%w: the models of an engine differ: %+v and %+v", kompute.ErrInvalid, models[0].Limits(), models[i].Limits())
		}
	}
	if len(hosts) == 0 || tok == nil {
		return nil, errIncomplete
	}
	return start(hosts, models, tok, c)
}

// start makes the replicas and starts them.
func start(hosts []*model.Host, models []model.Model, tok *tokenizer.Tokenizer, c Config) (*Engine, error) {
	if err := c.fill(models[0]); err != nil {
		return nil, err
	}
	e := &Engine{limits: models[0].Limits(), headless: models[0].Head(), tokenizer: tok, config: c, outbox: newOutbox(), ended: make(chan struct{})}
	e.wake = sync.NewCond(&e.mu)
	e.queue.wake = e.wake.Broadcast
	for i, m := range models {
		r, err := newReplica(e, hosts[i], m)
		if err != nil {
			return nil, errors.Join(err, e.discard())
		}
		e.replicas = append(e.replicas, r)
	}
	e.stopped, e.stop = context.WithCancel(context.Background())
	var running sync.WaitGroup
	for _, r := range e.replicas {
		running.Go(r.loop)
	}
	go e.outbox.run()
	go func() {
		running.Wait()
		e.outbox.close()
		close(e.ended)
	}()
	return e, nil
}

// discard frees the replicas of an engine that was not started.
func (e *Engine) discard() error {
	var errs []error
	for _, r := range e.replicas {
		errs = append(errs, r.steps.close())
	}
	return errors.Join(errs...)
}

// cancelled ends a waiting request whose context has ended. For a running one, it
// notifies the replica.
func (e *Engine) cancelled(q *sequence) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if q.on != nil || q.ended.Load() {
		e.wake.Broadcast()
		return
	}
	e.dropCancelled(nil)
}

// Config returns the engine's configuration, with defaults in place of zeros.
func (e *Engine) Config() Config {
	if !e.made() {
		return Config{}
	}
	return e.config
}

// Stats returns what the engine has done so far and is doing now.
func (e *Engine) Stats() Stats {
	if !e.made() {
		return Stats{}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	out := e.stats
	out.Waiting = len(e.queue.waiting)
	for _, s := range e.queue.schedulers {
		out.Places += s.config.Sequences
	}
	for _, r := range e.replicas {
		s := r.scheduler
		out.SharedTokens += s.shared
		out.Preempted += s.preempted
		out.DraftedTokens += s.drafted
		out.DeviceSteps = append(out.DeviceSteps, r.finished)
		if s.open {
			out.Devices++
			out.Running += len(s.running)
			out.Pages += e.config.pagesFor(e.config.CacheTokens)
			out.FreePages += s.pages.available()
		}
	}
	return out
}

// Err returns what has ended the engine, such as a lost device; nil without such an
// error, also once the engine is closed.
func (e *Engine) Err() error {
	if !e.made() {
		return engineError(kompute.ErrClosed)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.err
}

// Close refuses new requests, waits until those that were accepted have their
// answers, and frees the memory. If ctx ends first, it cancels the rest, and
// returns the context's error as well. It returns the error that has ended the
// engine, if any. Every call waits until the memory is freed; closing a nil
// or zero engine does nothing.
func (e *Engine) Close(ctx context.Context) error {
	if !e.made() {
		return nil
	}
	e.mu.Lock()
	e.closing = true
	e.wake.Broadcast()
	e.mu.Unlock()
	var err error
	select {
	case <-e.ended:
	case <-ctx.Done():
		if !e.hasEnded() {
			err = ctx.Err()
		}
		e.stop()
		e.mu.Lock()
		e.wake.Broadcast()
		e.mu.Unlock()
		<-e.ended
	}
	e.stop()
	if e.err != nil { // which the streams repeat
		return errors.Join(err, e.err)
	}
	errs := []error{err}
	for _, r := range e.replicas {
		errs = append(errs, r.closeErr)
	}
	return errors.Join(errs...)
}

// hasEnded reports whether the replicas have ended, and their memory is free.
func (e *Engine) hasEnded() bool {
	select {
	case <-e.ended:
		return true
	default:
		return false
	}
}

// made reports whether the engine is neither nil nor zero.
func (e *Engine) made() bool { return e != nil && e.ended != nil }

func engineError(err error) error { return fmt.Errorf("engine: %w", err) }

// dropCancelled ends the requests among those that run on a replica, and those that
// wait, whose context has ended.
func (e *Engine) dropCancelled(running []*sequence) {
	for _, all := range [][]*sequence{running, e.queue.waiting} {
		for i := len(all) - 1; i >= 0; i-- { // end removes them
			if err := all[i].ctx.Err(); err != nil {
				e.end(all[i], generate.FinishCancelled, err)
			}
		}
	}
}

// end ends a request, with an error unless its last token was passed on.
func (e *Engine) end(q *sequence, finish string, err error) {
	q.ended.Store(true)
	if q.on != nil {
		q.on.leave(q)
	} else {
		e.queue.remove(q)
	}
	if err != nil {
		q.abort(finish, err)
	}
	q.stream.cancel()
	if e.closing {
		e.wake.Broadcast() // it may have been the last one
	}
}

// failAll ends the requests that run on a replica, and those that wait, with the error
// that has ended the engine, or as cancelled.
func (e *Engine) failAll(running []*sequence) {
	err, finish := e.err, generate.FinishError
	if err == nil {
		err, finish = engineError(kompute.ErrClosed), generate.FinishCancelled
	}
	for _, q := range slices.Concat(running, e.queue.waiting) {
		e.end(q, finish, err)
	}
}

// whileIdle calls f with the replicas that are open once no step is in flight, and lets none of them go on until it
// returns. f must leave the others alone: their devices are being replaced, or have failed for good. It is called
// without the lock, since compiling kernels takes long and may log, which may ask for the engine's statistics. whileIdle
// fails with ErrBusy while there are requests.
func (e *Engine) whileIdle(f func(open []*replica) error) error {
	if !e.made() {
		return engineError(kompute.ErrClosed)
	}
	open, err := e.beginIdling()
	if err != nil {
		return err
	}
	defer func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.idling = false
		e.wake.Broadcast()
	}()
	return f(open)
}

// beginIdling sets idling, and returns the replicas that are open.
func (e *Engine) beginIdling() (open []*replica, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for {
		switch {
		case e.err != nil:
			return nil, e.err
		case e.closing:
			return nil, engineError(kompute.ErrClosed)
		case e.queue.busy():
			return nil, ErrBusy
		case !e.idling && !slices.ContainsFunc(e.replicas, func(r *replica) bool { return r.inFlight.oldest() != nil }):
			e.idling = true
			closed := func(r *replica) bool { return !r.scheduler.open }
			return slices.DeleteFunc(slices.Clone(e.replicas), closed), nil
		}
		e.mu.Unlock() // a step that was started before the last answer ended is on its way
		time.Sleep(time.Millisecond)
		e.mu.Lock()
	}
}
